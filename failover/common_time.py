"""The time agreed on by the clocks of the whole cluster: for records, not for leases.

A wall clock may be wrong when a process starts, and may be set while it runs. A leader whose clock
is ahead would expire the offsets of all groups. One whose clock is behind would write records that
look old to the next leader. So nodes send each other the readings of their wall clocks:

* While a majority of the cluster agrees with this node's clock, that is the time.
* When a majority of the cluster agrees on another time, theirs is.
* Otherwise it is the latest of the known clocks, and it is never set back: a record that looks
  old would be expired by the next leader, one from the future is only kept for longer.
* Nothing expires while no majority agrees, and for a while after the time was set.

The differences to ``now`` are stored, not times: a late message makes a clock look slow, never
fast, so the largest difference of the last messages counts.

When the wall clock moved ahead of the steady one (:meth:`CommonTime.jumped`), the machine may have
stood still. Then its ``now`` stood still too, and earlier readings look as old as the freeze was
long. Until a majority is heard again, the time is the previous one, moved by the jump: correct
after a freeze, whatever this node's clock shows, and ahead if an operator set the clock.

Pure: the driver reads the wall clock (``Host.clock_read``), messages carry it to the others.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from storage.quorum import majority

AGREE_MS: Final = 30_000
"""Clocks that differ by less than this agree: retention times are minutes at least."""

JUMP_MS: Final = 10_000
"""A time that moved by more than this at once was set."""

SETTLED_MS: Final = 600_000
"""For this long after the time was set nothing expires: it may be set again."""

TELL_MS: Final = 10_000
"""How often a node sends its clock reading to the others."""

FORGET_MS: Final = 60_000
"""After this long without a message a node's clock is unknown."""

KEPT: Final = 3
"""How many of a node's last messages count; the largest difference among them is used."""

LATE_MS: Final = 1_000
"""A clock that is suddenly further ahead than this was set, or ours stood still."""

IN_FLIGHT_MS: Final = 10_000
"""For this long after ours stood still, messages from before or during the freeze may arrive."""


class _Moved(NamedTuple):
    """What to add to ``now`` if the machine stood still, as noticed at ``at``."""

    offset_ms: int
    at: int


class CommonTime:
    """One node's estimate of the time. ``offset_ms`` is what to add to its ``now``."""

    def __init__(self, nodes: int) -> None:
        """``nodes`` is how many nodes the cluster has."""
        self._needed = majority(nodes)
        self._own: int | None = None
        self._others: dict[int, deque[tuple[int, int]]] = {}
        self._unsettled_until: int | None = None
        self._told_at: int | None = None
        self._is_agreed = False
        self._moved: _Moved | None = None  # until a majority is heard
        self._believed_ms = 0  # as a majority last agreed, or as this node's clock started
        self.offset_ms = 0

    def read(self, wall_ms: int, now: int) -> None:
        """Take a reading of this node's wall clock."""
        before, self._own = self._own, wall_ms - now
        if before is not None and abs(self._own - before) > JUMP_MS:
            self._told_at = None  # tell the others at once
        self._decide(now, is_first=before is None)

    def jumped(self, moved_ms: int, wall_ms: int, now: int) -> None:
        """Take a reading of this node's wall clock after it moved by ``moved_ms`` against ``now``.

        It was set or, if it moved ahead, the machine may have stood still. A clock that was wrong
        and is now right was set.
        """
        if self._own is None:
            return
        own_ms = wall_ms - now
        was_wrong = abs(own_ms - moved_ms - self.offset_ms) > AGREE_MS
        is_right = abs(own_ms - self.offset_ms) <= AGREE_MS
        if moved_ms > LATE_MS and not (was_wrong and is_right):
            self._moved = _Moved(self.offset_ms + moved_ms, now)
            for heard in self._others.values():
                aged = [(offset_ms, now - FORGET_MS) for offset_ms, _ in heard]
                heard.clear()
                heard.extend(aged)
        self.read(wall_ms, now)

    def told(self, node_id: int, wall_ms: int, now: int) -> bool:
        """Take another node's clock reading; return whether ours may have stood still."""
        heard = self._others.setdefault(node_id, deque(maxlen=KEPT))
        before = max((offset_ms for offset_ms, _ in heard), default=None)
        if not self._may_be_old(wall_ms - now, now):
            heard.append((wall_ms - now, now))
            self._decide(now, is_first=False)
        return before is not None and wall_ms - now > before + LATE_MS

    def shown(self, now: int) -> int | None:
        """Return the reading of this node's wall clock; None: it was never read."""
        return None if self._own is None else now + self._own

    def is_settled(self, now: int) -> bool:
        """Whether the time is agreed on, and was not set a moment ago."""
        is_calm = self._unsettled_until is None or now >= self._unsettled_until
        return self._is_agreed and is_calm

    def is_to_be_told(self, now: int) -> bool:
        """Whether to send this node's clock reading to the others; call it before sending."""
        if self._told_at is not None and now - self._told_at < TELL_MS:
            return False
        self._told_at = now
        return True

    def _decide(self, now: int, *, is_first: bool) -> None:
        if self._own is None:
            return
        others = self._known(now)
        offset_ms = self._own
        self._is_agreed = _agreeing(offset_ms, [offset_ms, *others]) >= self._needed
        if not self._is_agreed:
            for candidate in others:
                if _agreeing(candidate, others) >= self._needed:
                    near = [each for each in others if abs(each - candidate) <= AGREE_MS]
                    offset_ms, self._is_agreed = near[len(near) // 2], True
                    break
            else:
                offset_ms = self._latest([offset_ms, *others], is_first=is_first)
        moved = self._moved
        if moved is not None and not self._is_agreed and now - moved.at < FORGET_MS:
            offset_ms = moved.offset_ms
        elif moved is not None and now - moved.at >= IN_FLIGHT_MS:
            self._moved = None
        if self._is_agreed and not is_first and abs(offset_ms - self._believed_ms) > JUMP_MS:
            self._unsettled_until = now + SETTLED_MS
        if self._is_agreed or is_first:
            self._believed_ms = offset_ms
        self.offset_ms = offset_ms

    def _latest(self, offsets: list[int], *, is_first: bool) -> int:
        """Return the latest of the known times: not one to which ours would be set back."""
        latest = max(offsets)
        is_back = not is_first and self.offset_ms - latest > JUMP_MS
        return self.offset_ms if is_back else latest

    def _may_be_old(self, offset_ms: int, now: int) -> bool:
        """Whether a message may be late because our clock stood still while it was in transit."""
        moved = self._moved
        if moved is None or now - moved.at >= IN_FLIGHT_MS:
            return False
        return offset_ms < moved.offset_ms - AGREE_MS

    def _known(self, now: int) -> list[int]:
        """Return the differences of the nodes that were heard from recently, in order."""
        found = []
        for heard in self._others.values():
            fresh = [offset_ms for offset_ms, at in heard if now - at < FORGET_MS]
            if fresh:
                found.append(max(fresh))
        return sorted(found)


def _agreeing(offset_ms: int, offsets: list[int]) -> int:
    return sum(abs(each - offset_ms) <= AGREE_MS for each in offsets)
