"""Errors that end a command: one sentence for the operator, and an exit code."""

from __future__ import annotations

from typing import ClassVar


class CommandError(Exception):
    """Ends the command; ``str(error)`` is one sentence."""

    exit_code: ClassVar[int] = 1


class FailureError(CommandError):
    """An operation failed."""


class BadInputError(CommandError):
    """The command or its configuration is invalid."""

    exit_code: ClassVar[int] = 2
