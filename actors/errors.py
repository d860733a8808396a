"""What ends a command: one sentence for the one who typed it, and an exit code."""

from __future__ import annotations

from typing import ClassVar


class CommandError(Exception):
    """Ends the command; ``str(error)`` is one sentence."""

    exit_code: ClassVar[int] = 1


class FailureError(CommandError):
    """Something did not work."""


class BadInputError(CommandError):
    """What was asked for can not be done as it was asked."""

    exit_code: ClassVar[int] = 2
