"""The recordings of one process: the rings of its partitions, and the answers to clients.

Everything is bounded. All rings together take at most the bytes of the config :data:`BYTES_MAX`. A
partition whose state is too large for its share is not recorded. A newly led partition is not
recorded until its turn comes: packing a state takes milliseconds, so it happens at most once in
:data:`STATE_INTERVAL_MS`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from failover.recording.tape import Segment, Tape
from protocol.wire.apis import API, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from failover.recording.tape import Entry
    from protocol.groups.effects import Ticket

BYTES_MAX: Final = "incident.recording.max.bytes"
"""The config for how many bytes are kept; 0: nothing is recorded."""

SWITCHED_OFF: Final = f"{BYTES_MAX} is 0, or less than it was"

STATE_INTERVAL_MS: Final = 250
TOO_LARGE_MS: Final = 60_000
"""A state that was too large is not retried sooner than this."""

GROUP_KEYS: Final = frozenset(
    api.key for api in API.values() if api.route in (Route.GROUP, Route.GROUPS)
)

ANSWERS_SHARE: Final = 4
"""One in this many bytes is for answers."""

ANSWER_BYTES: Final = 150
"""What an answer takes in addition to its own bytes."""

STATES_SHARE: Final = 8
"""A state may take one in this many bytes of its segment: otherwise packing it is not worth it."""


class Recording(NamedTuple):
    """A partition's ring at one moment: ``answers`` are the frames sent, by ticket."""

    partition: int
    why: str
    state: bytes
    shared: tuple[object, ...]
    entries: tuple[Entry, ...]
    answers: Mapping[Ticket, bytes]


class Recorder:
    """Gives each partition its ring, and keeps the answers of all of them."""

    def __init__(self, bytes_max: int = 0) -> None:
        self._bytes_max = 0
        self.segment_bytes = 0
        """The size at which a segment is full; 0: nothing is recorded."""
        self.tapes: dict[int, Tape] = {}
        self._answers: deque[tuple[Ticket, bytes]] = deque()
        self._answers_size = 0
        self._state_ms = 0
        self._faults: dict[int, tuple[Tape, str]] = {}
        self.limit(bytes_max)

    def limit(self, bytes_max: int) -> None:
        """Set the limit in bytes; if it is lower than before, all rings restart."""
        if bytes_max < self._bytes_max:
            for tape in self.tapes.values():
                tape.clear(SWITCHED_OFF)
            self._answers.clear()
            self._answers_size = 0
        if bytes_max != self._bytes_max:
            self._bytes_max = bytes_max
            self.share_out()

    def tape_for(self, partition: int) -> Tape:
        """Start and return the ring of a partition that has loaded; drop its previous ring."""
        tape = self.tapes[partition] = Tape(partition)
        self.share_out()
        return tape

    def share_out(self) -> None:
        """Give each recorded partition an equal share of the space."""
        recorded = sum(tape.newer is not None for tape in self.tapes.values())
        room = self._bytes_max - self._bytes_max // ANSWERS_SHARE
        was_on, self.segment_bytes = self.segment_bytes > 0, room // (2 * max(recorded, 1))
        if was_on != (self.segment_bytes > 0):
            for tape in self.tapes.values():
                tape.switched()

    @property
    def state_bytes_max(self) -> int:
        """Return how many bytes a state may have."""
        return self.segment_bytes // STATES_SHARE

    def may_pack(self, now: int) -> bool:
        """Whether a state may be packed now; if so, no other may be for a while."""
        if now < self._state_ms:
            return False
        self._state_ms = now + STATE_INTERVAL_MS
        return True

    def answered(self, api_key: int, ticket: Ticket, answer: bytes) -> None:
        """Keep the frame sent to a client, if its group has answered."""
        if api_key not in GROUP_KEYS or not self.segment_bytes:
            return
        self._answers.append((ticket, answer))
        self._answers_size += ANSWER_BYTES + len(answer)
        while self._answers_size > self._bytes_max // ANSWERS_SHARE:
            _, oldest = self._answers.popleft()
            self._answers_size -= ANSWER_BYTES + len(oldest)

    # --- faults and reading

    def fault(self, tape: Tape, why: str) -> None:
        """Note that something failed; :meth:`take_faults` returns the ring as of that moment."""
        if tape.newer is not None:
            self._faults.setdefault(tape.partition, (tape, why))

    def take_faults(self, is_due: Callable[[int], bool] = lambda _: True) -> list[Recording]:
        """Remove and return the rings of the partitions that failed since the last call.

        The rings of partitions that are not due are dropped, and not copied.
        """
        if not self._faults:
            return []
        faults, self._faults = self._faults, {}
        return [
            self._recording(tape, why)
            for number, (tape, why) in faults.items()
            if tape.newer is not None  # otherwise it was cleared later in the turn
            and is_due(number)
        ]

    def recordings(self, why: str) -> list[Recording]:
        """Return the rings of all recorded partitions."""
        recorded = [tape for tape in self.tapes.values() if tape.newer is not None]
        return [self._recording(tape, why) for tape in recorded]

    def missing(self, partitions: Iterable[int]) -> tuple[tuple[int, str], ...]:
        """Return, for each of these partitions that is not recorded, the reason."""
        tapes = [self.tapes[number] for number in partitions]
        why_not = SWITCHED_OFF if not self._bytes_max else None
        return tuple(
            (tape.partition, why_not or tape.why_not) for tape in tapes if tape.newer is None
        )

    def _recording(self, tape: Tape, why: str) -> Recording:
        segments = [each for each in (tape.older, tape.newer) if each is not None]
        first: Segment = segments[0]
        return Recording(
            partition=tape.partition,
            why=why,
            state=first.state,
            shared=tuple(first.shared),
            entries=tuple(entry for segment in segments for entry in segment.entries),
            answers=dict(self._answers),
        )
