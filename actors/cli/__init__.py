"""The ``rollcall`` command: a module for each subcommand, and the requests that they send."""

from actors.cli.main import entry

__all__ = ("entry",)
