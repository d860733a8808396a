"""Run one seed, from forming the cluster until it has converged, and report the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from failover import common_time
from failover.partition_kinds import GROUPS, SHARE_STATE, kind_of
from failover.partitions import containment
from failover.requests import share_calls
from failover.simulation.clients.callers import SPARE_GROUPS
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.faults import older_machine
from failover.simulation.faults.clocks import ClockInjector
from failover.simulation.faults.disks import DiskInjector
from failover.simulation.faults.fleet import FleetInjector
from failover.simulation.faults.groups import GroupInjector
from failover.simulation.faults.injector import Injector
from failover.simulation.faults.sectors import SectorInjector
from failover.simulation.faults.terms import TermInjector
from failover.simulation.kinds import commits
from failover.simulation.liveness import Liveness
from failover.simulation.patches import patched
from failover.simulation.quiet import SETTLED_MS, attend, empty, pass_hours
from failover.simulation.settings import RETENTION_MINUTES, GroupMix, Quiet, settings_for
from failover.simulation.world import World
from protocol.groups.classic import join_request as joining
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.share import initialization
from protocol.groups.share.group import ShareGroup
from protocol.wire import apis
from protocol.wire.apis import Route
from storage import log, sending, snapshot

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from uuid import UUID

    from failover.simulation.event_log import EventLog
    from failover.simulation.settings import Settings

WARM_UP_MS: Final = 20_000
LOOK_EVERY_MS: Final = 1_000
AFTERWARDS_MS: Final = 3_000

SMALL: Final = (
    (snapshot, "STEP_RECORDS", 12),
    (snapshot, "KEPT_BATCHES", 8),
    (log, "SLICE_BYTES", 600),
    (target, "SLICE_MEMBERS", 2),
    (modern, "SLICE_SESSIONS", 3),
    (initialization, "ASKED_MAX", 3),
    (share_calls, "PARTITIONS_MAX", 2),
    (share_calls, "TURN_PARTITIONS", 3),
    (common_time, "SETTLED_MS", 60_000),
    (containment, "BATCH_BYTES", 3_000),
    (containment, "GROUP_BYTES_MAX", 20_000),
    (joining, "MEMBER_BYTES_MAX", 20_000),
    (sending, "MESSAGE_BYTES_MAX", 2_000),
)
"""Small limits for logs and large groups: minutes of simulation then reach what takes days."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one seed. ``simulated_ms`` is true time; ``violation`` None: all went well."""

    seed: int
    simulated_ms: int
    events: int
    trace: int
    injected: Counter[str]
    calls: Counter[tuple[str, bool]]
    violation: Violation | None = None
    story: EventLog | None = field(default=None, repr=False)


QUICK: Final = (Route.GROUP, Route.GROUPS, Route.SHARE_STATE)
"""The routes of requests that are answered without a long wait."""


def small_logs() -> AbstractContextManager[None]:
    """Make the limits of logs small for a while."""
    return patched(SMALL)


def run_seed(
    seed: int,
    settings: Settings | None = None,
    *,
    groups: GroupMix = GroupMix.ANY,
    tells: bool = False,
) -> Report:
    """Run one seed, with ``groups`` unless ``settings`` has them. ``tells``: keep the event log."""
    world = World(seed, settings or settings_for(seed, groups), tells=tells)
    violation = None
    try:
        with small_logs():
            _run(world)
    except Violation as found:
        violation = found
    except Exception as error:  # a failure in a host would end its process, repeatedly
        violation = Violation(f"{type(error).__name__} {_where(error)}: {error}")
    if violation is not None:
        world.tell("", f"VIOLATION {violation.subject}: {violation.text}")
    return Report(
        seed=seed,
        simulated_ms=world.now,
        events=world.events,
        trace=world.trace,
        injected=world.injected,
        calls=world.calls,
        violation=violation,
        story=world.story if tells else None,
    )


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"in {trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}"
    )


