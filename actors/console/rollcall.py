"""A cluster of ours as the source of the console: asked over the Kafka protocol.

Groups are described as by ``rollcall groups`` and ``rollcall explain``, on threads of their own.
How the cluster is comes from the controller's actor, which knows it anyway.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.clock import boot_ms
from actors.cluster.ray_peers import CONTROLLER, UNREACHED
from actors.console.exposition import exposition
from actors.console.kept_groups import KeptGroups
from actors.console.source import ActionRefusedError, GroupList, SourceError
from actors.console.status_view import cluster_of
from failover.partition_kinds import GROUPS
from failover.routing import partition_for
from protocol.groups.group_type import GroupLook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.cluster.spec import ClusterSpec
    from actors.console.source import Cluster, GroupDetail, ListedGroup, Member
    from actors.console.wire_questions import WireQuestions

ASK_S: Final = 3.0
"""How long a coordinator may be silent."""

STATUS_S: Final = 20.0
"""The same for the controller, which asks all others."""

THREADS: Final = 4
"""For lists, and as many for all the rest: a node that is silent delays the others' lists only."""

DRILL_S: Final = 40.0
"""The same while it carries out a drill; a drain waits for elections."""

PLACES_PACE_MS: Final = 5_000
"""How often, at most, the controller is asked where coordinators are."""

UNSURE: Final = (
    "The controller does not answer: the page of the cluster shows what became of the drill."
)
ACTIONS: Final = "console.actions.enable"
NO_LOOK: Final = GroupLook("", 0, 0, {})


class ConsoleCaller(Protocol):
    """Calls to actors (:class:`actors.cluster.ray_peers.Actors`)."""

    async def ask(self, name: str, method: str, *arguments: object, wait_s: float = ...) -> Any:
        """Call a method of a named actor; raises one of ``UNREACHED``."""


