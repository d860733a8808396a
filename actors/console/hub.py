"""One place that asks the source for all who look: each question once, and not too often.

Nothing is asked in advance, and nothing when nobody looks. What is kept is bounded: the groups that
were looked at last, points of the charts, and what changed lately.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from actors.clock import boot_ms, wall_ms
from actors.console.selection import AT_REST
from actors.console.source import SourceError
from protocol.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from actors.console.source import Cluster, ConsoleSource, GroupDetail, GroupList

_Value = TypeVar("_Value")
_log = logging.getLogger("rollcall.console")

PACE_MS: Final = 2_000
"""The same question is not asked more often than this."""

SLOW_PACE_MS: Final = 5_000
"""The same, while it has the same answer, or another one each time."""

CHANGES_MAX: Final = 5
"""After so many changes in a row, a question is one that has another answer each time."""

TAKES_SHARE: Final = 20
"""A question that takes long is asked less often: this many times as long passes between two."""

PACE_MS_MAX: Final = 30_000
ANSWER_S: Final = 30.0
"""How long a source may take to answer; then it has no answer."""

GROUPS_KEPT: Final = 64
"""Groups whose details are kept, those that were looked at last."""

POINTS_MAX: Final = 600
HAPPENED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in the charts: all groups together."""

    time_ms: int
    groups: int
    members: int
    rebalancing: int
    rebalances_per_minute: float


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """Something that changed in the cluster between two looks, as a sentence."""

    time_ms: int
    text: str


