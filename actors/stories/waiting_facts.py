"""Facts on their way from the event loop to a thread: bounded in number and in bytes.

A fact refers to assignments and texts of clients, which stay in memory for as long as it waits. So
what waits is counted in bytes; what is shared with other facts, or with the group, counts too.
"""

from __future__ import annotations

import threading
from dataclasses import fields
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args

from protocol.groups.facts import Fact, GroupReconciled, MemberEvent, RebalanceEnded, TargetAssigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.groups.facts import NamedMember, TargetChange

BYTES_MAX: Final = 128 << 20
"""Bytes of facts that wait; one more may begin below this, however large it is."""

FACT_BYTES: Final = 512
"""What a fact takes beside what is counted."""

CHARACTER_BYTES: Final = 4
"""What a character takes at most."""

ENTRY_BYTES: Final = 128
"""The same for an entry of a mapping or a sequence."""

LINGER_S: Final = 0.05
"""The wait for more facts of a burst, so that the event loop does not compete for each."""

BATCH_MAX: Final = 500

T = TypeVar("T")


class WaitingFacts(Generic[T]):
    """A queue from any thread to one."""

    def __init__(
        self, size_of: Callable[[T], int], count_max: int, bytes_max: int = BYTES_MAX
    ) -> None:
        self._size_of = size_of
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._queue: SimpleQueue[tuple[T, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = 0
        self._taken_bytes = 0

    def put(self, item: T) -> bool:
        """Add what waits, if there is room; return whether there was. Never blocks."""
        if not self.has_room:
            return False
        size = self._size_of(item)
        with self._lock:
            self._bytes += size
        self._queue.put((item, size))
        return True

    def wake(self) -> None:
        """Let the thread look once, though nothing waits."""
        self._queue.put(None)

    @property
    def has_room(self) -> bool:
        """Whether another one may wait."""
        return self._queue.qsize() < self._count_max and self._bytes < self._bytes_max

    @property
    def count(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._queue.empty()

    @property
    def size(self) -> int:
        """How many bytes wait, or are with the thread."""
        return self._bytes

    def take(self, closing: threading.Event, timeout_s: float | None = None) -> list[T]:
        """Wait for facts and return a batch; empty after the timeout, or if it was woken.

        What was taken before is done with: only now it has room for others.
        """
        with self._lock:
            self._bytes -= self._taken_bytes
        self._taken_bytes = 0
        try:
            taken = [self._queue.get(timeout=timeout_s)]
        except Empty:
            return []
        closing.wait(LINGER_S)
        while len(taken) < BATCH_MAX and not self._queue.empty():
            taken.append(self._queue.get())
        found = [each for each in taken if each is not None]
        self._taken_bytes = sum(size for _, size in found)
        return [item for item, _ in found]


def size_of(fact: Fact) -> int:
    """Return about how many bytes a fact keeps in memory.

    Each fact goes to several queues, one after the other: it is measured for the first only.
    """
    last, size = _last_measured[0]
    if last is not fact:
        size = _measure(fact)
        _last_measured[0] = fact, size
    return size


_last_measured: Final[list[tuple[Fact | None, int]]] = [(None, 0)]


def _measure(fact: Fact) -> int:
    size = FACT_BYTES + _texts(fact)
    match fact:
        case RebalanceEnded():
            for assignments in (fact.assignments_before, fact.assignments_after):
                size += ENTRY_BYTES * len(assignments) + sum(map(len, assignments.values()))
            for members in (fact.members_before, fact.members_after):
                size += sum([len(each.subscription) for each in members])
            if fact.last_joined is not None:
                size += _texts(fact.last_joined)
        case TargetAssigned():
            size += 0 if fact.change is None else _change(fact.change)
            size += _named(fact.awaited) + _named(each.member for each in fact.taken_over)
            if isinstance(fact.cause, MemberEvent):
                size += _texts(fact.cause)
        case GroupReconciled():
            size += _named(each.member for each in fact.taken_over)
            size += 0 if fact.last is None else _named((fact.last,))
    return size


def _texts(fact: object) -> int:
    return CHARACTER_BYTES * sum(map(len, filter(None, _TEXTS[type(fact)](fact))))


def _texts_of(kind: Any) -> Callable[[object], tuple[str | None, ...]]:
    """Return what reads the texts of a fact: ids, names, reasons."""
    texts = [each.name for each in fields(kind) if each.type in ("str", "str | None")]
    return attrgetter(*texts, texts[0])  # of one name alone it would return no tuple


_TEXTS: Final = {kind: _texts_of(kind) for kind in get_args(Fact)}
"""By the type of a fact; this is on the event loop."""


def _change(change: TargetChange) -> int:
    before, after = change.before, change.after
    entries = len(before) + len(after) + len(change.members)
    targets = sum(map(len, before.values())) + sum([len(value) for _, value in after])
    return ENTRY_BYTES * entries + targets


def _named(members: Iterable[NamedMember]) -> int:
    return sum(
        ENTRY_BYTES + CHARACTER_BYTES * (len(member_id) + len(metadata.client_id))
        for member_id, metadata in members
    )
