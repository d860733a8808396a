"""Quiet hours begin when nobody is there any more, and it is noticed when they never do."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.kinds import is_modern
from failover.simulation.one_seed import run_seed, small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.quiet import REFRESH_INTERVAL, empty
from failover.simulation.settings import (
    ATTENDED,
    CALM,
    GroupMix,
    Quiet,
    Settings,
    groups_of,
    settings_for,
)
from failover.simulation.world import World
from protocol.groups.classic import leave as classic_leave
from protocol.groups.classic import membership
from protocol.groups.group_types import TABLES
from protocol.groups.modern import regexes
from protocol.groups.timers import TimerKind, Timers

ANOTHER_SESSION_MS = 45_000


def test_members_that_were_doubled_end_with_the_others() -> None:
    """Before the first of two ends by itself: it holds its instance id and goes on for ever."""
    world = World(1, settings_for(1, GroupMix.ALL))
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(20_000)
        doubled = [
            spec
            for spec in cluster.clients.specs
            if spec.config.instance_id is not None and is_modern(spec.config.group_id)
        ]
        assert doubled
        for spec in doubled:
            cluster.clients.start(spec)
        empty(cluster)


def test_nobody_comes_back_while_it_is_quiet() -> None:
    world = World(1, CALM)
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(20_000)
        spec = cluster.clients.specs[0]
        world.after(1_000, cluster.clients.start_if_free, spec)
        empty(cluster)
        assert spec.driver is None
        cluster.clients.begin_again()
        assert spec.driver is not None


def classic_sessions_prolonged() -> list[Patch]:
    def expire(ctx: Any, group: Any, member: Any, now: int) -> None:
        membership.arm(ctx, group, member, now + ANOTHER_SESSION_MS)

    return [(classic_leave, "_expire", expire)]


def modern_sessions_prolonged() -> list[Patch]:
    original = TABLES.timeouts[TimerKind.MEMBER_SESSION]

    def timeout(ctx: Any, key: Any, now: int) -> None:
        session = ctx.modern_runtime[key.group_id].sessions[key.member_id]
        if ctx.session_end(session) <= now:
            session.session_deadline_ms = now + ANOTHER_SESSION_MS
        original(ctx, key, now)

    timeouts = {**TABLES.timeouts, TimerKind.MEMBER_SESSION: timeout}
    return [(TABLES, "timeouts", MappingProxyType(timeouts))]


def regexes_never_refreshed() -> list[Patch]:
    return [(regexes, "resolve_if_due", resolved_once)]


def resolved_once(ctx: Any, runtime: Any, now: int) -> None:
    """Resolve new expressions, and all of them after new topics; no others."""
    known = runtime.group.regexes
    is_new = any(regex not in known for regex in runtime.group.regex_members)
    if is_new or runtime.has_new_topics:
        RESOLVE_IF_DUE(ctx, runtime, now)


RESOLVE_IF_DUE = regexes.resolve_if_due


def regexes_refreshed_late() -> list[Patch]:
    def set_later(self: Any, kind: Any, group_id: str, member_id: str, due_ms: int) -> None:
        later_ms = REFRESH_LATE_MS if kind is TimerKind.REFRESH else 0
        SET_TIMER(self, kind, group_id, member_id, due_ms + later_ms)

    return [(Timers, "set", set_later)]


REFRESH_LATE_MS = 3_600_000
SET_TIMER = Timers.set

BUGS = (classic_sessions_prolonged, modern_sessions_prolonged)
ATTENDED_BUGS = (regexes_never_refreshed, regexes_refreshed_late)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: Callable[[], list[Patch]]) -> None:
    world = World(1, settings_for(1, GroupMix.ALL))
    with small_logs(), patched(bug()):
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(20_000)
        with pytest.raises(Violation, match="the group has members still"):
            empty(cluster)


def attended(seed: int) -> Settings:
    """Return a seed's settings without faults, so that only the hours afterwards are long."""
    mine = settings_for(seed)
    assert mine.quiet is Quiet.ATTENDED
    return replace(mine, faulty_ms=1_000)


def test_each_mix_of_groups_with_regexes_or_migrations_has_attended_hours() -> None:
    mixes = {groups_of(seed) for seed in ATTENDED}
    assert mixes == {*GroupMix} - {GroupMix.CLASSIC, GroupMix.ANY}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", ATTENDED_BUGS)
def test_a_planted_bug_is_found_in_attended_hours(bug: Callable[[], list[Patch]]) -> None:
    settings = attended(307)
    refreshed = {**settings.configs, REFRESH_INTERVAL: "600000"}
    with patched(bug()):
        found = run_seed(307, replace(settings, configs=refreshed)).violation
    assert found is not None
    assert "matches is" in found.text
