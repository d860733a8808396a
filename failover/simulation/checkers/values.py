"""Treat committed offsets as registers: which writes explain which reads.

Every commit in a simulation writes a unique value, so a read identifies the write it saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from failover.common_time import AGREE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

Place: TypeAlias = tuple[str, str, int]
"""Group id, topic, partition."""

FOREVER: Final = 1 << 60
CLASSIC: Final = "group-"
"""The prefixes of the ids of groups of classic members."""

EARLY: Final = 0.9
"""Clocks may run this much too fast."""

SLOW_MS: Final = AGREE_MS
"""A record's time may be this far behind: clocks that differ by less agree."""


@dataclass(slots=True)
class Write:
    """One commit: when it first reached a coordinator, and when it was acknowledged, if ever."""

    start: int
    end: int = FOREVER
    is_refused: bool = False


@dataclass(slots=True)
class Register:
    """One place. ``acknowledged`` holds (end, latest start of all acknowledged until then).

    ``erasures`` are writes of nothing: an offset that is deleted, or may expire.
    """

    writes: dict[int, Write] = field(default_factory=dict)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    erasures: list[Write] = field(default_factory=list)

    def acknowledge(self, write: Write, now: int) -> None:
        """Note that a write was acknowledged, if not noted before."""
        if write.end == FOREVER:
            write.end = now
            latest = self.acknowledged[-1][1] if self.acknowledged else -1
            self.acknowledged.append((now, max(latest, write.start)))


@dataclass(slots=True)
class Erasures:
    """What a request to delete offsets of a group erases, place by place.

    A request to delete the whole group erases new places as well, until it is over.
    """

    group_id: str
    start: int
    by_place: list[tuple[Place, Write]] = field(default_factory=list)
    is_over: bool = False


class Values:
    """All places, and what may be read from them.

    ``retention_ms`` is the minimum time for which unused offsets are kept. ``late`` are the groups
    with a commit whose time was ahead: it expires late.
    """

    def __init__(self, retention_ms: int = FOREVER) -> None:
        self._retention_ms = int(EARLY * retention_ms) - (SLOW_MS if retention_ms < FOREVER else 0)
        self._contacts: dict[str, int] = {}
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._last = 0
        self._places: dict[Place, Register] = {}
        self._deleted: set[str] = set()
        self._group_erasures: dict[str, list[Erasures]] = {}
        self.late: set[str] = set()

    def draw(self) -> int:
        """Return a value that was never committed before."""
        self._last += 1
        return self._last

    def places(self) -> list[Place]:
        """Return every place that a commit tried to write."""
        return list(self._places)

    def asked(self, place: Place, value: int, now: int) -> None:
        """Note that a commit reached a coordinator."""
        if place[1] not in self._deleted:
            self._register(place).writes.setdefault(value, Write(now))

    def _register(self, place: Place) -> Register:
        """Return a place's register; requests to delete its group may erase it."""
        register = self._places.get(place)
        if register is None:
            register = self._places[place] = Register()
            erasures = self._group_erasures.get(place[0], ())
            for each in (one for one in erasures if not one.is_over):
                self._erase(place, each)
        return register

    def acknowledged(self, place: Place, value: int, now: int) -> None:
        """Note that a commit was acknowledged."""
        register = self._places.get(place)
        if register is None:
            return
        register.acknowledge(register.writes[value], now)

    def refused(self, place: Place, value: int) -> None:
        """Note that a commit was finally refused: no read may ever return it."""
        if place in self._places:
            self._places[place].writes[value].is_refused = True

    def contact(self, group_id: str, now: int) -> None:
        """Note that a member of a group was heard from."""
        before = self._contacts.get(group_id, now)
        self._contacts[group_id] = now
        if now - before >= self._retention_ms:
            self._gaps.setdefault(group_id, []).append((before, now))

    def _may_have_expired(self, place: Place, committed: int, now: int) -> bool:
        """Return whether a commit of that time may have expired: its group may have been empty.

        In groups that may have members of the consumer protocol, and without members, the commit's
        age counts.
        """
        group_id = place[0]
        if now - committed < self._retention_ms:
            return False
        if not group_id.startswith(CLASSIC):
            return True
        gaps = [*self._gaps.get(group_id, ()), (self._contacts.get(group_id, committed), now)]
        return any(
            end - max(start, committed) >= self._retention_ms
            for start, end in gaps
            if end > committed
        )

    def erases(self, group_id: str, places: Iterable[Place], now: int) -> Erasures:
        """Note that a request to delete offsets of a group reached a coordinator."""
        erasures = Erasures(group_id, now)
        for place in places:
            if place[1] not in self._deleted:
                self._register(place)
                self._erase(place, erasures)
        return erasures

    def erases_group(self, group_id: str, now: int) -> Erasures:
        """Note that a request to delete a group reached a coordinator."""
        places = [place for place in self._places if place[0] == group_id]
        erasures = self.erases(group_id, places, now)
        self._group_erasures.setdefault(group_id, []).append(erasures)
        return erasures

    def _erase(self, place: Place, erasures: Erasures) -> None:
        erasure = Write(erasures.start)
        self._places[place].erasures.append(erasure)
        erasures.by_place.append((place, erasure))

    def erased(self, place: Place, erasure: Write, now: int) -> None:
        """Note that a deletion was acknowledged."""
        register = self._places.get(place)
        if register is not None:
            register.acknowledge(erasure, now)

    def forget(self) -> None:
        """Note that everything has expired."""
        self.late.clear()
        self._places.clear()
        self._group_erasures.clear()

    def topic_deleted(self, topic: str) -> None:
        """Note that a topic is being deleted: any read under its name is valid now."""
        self._deleted.add(topic)
        for place in [place for place in self._places if place[1] == topic]:
            del self._places[place]

    def was_deleted(self, topic: str) -> bool:
        """Return whether the deletion of a topic of this name was ever requested."""
        return topic in self._deleted

    def explain(self, place: Place, value: int, began: int, now: int = 0) -> str:
        """Return why a read that started at ``began`` may not return this; empty when it may."""
        register = self._places.get(place)
        if register is None:
            is_well = value == -1 or place[1] in self._deleted
            return "" if is_well else f"{value} was read where nothing was ever committed"
        newest_start = -1
        for end, latest in reversed(register.acknowledged):
            if end < began:
                newest_start = latest
                break
        if value == -1:
            may_be_erased = any(
                not erasure.is_refused and newest_start <= erasure.end
                for erasure in register.erasures
            )
            is_well = (
                newest_start < 0
                or may_be_erased
                or self._may_have_expired(place, newest_start, now)
            )
            return "" if is_well else "an acknowledged commit is lost: nothing is there"
        write = register.writes.get(value)
        if write is None:
            return f"{value} was read, which nobody committed"
        if write.is_refused:
            return f"{value} was read, which had been refused"
        if newest_start > write.end:
            return f"an acknowledged commit or deletion is lost: {value} was read, which is older"
        return ""