class RollcallSource:
    """The cluster of ``spec``."""

    def __init__(
        self,
        spec: ClusterSpec,
        actors: ConsoleCaller,
        clock_ms: Callable[[], int] = boot_ms,
        *,
        may_act: bool,
    ) -> None:
        self.title = f"cluster {spec.cluster_id}"
        self.may_act = self.may_drill = may_act
        self._spec = spec
        self._actors = actors
        self._clock_ms = clock_ms
        self._kept = KeptGroups(clock_ms)
        self._lists = ThreadPoolExecutor(THREADS, "console-lists")
        self._threads = ThreadPoolExecutor(THREADS, "console")
        self._local = threading.local()
        self._places_asked_ms = clock_ms() - PLACES_PACE_MS

    def close(self) -> None:
        """Let the threads end; does not wait for them."""
        for threads in (self._lists, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)

    # --- all groups

    async def groups(self) -> GroupList:
        """Return the groups that any node leads."""
        nodes = range(self._spec.partitions)
        answers = await asyncio.gather(*map(self._rows, nodes))
        silent = [node_id for node_id, rows in zip(nodes, answers, strict=True) if rows is None]
        if silent:
            await self._learn_places()
        if len(silent) == len(answers):
            raise SourceError("No coordinator answers.")
        groups = {row.group_id: row for rows in answers for row in rows or ()}
        listed = ", ".join(map(str, silent))
        notes = (f"Node {listed} does not answer: groups that it leads are missing.",)
        return GroupList(groups=list(groups.values()), notes=notes if silent else ())

    async def _rows(self, node_id: int) -> Sequence[ListedGroup] | None:
        try:
            rows: Sequence[ListedGroup] = await self._ask_wire("rows", node_id, of=self._lists)
        except SourceError:
            return None
        return rows

    # --- one group

    async def group(self, group_id: str) -> GroupDetail | None:
        """Return a group; None if there is none, and no rebalance of one is remembered."""
        look = await self._look(group_id)
        found = self._kept.unchanged(group_id, look)
        if found is not None:
            return _with_sessions(found, look)
        group_type, recent = self._kept.group_type(group_id), self._kept.recent(group_id)
        found = await self._ask_wire("group", group_id, group_type, recent)
        if found is None:
            self._kept.forget(group_id)
            return None
        partition = partition_for(group_id, self._spec.partitions)
        found = replace(found, coordinator=f"partition {partition}")
        self._kept.keep(group_id, found, look)
        return _with_sessions(found, look)

    async def _look(self, group_id: str) -> GroupLook:
        """Look at a group; at nothing if nobody leads it."""
        for node_id in self._nodes(group_id):
            try:
                found: GroupLook | None = await self._ask_wire("look", node_id, group_id)
            except SourceError:
                continue
            if found is not None:
                return found
        await self._learn_places()
        return NO_LOOK

    async def _learn_places(self) -> None:
        """Ask the controller where coordinators are: one may have moved to another host."""
        if self._clock_ms() - self._places_asked_ms < PLACES_PACE_MS:
            return
        self._places_asked_ms = self._clock_ms()
        with suppress(*UNREACHED):
            self._spec = await self._actors.ask(CONTROLLER, "spec", wait_s=ASK_S)

    def _nodes(self, group_id: str) -> Sequence[int]:
        """Return the nodes that may lead a group, the preferred one first."""
        return self._spec.nodes_of(GROUPS.number(partition_for(group_id, self._spec.partitions)))

    # --- the cluster

    async def cluster(self) -> Cluster:
        """Return the cluster as ``rollcall status`` shows it."""
        return cluster_of(await self._ask_controller("overview"))

    async def metrics(self) -> str | None:
        """Return the metrics of all processes."""
        return exposition(await self.status())

    async def status(self) -> Mapping[str, Any]:
        """Return the status as ``rollcall status --json`` prints it."""
        return await self._ask_controller("status")

    async def _ask_controller(self, method: str) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await self._actors.ask(CONTROLLER, method, wait_s=STATUS_S)
        except UNREACHED:
            raise SourceError("The controller does not answer; it may be starting.") from None
        return found

    # --- actions

    async def remove(self, group_id: str, member: Member, reason: str) -> None:
        """Remove a member, a static one by its instance id."""
        await self._ask_wire("remove", group_id, member, reason)

    async def drill(self, name: str, *arguments: int) -> str:
        """Let the controller carry out a drill; return what was done."""
        try:
            said, why = await self._actors.ask(
                CONTROLLER, "drill", name, *arguments, wait_s=DRILL_S
            )
        except UNREACHED:
            raise SourceError(UNSURE) from None
        if why:
            raise ActionRefusedError(why)
        return str(said)

    async def _ask_wire(
        self, method: str, *arguments: object, of: ThreadPoolExecutor | None = None
    ) -> Any:
        """Ask the coordinators on a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(of or self._threads, self._asked, method, arguments)

    def _asked(self, method: str, arguments: Sequence[object]) -> Any:
        return getattr(self._questions(), method)(*arguments)

    def _questions(self) -> WireQuestions:
        """Return this thread's connections to where the coordinators are now."""
        from actors.console.wire_questions import WireQuestions

        places = (place.internal for place in self._spec.places)
        nodes = [(place.host, place.port) for place in places]
        found: WireQuestions | None = getattr(self._local, "questions", None)
        if found is not None and found.nodes == nodes:
            return found
        if found is not None:
            found.close()
        self._local.questions = found = WireQuestions(nodes, ASK_S)
        return found


def _with_sessions(found: GroupDetail, look: GroupLook) -> GroupDetail:
    return replace(found, members=[_with_session(each, look.sessions) for each in found.members])


def _with_session(member: Member, sessions: Mapping[str, tuple[int, int]]) -> Member:
    if member.member_id not in sessions:
        return member
    left_ms, session_ms = sessions[member.member_id]
    return replace(member, session_left_ms=left_ms, session_ms=session_ms)
