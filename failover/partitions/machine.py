"""The interface of a replicated state machine, and what a partition must know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from protocol.groups.effects import GroupFailed, Result
    from protocol.records import Record
    from storage.batch import RawRecord


class StateMachine(Protocol):
    """The replicated machine: one class for each kind of partition."""

    @property
    def has_groups(self) -> bool:
        """Whether a leader change affects clients: there are groups or offsets."""

    def handle(self, event: Any, now: int, /) -> Result:
        """Handle one event; the records in the result are already applied."""

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""

    def groups_of(self, event: Any, /) -> Sequence[str] | None:
        """Return the groups whose memory may differ after an event raised; None: any may."""

    def take_failures(self) -> Sequence[GroupFailed]:
        """Remove and return the groups that failed on their own, within an event that succeeded."""

    def forget(self, group_id: str, /) -> None:
        """Drop everything known about a group; its records are replayed next."""

    def restored(self, group_id: str, now: int, /) -> Result:
        """Resume a group whose records were replayed."""

    def next_deadline(self) -> int | None:
        """When the next ``TimersDue`` is due."""

    def shift_deadlines(self, stall_ms: int, /) -> None:
        """Shift all deadlines by the time that this process stood still."""


@dataclass(frozen=True, slots=True)
class MachineAdapter:
    """What a partition must know about its machine.

    ``group_of`` names the group whose answers wait for a record, given its key; ``not_leader`` is
    the answer to waiting clients when leadership is lost. ``replay_rows`` replays many encoded
    records faster than one by one; it returns how many, and how many were of unknown types.
    ``prefixes_of`` are the first bytes of the keys of a group's records. With ``tells_commits``,
    standbys hear of a commit at once and write it to the state at once: they show it to clients,
    even right after a restart.
    """

    encode: Callable[[Record], RawRecord]
    decode: Callable[[bytes, bytes | None], Record]
    group_of: Callable[[Any], str]
    prefixes_of: Callable[[str], tuple[bytes, ...]]
    not_leader: ErrorCode = ErrorCode.not_coordinator
    tells_commits: bool = False
    replay_rows: Callable[[Any, Iterable[RawRecord]], tuple[int, int]] | None = None
