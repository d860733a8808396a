"""The ring of one partition: the events of its groups since a packed state.

It has two segments, each with the state at its start. When the newer one is full, the older one is
dropped and a new one starts. So there are between one and two segments at any time, and they can be
replayed from the first state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Entry: TypeAlias = "tuple[str, int, Any, tuple[int, ...], Any]"
"""A :class:`Step` as a plain tuple, which the garbage collector can skip."""

ENTRY_BYTES: Final = 400
"""The overhead of an entry: the tuples, the numbers, the header of the bytes."""

NOT_LED: Final = "nothing was asked of it since it is led here"


class What:
    """The kinds of steps, by their names in a dump."""

    REQUEST: Final = "request"
    """A client's request: ticket, API key and version, how many follow, client, frame."""
    EVENT: Final = "event"
    """Any other event, as an object; also a request that never was a frame."""
    FAILURES: Final = "failures"
    """The groups that failed on their own were taken."""
    FORGET: Final = "forget"
    REPLAY: Final = "replay"
    RESTORED: Final = "restored"
    """A group was dropped, its records were replayed, and it resumed."""
    FORGIVE: Final = "forgive"
    """All deadlines were shifted later."""
    WALL: Final = "wall"
    """The clock of records changed: how far it is ahead, and whether it is settled."""
    TOPICS: Final = "topics"
    CONFIGS: Final = "configs"
    GROUP_CONFIGS: Final = "group configs"
    """The images of the catalogue were replaced."""


class Step(NamedTuple):
    """An event of the groups, and its result.

    ``now`` is the time of the process in ms. ``sessions`` are the ends of the sessions that were
    checked (ms): repeated heartbeats move them, and nothing else is recorded of those heartbeats.
    ``outcome`` is an :class:`Outcome`.
    """

    what: str
    now: int
    data: Any
    sessions: tuple[int, ...] = ()
    outcome: Any = None


class Outcome(NamedTuple):
    """How many records an event caused, the tickets it answered, and why it failed, if it did."""

    records: int
    tickets: tuple[int, ...]
    failure: str = ""


@dataclass(slots=True, eq=False)
class Segment:
    """Some entries, and the packed state before the first of them; ``size`` in bytes."""

    state: bytes
    shared: list[object]
    entries: list[Entry] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True, eq=False)
class Tape:
    """The two segments of a partition, the older first; none while nothing is recorded.

    ``why_not`` is the reason for that.
    """

    partition: int
    older: Segment | None = None
    newer: Segment | None = None
    retry_ms: int = 0
    why_not: str = NOT_LED
    switched: Callable[[], None] = lambda: None
    """Called when recording starts or stops."""

    def begin(self, segment: Segment) -> None:
        """Start another segment."""
        self.older, self.newer = self.newer, segment

    def clear(self, why_not: str) -> None:
        """Forget everything."""
        self.older = self.newer = None
        self.why_not = why_not
