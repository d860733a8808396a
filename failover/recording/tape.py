"""The ring of one partition: what its groups were told, from a packed state on.

It has two segments, each with the state at its beginning. When the newer one is full, the older one
goes and another begins. So between one and two segments are there at any time, and what is there
can be replayed from its first state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Entry: TypeAlias = "tuple[str, int, Any, tuple[int, ...], Any]"
"""A :class:`Step` as a plain tuple, which the garbage collector need not look at again."""

ENTRY_BYTES: Final = 400
"""What an entry takes beside the bytes in it: the tuples, the numbers, the head of the bytes."""

NOT_LED: Final = "nothing was asked of it since it is led here"


class What:
    """The kinds of steps, by their names in a dump."""

    REQUEST: Final = "request"
    """A client's request: ticket, API key and version, how many follow, client, frame."""
    EVENT: Final = "event"
    """Any other event, as an object; a request that was never a frame, too."""
    FAILURES: Final = "failures"
    """The groups that failed by themselves were taken out."""
    FORGET: Final = "forget"
    REPLAY: Final = "replay"
    RESTORED: Final = "restored"
    """A group was dropped, its records were replayed, and it went on."""
    FORGIVE: Final = "forgive"
    """All deadlines moved later."""
    WALL: Final = "wall"
    """The clock of records is another one: how far it is ahead, and whether it is settled."""
    TOPICS: Final = "topics"
    CONFIGS: Final = "configs"
    GROUP_CONFIGS: Final = "group configs"
    """The images of the catalogue were replaced."""


class Step(NamedTuple):
    """What the groups were told, and what came of it.

    ``now`` is the time of the process in ms. ``sessions`` are the ends of the sessions that were
    looked at (ms): repeated heartbeats move them, of which nothing else is known here. ``outcome``
    is what :class:`Outcome` says.
    """

    what: str
    now: int
    data: Any
    sessions: tuple[int, ...] = ()
    outcome: Any = None


class Outcome(NamedTuple):
    """How many records an event led to, the tickets it answered, and why it failed if it did."""

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
    """Two segments of a partition, the older one first; none while nothing is recorded.

    ``why_not`` says why not.
    """

    partition: int
    older: Segment | None = None
    newer: Segment | None = None
    retry_ms: int = 0
    why_not: str = NOT_LED
    switched: Callable[[], None] = lambda: None
    """Called when recording begins or ends."""

    def begin(self, segment: Segment) -> None:
        """Go on with another segment."""
        self.older, self.newer = self.newer, segment

    def clear(self, why_not: str) -> None:
        """Forget everything."""
        self.older = self.newer = None
        self.why_not = why_not