class Shared(Generic[_Value]):
    """One question: all who ask while it is under way, or shortly after, share one answer."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[_Value]],
        pace_ms: int,
        clock_ms: Callable[[], int],
        essence: Callable[[_Value], object] | None = None,
    ) -> None:
        """``pace_ms`` is how long an answer serves at least; 0: only those who wait for it.

        An answer with the ``essence`` of the one before serves for SLOW_PACE_MS, and so does one
        that follows CHANGES_MAX others with an essence of their own.
        """
        self._ask = ask
        self._pace_ms = pace_ms
        self._clock_ms = clock_ms
        self._essence = essence
        self._known: object = None
        self._changes = 0
        self._asking: asyncio.Task[_Value] | None = None
        self._until_ms = 0

    def outdate(self) -> None:
        """Let the known answer serve no longer."""
        self._until_ms = 0

    async def get(self) -> _Value:
        """Return the answer; raises :class:`SourceError`."""
        asking = self._asking
        if asking is None or (asking.done() and self._clock_ms() >= self._until_ms):
            asking = self._asking = asyncio.create_task(self._asked())
            asking.add_done_callback(_seen)
        return await asyncio.shield(asking)

    async def _asked(self) -> _Value:
        began_ms, pace_ms = self._clock_ms(), self._pace_ms
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._ask()
            if self._essence is not None:
                before, self._known = self._known, self._essence(found)
                self._changes = 0 if before == self._known else self._changes + 1
                if not 1 <= self._changes <= CHANGES_MAX:
                    pace_ms = SLOW_PACE_MS
            return found
        except TimeoutError:
            raise SourceError("There was no answer in time.") from None
        except SourceError:
            raise
        except Exception as error:
            _log.exception("a question to the source failed")
            raise SourceError(f"This failed: {reason(error)}.") from error
        finally:
            now_ms = self._clock_ms()
            took_ms = TAKES_SHARE * (now_ms - began_ms)
            self._until_ms = now_ms + (min(max(pace_ms, took_ms), PACE_MS_MAX) if pace_ms else 0)


def _of_list(found: GroupList) -> object:
    return found.groups, found.notes


def _of_group(found: GroupDetail | None) -> object:
    """Leave out what changes all the time: offsets, and what is left of sessions."""
    if found is None:
        return None
    members = [(each.member_id, each.epoch, each.owned, each.target) for each in found.members]
    return found.summary, found.epoch, found.target_epoch, members, found.stories, found.now


def _of_cluster(found: Cluster) -> object:
    """Leave out what changes all the time: how many records partitions have, and leases."""
    states = [(each.node_id, each.state) for each in found.nodes]
    partitions = [(each.title, each.leader, each.epoch, each.in_sync) for each in found.partitions]
    return states, partitions, found.problems


class Hub:
    """Shares the answers of one source."""

    def __init__(
        self,
        source: ConsoleSource,
        clock_ms: Callable[[], int] = wall_ms,
        steady_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self.source = source
        self.points: deque[Point] = deque(maxlen=POINTS_MAX)
        self.happened: deque[ClusterChange] = deque(maxlen=HAPPENED_MAX)
        self._clock_ms = clock_ms
        self._steady_ms = steady_ms
        self._groups = Shared(self._ask_groups, PACE_MS, steady_ms, _of_list)
        self._cluster = Shared(self._ask_cluster, PACE_MS, steady_ms, _of_cluster)
        self._metrics = Shared(source.metrics, PACE_MS, steady_ms)
        self._status = Shared(source.status, 0, steady_ms)
        self._details: OrderedDict[str, Shared[GroupDetail | None]] = OrderedDict()
        self._counts: dict[str, int] = {}
        self._counted_ms = 0
        self._leaders: dict[str, tuple[int | None, int | None]] = {}
        self._states: dict[int, str] = {}

    def now(self) -> int:
        """Return the time (Unix ms)."""
        return self._clock_ms()

    async def groups(self) -> GroupList:
        """Return all groups."""
        return await self._groups.get()

    async def cluster(self) -> Cluster:
        """Return the cluster."""
        return await self._cluster.get()

    async def metrics(self) -> str | None:
        """Return the metrics as Prometheus reads them."""
        return await self._metrics.get()

    async def status(self) -> Mapping[str, object] | None:
        """Return the status: never one that was there before the question."""
        return await self._status.get()

    async def group(self, group_id: str) -> GroupDetail | None:
        """Return one group; None: there is none."""
        shared = self._details.get(group_id)
        if shared is None:
            ask = partial(self.source.group, group_id)
            shared = self._details[group_id] = Shared(ask, PACE_MS, self._steady_ms, _of_group)
            if len(self._details) > GROUPS_KEPT:
                self._details.popitem(last=False)
        self._details.move_to_end(group_id)
        return await shared.get()

    def acted(self, text: str) -> None:
        """Show what an operator did, and ask soon what became of it."""
        self._tell(text)
        self._cluster.outdate()

    def points_since(self, time_ms: int) -> Sequence[Point]:
        """Return the points of the charts after a time."""
        return [each for each in self.points if each.time_ms > time_ms]

    async def _ask_groups(self) -> GroupList:
        found = await self.source.groups()
        now_ms = self._clock_ms()
        counts = {each.group_id: each.rebalances or 0 for each in found.groups}
        passed_ms = now_ms - self._counted_ms
        risen = 0
        if self._counted_ms and passed_ms > 0:
            risen = sum(  # a group whose coordinator was replaced is counted from 0 again
                max(count - self._counts.get(group_id, 0), 0) for group_id, count in counts.items()
            )
        kept = self._counts if found.notes else {}  # groups of a silent node come back
        self._counts, self._counted_ms = {**kept, **counts}, now_ms
        self.points.append(
            Point(
                now_ms,
                len(found.groups),
                sum(each.members or 0 for each in found.groups),
                sum(each.state not in AT_REST for each in found.groups),
                round(risen * 60_000 / max(passed_ms, 1), 1),
            )
        )
        return found

    async def _ask_cluster(self) -> Cluster:
        found = await self.source.cluster()
        leaders = {each.title: (each.leader, each.epoch) for each in found.partitions}
        for title, (leader, epoch) in leaders.items():
            before, _ = self._leaders.get(title, (leader, epoch))
            if before != leader:
                self._tell(f"{title}: leader {_node(before)} → {_node(leader)}, epoch {epoch}")
        states = {each.node_id: each.state for each in found.nodes}
        for node_id, state in states.items():
            was = self._states.get(node_id, state)
            if was != state:
                self._tell(f"node {node_id}: {was} → {state}")
        self._leaders, self._states = leaders, states
        return found

    def _tell(self, text: str) -> None:
        self.happened.append(ClusterChange(self._clock_ms(), text))


def _node(node_id: int | None) -> str:
    return "none" if node_id is None else str(node_id)


def _seen(asked: asyncio.Task[_Value]) -> None:
    """Look at an error, so that nothing is logged if those who asked have gone."""
    if not asked.cancelled():
        asked.exception()
