"""The exit codes of commands, and the errors that end one: a sentence for the operator each."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
    """What a command says by its exit code; probes and systemd units rely on these numbers."""

    OK = 0
    FAILURE = 1
    BAD_INPUT = 2
    NO_CLUSTER = 3
    DEGRADED = 4
    NO_LEADER = 5
    ALREADY_RUNNING = 6


MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "done; `status`: all is well",
        ExitCode.FAILURE: "it failed, as the message says",
        ExitCode.BAD_INPUT: "the command or a config is wrong; trying again does not help",
        ExitCode.NO_CLUSTER: "no cluster is running there, or no coordinator answers",
        ExitCode.DEGRADED: (
            "`status`: all partitions have a leader; replicas, coordinators or hosts are missing"
        ),
        ExitCode.NO_LEADER: "`status`: a partition has no leader, and its groups wait",
        ExitCode.ALREADY_RUNNING: "`up`: a cluster runs on this Ray already",
    }
)
"""The meaning of each exit code, for `rollcall --help` and the manual."""


class CommandError(Exception):
    """Ends the command; ``str(error)`` is one sentence."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE


class FailureError(CommandError):
    """An operation failed."""


class BadInputError(CommandError):
    """The command or its configuration is invalid."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


class NoClusterError(FailureError):
    """There is no such cluster, or nothing of it answers."""

    exit_code: ClassVar[ExitCode] = ExitCode.NO_CLUSTER


class NoRayError(BadInputError):
    """No Ray answers where one was asked for."""

    exit_code: ClassVar[ExitCode] = ExitCode.NO_CLUSTER


class AlreadyRunningError(BadInputError):
    """The cluster that should be started runs already."""

    exit_code: ClassVar[ExitCode] = ExitCode.ALREADY_RUNNING


def error_with(exit_code: int, sentence: str) -> CommandError:
    """Return the error that a child process ended with."""
    kinds = (BadInputError, NoRayError, AlreadyRunningError)
    kind = next((one for one in kinds if one.exit_code == exit_code), FailureError)
    return kind(sentence)
