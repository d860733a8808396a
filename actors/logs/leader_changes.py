"""Changes of who leads a partition, as log lines: where one node leads from when, and why."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from actors.logs.line_format import utc
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SINGLY_MAX: Final = 3
"""Changes with one reason that have a line each; more of them share a line."""

NAMED_MAX: Final = 12
"""Partitions that a line names; the others are counted."""

LINES_MAX: Final = 12
"""The lines of one batch of changes; the others are counted."""

CHANGES: Final = "changes"
"""The field of a line that has its changes as values: no format of log lines prints it."""


class ChangeReason(StrEnum):
    """Why a node begins to lead a partition, or stops."""

    ALONE = "alone"
    HANDED_OVER = "handed-over"
    UNREACHABLE = "unreachable"
    ADVISED = "advised"
    NO_LEADER = "no-leader"
    SILENT = "silent"
    AGAIN = "again"
    DRAINED = "drained"
    DISK_FULL = "disk-full"
    MOVED = "moved"
    NO_MAJORITY = "no-majority"
    NO_VOTER = "no-voter"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"


BEGINNINGS: Final[Mapping[ChangeReason, str]] = MappingProxyType(
    {
        ChangeReason.ALONE: "there is no other replica",
        ChangeReason.HANDED_OVER: "node {node}, the leader before, handed over",
        ChangeReason.UNREACHABLE: "node {node}, the leader before, cannot be reached",
        ChangeReason.ADVISED: "there was no leader, and the controller asked this node to stand",
        ChangeReason.NO_LEADER: "no leader was known",
        ChangeReason.SILENT: "node {node}, the leader before, was silent or stopped leading",
        ChangeReason.AGAIN: "it was the leader before, too",
    }
)
ENDS: Final[Mapping[ChangeReason, str]] = MappingProxyType(
    {
        ChangeReason.DRAINED: "this coordinator hands over all that it leads",
        ChangeReason.DISK_FULL: "the disk of this node is full, and another node has room",
        ChangeReason.MOVED: "the controller asked this node to hand over to node {node}",
        ChangeReason.NO_MAJORITY: "no majority of the replicas answered in time",
        ChangeReason.NO_VOTER: "the replica on this node does not vote any more",
        ChangeReason.SUPERSEDED: "another election began",
        ChangeReason.STOPPED: "this coordinator stops serving",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """This node begins to lead a partition in an epoch, or stops, at a time (Unix ms).

    ``node`` is the other node that the reason is about. ``leader`` is who leads it after an end, as
    far as is known (-1: not known).
    """

    partition: int
    epoch: int
    at_ms: int
    begins: bool
    reason: ChangeReason
    node: int = -1
    leader: int = -1

    @property
    def why(self) -> str:
        """The reason in words."""
        said = (BEGINNINGS if self.begins else ENDS)[self.reason].format(node=self.node)
        return said if self.leader < 0 else f"{said}; node {self.leader} leads now"

    @property
    def fields(self) -> Mapping[str, Any]:
        """What a line about this change alone says in fields of its own."""
        return {"partition": title_of(self.partition), "epoch": self.epoch}


def leader_messages(changes: Iterable[LeaderChange]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return log lines with their fields: a line for each change, or one for many that are alike.

    There are at most :data:`LINES_MAX` and one more. Each change is in :data:`CHANGES` of one line.
    """
    alike: dict[tuple[bool, str], list[LeaderChange]] = {}
    for change in changes:
        alike.setdefault((change.begins, change.why), []).append(change)
    lines = [line for found in alike.values() for line in _lines(found)]
    yield from lines[:LINES_MAX]
    left = [fields for _, fields in lines[LINES_MAX:]]
    if left:
        more = f"{len(left)} more lines about changes of leaders were left out"
        yield more, {CHANGES: tuple(chain.from_iterable(fields[CHANGES] for fields in left))}


class LeaderChanges(logging.Handler):
    """Hands over the changes that log lines are about, in the thread that logs; ``told`` gets each.

    Lines below INFO are not needed; a logger that logs less than INFO hands over nothing.
    """

    def __init__(self, told: Callable[[LeaderChange], None]) -> None:
        super().__init__(logging.INFO)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over what a line is about."""
        for change in getattr(record, CHANGES, ()):
            self._told(change)


def _lines(changes: Sequence[LeaderChange]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if len(changes) <= SINGLY_MAX:
        for change in changes:
            fields = {**change.fields, CHANGES: (change,)}
            yield f"{_what(change)} {_where(change)}{_tail(change)}", fields
        return
    first = min(changes, key=lambda change: change.at_ms)
    named = ", ".join(_where(change) for change in changes[:NAMED_MAX])
    more = len(changes) - NAMED_MAX
    others = f" and {more} more" if more > 0 else ""
    yield (
        f"{_what(first)} {len(changes)} partitions{_tail(first)}: {named}{others}",
        {CHANGES: (*changes,)},
    )


def _what(change: LeaderChange) -> str:
    return "this node leads" if change.begins else "this node no longer leads"


def _where(change: LeaderChange) -> str:
    return f"{title_of(change.partition)} (epoch {change.epoch})"


def _tail(change: LeaderChange) -> str:
    return f" since {utc(change.at_ms)}, as {change.why}"