def _run(world: World) -> None:
    cluster = SimulatedCluster(world)
    with cluster.checkers.watching():
        _live(cluster)


def _live(cluster: SimulatedCluster) -> None:
    world = cluster.world
    clock_injector = ClockInjector(cluster)
    clock_injector.before_the_first_start()
    cluster.form()
    world.run(WARM_UP_MS)
    injector = Injector(cluster)
    injector.begin()
    group_injector = GroupInjector(cluster)
    group_injector.begin()
    fleet_injector = FleetInjector(cluster)
    fleet_injector.begin()
    disk_injector = DiskInjector(cluster)
    disk_injector.begin()
    clock_injector.begin()
    term_injector = TermInjector(cluster)
    term_injector.begin()
    sector_injector = SectorInjector(cluster)
    sector_injector.begin()
    world.run(world.now + world.settings.faulty_ms)
    world.tell("", "the faults are over")
    term_injector.end()
    injector.end()
    group_injector.end()
    fleet_injector.end()
    disk_injector.end()
    clock_injector.end()
    sector_injector.end()
    if older_machine.may_come(cluster):
        older_machine.put_back(cluster)
    settle(cluster)
    if world.settings.quiet is Quiet.ATTENDED:
        _be_attended(cluster, group_injector)
    elif world.settings.quiet is not Quiet.NEVER:
        _be_quiet(cluster)


def _be_attended(cluster: SimulatedCluster, injector: GroupInjector) -> None:
    """Let hours pass with members; check that each change is followed, and what expires."""
    attend(cluster, injector, partial(settle, cluster))
    cluster.administrator.expired = frozenset(SPARE_GROUPS)
    _read_all(cluster)


def _be_quiet(cluster: SimulatedCluster) -> None:
    """Let hours pass without clients; check that exactly what should expire does."""
    world, administrator = cluster.world, cluster.administrator
    rng = world.random("quiet")
    is_long = rng.random() < 0.6 or world.settings.quiet is Quiet.IDLE
    hours_ms = RETENTION_MINUTES[world.settings.quiet] * (150_000 if is_long else 30_000)
    empty(cluster)
    pass_hours(cluster, world.settings.quiet, hours_ms)
    liveness = Liveness(cluster)
    liveness.begin()
    world.run(world.now + (SETTLED_MS if is_long else liveness.bound_ms))
    groups = frozenset({*cluster.clients.group_ids, *SPARE_GROUPS})
    administrator.expired = groups if is_long else ()
    _read_all(cluster)
    if not is_long:
        return
    administrator.expired = ()
    cluster.values.forget()
    cluster.checkers.forget()
    cluster.clients.begin_again()
    settle(cluster)


def settle(cluster: SimulatedCluster) -> None:
    """Let everything converge, in bounded time, and check the final state."""
    world = cluster.world
    cluster.clients.commits = False
    liveness = Liveness(cluster)
    liveness.begin()
    deadline = world.now + world.settings.settle_ms
    while why := cluster.unconverged() or liveness.silent():
        if world.now >= deadline:
            raise Violation(f"no rest {world.settings.settle_ms} ms after the faults: {why}", "")
        world.run(world.now + LOOK_EVERY_MS)
    world.tell("", "everything is at rest")
    rested_at = world.now
    _read_all(cluster)
    _has_answered_all(cluster, rested_at)
    _has_no_deleted_topics(cluster)
    _has_its_share_state(cluster)
    _has_no_deleted_share_state(cluster)
    cluster.checkers.states.check(cluster.processes)
    for number, committed in sorted(cluster.checkers.replicated.committed.items()):
        world.mark(number)
        for batch in committed.batches.values():
            world.mark(batch.base_offset)


