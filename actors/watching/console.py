"""What the console shows of a watched Kafka: the groups as their records have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from actors.console.exposition import exposition
from actors.console.source import (
    Cluster,
    GroupDetail,
    GroupList,
    ListedGroup,
    Member,
    Offset,
    SourceError,
)
from actors.watching.failures import TOPIC
from actors.watching.lag import GROUPS_AT_ONCE, WatchedLag
from protocol.watching import group_view, overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.telemetry.group_metrics import GroupMetrics
    from actors.watching.ends import PartitionEnds
    from actors.watching.session import WatchSession
    from protocol.watching.group_view import MemberView
    from protocol.watching.overview import GroupRow

_Result = TypeVar("_Result")

THREADS: Final = 2
INFERRED: Final = "No log records why a member went: a cause is inferred where a sentence says so."
INFERRED_STATE: Final = (
    "Of a classic group only complete generations are recorded: its state is inferred."
)
READ_ONLY: Final = "A watched Kafka is only read."
READING: Final = "The log is being read: groups may be missing."


class WatchedSource:
    """Answers from the state of one session; reads it on threads, under its lock."""

    may_act = may_drill = False

    def __init__(
        self, session: WatchSession, bootstrap: str, ends: PartitionEnds, metrics: GroupMetrics
    ) -> None:
        self.title = f"Kafka at {bootstrap}"
        self._bootstrap = bootstrap
        self._session = session
        self._ends = ends
        self._lag = WatchedLag(session, ends, metrics)
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(THREADS, "watched")

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def groups(self) -> GroupList:
        """Return all groups."""
        return await self._call(self._groups)

    async def group(self, group_id: str) -> GroupDetail | None:
        """Return one group; None if there is none, and no rebalance of one is remembered."""
        return await self._call(partial(self._group, group_id))

    async def cluster(self) -> Cluster:
        """Return the cluster, as far as its groups' log shows it."""
        return await self._call(self._cluster)

    async def remove(self, group_id: str, member: Member, reason: str) -> None:  # noqa: ARG002
        """Refuse: watching changes nothing."""
        raise SourceError(READ_ONLY)

    async def drill(self, name: str, *arguments: int) -> str:  # noqa: ARG002
        """Refuse: watching changes nothing."""
        raise SourceError(READ_ONLY)

    async def metrics(self) -> str | None:
        """Return the metrics of the groups, and their lag."""
        return exposition(await self.status())

    async def status(self) -> Mapping[str, object]:
        """Return the same as values."""
        return await self._call(self._status)

    async def _call(self, question: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    # --- on a thread

    def _groups(self) -> GroupList:
        self._lag.refresh()
        rows = list(self._rows())
        is_inferred = any(row.group_type == "classic" for row in rows)
        notes = self._notes(is_state_inferred=is_inferred)
        return GroupList(groups=list(map(self._summary, rows)), notes=notes)

    def _rows(self) -> Iterator[GroupRow]:
        """Return the rows of all groups, some at a time, so that the log is read meanwhile."""
        session = self._session
        with session.lock:
            groups = iter(overview.group_ids(session.watch.outlook))
        while some := list(islice(groups, GROUPS_AT_ONCE)):
            with session.lock:
                outlook = session.watch.outlook
                found = [overview.row(outlook, each, self._ends.of) for each in some]
            yield from (each for each in found if each is not None)

    def _group(self, group_id: str) -> GroupDetail | None:
        self._lag.refresh()
        session = self._session
        with session.lock:
            outlook = session.watch.outlook
            row = overview.row(outlook, group_id, self._ends.of)
            members = list(map(_member, group_view.members(outlook, group_id)))
            units = list(group_view.units(outlook, group_id))
            committed = list(outlook.committed.of_group(group_id))
            remembered = session.history.of_group(group_id)
            stories = session.history.stories(group_id)
        if row is None and not stories:
            return None
        units += [unit for each in members for unit in (*each.owned, *(each.target or ()))]
        return GroupDetail(
            summary=self._summary(
                row or overview.GroupRow(group_id=group_id, group_type="", state="Dead")
            ),
            epoch=None if row is None or row.epoch < 0 else row.epoch,
            target_epoch=None if row is None or row.target_epoch < 0 else row.target_epoch,
            members=members,
            units=list(dict.fromkeys(units)),
            offsets=[
                Offset(
                    unit=f"{topic}-{number}",
                    committed=found.offset,
                    end=self._ends.of(topic, number),
                )
                for topic, number, found in committed
            ],
            stories=stories,
            since_ms=remembered.since_ms,
            dropped=remembered.dropped,
            notes=self._notes(is_state_inferred=row is not None and row.group_type == "classic"),
        )

    def _cluster(self) -> Cluster:
        session = self._session
        with session.lock:
            watch = session.watch
            kinds = Counter(each.type_name for each in watch.outlook.ctx.groups.values())
            offsets, records = len(watch.outlook.committed), watch.records
        of_kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        problems = ("No broker answers.",) if session.is_down else ()
        notes = (
            f"{session.partitions} partitions of {TOPIC}: {records} records, {offsets} offsets,"
            f" groups: {of_kinds or 'none'}.",
            *self._notes(),
        )
        return Cluster(
            cluster_id=session.cluster_id,
            bootstrap=self._bootstrap,
            problems=problems,
            notes=notes,
        )

    def _status(self) -> Mapping[str, object]:
        session = self._session
        with session.lock:
            metrics = self._metrics.status()
        coordinator = {"node_id": 0, "state": "Running", "leads": [], "metrics": metrics}
        status = {"coordinators": [coordinator], "workers": [], "under_replicated": []}
        return {**status, "lag": self._lag.status()}

    def _notes(self, *, is_state_inferred: bool = False) -> tuple[str, ...]:
        session = self._session
        notes = [] if session.is_loaded else [READING]
        notes += [INFERRED_STATE, INFERRED] if is_state_inferred else [INFERRED]
        unknown = sum(session.watch.unknown.values())
        if unknown or session.watch.unreadable:
            notes.append(
                f"{unknown} records are of unknown types, {session.watch.unreadable} unreadable."
            )
        if failed := session.failed:
            notes.append(f"{failed} times something that records say could not be told.")
        return tuple(notes)

    def _summary(self, row: GroupRow) -> ListedGroup:
        total, lately = self._metrics.rebalances(row.group_id)
        return ListedGroup(
            group_id=row.group_id,
            group_type=row.group_type,
            state=row.state,
            members=row.members,
            rebalances=total,
            lately=lately,
            lag=row.lag,
        )


def _member(view: MemberView) -> Member:
    return Member(
        member_id=view.member_id,
        instance_id=view.instance_id,
        client_id=view.client_id,
        host=view.host.removeprefix("/"),
        epoch=view.epoch,
        owned=view.owned,
        target=view.target,
        session_ms=view.session_ms,
    )