def _has_answered_all(cluster: SimulatedCluster, rested_at: int) -> None:
    """Check that no request waits forever: none may take as long as a rebalance and a session.

    A group's requests that wait for no other member are answered once the cluster has converged. A
    request that the node itself answers is forgotten when its client disconnects.
    """
    settings = cluster.world.settings
    longest_ms = settings.rebalance_timeout_ms + settings.session_timeout_ms
    for process in cluster.processes:
        for _, _, message, asked_at in process.requests.open.values():
            api = apis.api_of(message)
            if api.route is Route.NODE:
                continue
            is_quick = api.route in QUICK and not api.group.waits_for_members
            if cluster.world.now - asked_at > longest_ms or (is_quick and asked_at < rested_at):
                raise Violation(
                    f"node {process.node_id} has not answered {type(message).__name__} for"
                    f" {cluster.world.now - asked_at} ms",
                    getattr(message, "group_id", ""),
                )


def _has_no_deleted_topics(cluster: SimulatedCluster) -> None:
    """Check that no group has offsets of a deleted topic, whichever node led it then."""
    deleted = cluster.administrator.deleted
    for number in range(cluster.world.settings.partitions):
        leader = cluster.leader_of(number)
        if leader is None or not leader.settled:
            continue  # another one is about to lead
        offsets = leader.machine._context.offsets  # type: ignore[attr-defined]
        for group_id, by_topic in offsets.items():
            if gone := sorted(deleted & by_topic.keys()):
                raise Violation(f"there are offsets of {gone}, which were deleted", group_id)


def _has_its_share_state(cluster: SimulatedCluster) -> None:
    """Check that all acknowledged share state is there, also of what share groups initialized."""
    found: dict[tuple[str, UUID, int], Any] = {}
    wanted: set[tuple[str, UUID, int]] = set()
    for number in cluster.numbers:
        leader = cluster.leader_of(number)
        if leader is None or not leader.settled:
            return  # another one is about to lead
        machine: Any = leader.machine
        if kind_of(number) is SHARE_STATE:
            for group_id, states in machine.context.states.items():
                found |= {(group_id, *place): state for place, state in states.items()}
        elif kind_of(number) is GROUPS:
            wanted |= _initialized(machine._context, cluster.clients.group_ids)
    checker = cluster.checkers.share_state
    for key in sorted({*wanted, *checker.known()}, key=str):
        state = found.get(key)
        if state is None or not state.is_initialized:
            raise Violation(f"partition {key[2]} of {key[1]} has no share state", key[0])
        checker.settled(*key, state.current().start_offset)


def _initialized(context: Any, group_ids: Iterable[str]) -> set[tuple[str, UUID, int]]:
    """Return the partitions that share groups list as initialized."""
    groups = (context.groups.get(group_id) for group_id in group_ids)
    return {
        (group.group_id, topic_id, index)
        for group in groups
        if isinstance(group, ShareGroup)
        for topic_id, topic in group.state_topics.initialized.items()
        for index in topic.partitions
    }


def _has_no_deleted_share_state(cluster: SimulatedCluster) -> None:
    """Check that there is no share state of a deleted topic, whoever wrote it."""
    for number in SHARE_STATE.numbers(cluster.world.settings.partitions):
        leader = cluster.leader_of(number)
        if leader is None or not leader.settled:
            continue  # another one is about to lead
        context = leader.machine.context  # type: ignore[attr-defined]
        for topic_ids in context.topics.deleted.values():
            for share in context.all():
                if share.topic_id in topic_ids:
                    raise Violation(f"there is share state of {share}, whose topic was deleted")


def _read_all(cluster: SimulatedCluster) -> None:
    """Read every group's offsets and check them."""
    world, administrator = cluster.world, cluster.administrator
    administrator.unread = {*filter(commits, cluster.clients.group_ids), *SPARE_GROUPS}
    for _ in range(20):
        administrator.read_all()
        world.run(world.now + AFTERWARDS_MS)
        if not administrator.unread:
            return
    raise Violation(f"offsets cannot be read: {sorted(administrator.unread)}")
