"""Histories written by hand, for the tests of pages."""

from bench.pages.runs import ReportedRun
from bench.scenarios.plan import Life
from bench.scenarios.record import LifeRecord, ScenarioRecord
from bench.scenarios.scenario import Group, GroupLimits, Scenario, ScenarioTopic
from bench.scenarios.values import Duration
from bench.scenarios.verdicts.verdict import judge
from failover.drills.verdict import MemberTimeline
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind

A, J, H, R, F, L, K = (
    MemberHistoryKind.ASSIGNED,
    MemberHistoryKind.JOINED,
    MemberHistoryKind.HEARTBEAT,
    MemberHistoryKind.REBALANCING,
    MemberHistoryKind.FAILED,
    MemberHistoryKind.LEFT,
    MemberHistoryKind.LOST,
)


def event(time_ms, kind, generation=1, *partitions):
    return MemberHistoryEvent(
        time_ms=time_ms, kind=kind, member_id="m", instance_id=None, generation=generation,
        partitions=partitions,
    )  # fmt: skip


def life(name, number, *events, group="a", started_ms=0, ended_ms=None, **traits):
    timeline = MemberTimeline(
        group_id=group,
        name=name,
        is_static=traits.get("static", False),
        is_exclusive=traits.get("exclusive", True),
        events=events,
        seen_ms=None if ended_ms is not None else traits.get("seen_ms", 10_000),
        holds=() if ended_ms is not None or not events else events[-1].partitions,
    )
    return LifeRecord(Life(group, name, number), started_ms, ended_ms, timeline)


def run(
    *lives, group="a", topic="t", partitions=2, marks=(), limits=None, name="run",
    changed_ms=1_000, ended_ms=10_000, session_ms=45_000, stalled_ms=0,
):  # fmt: skip
    """Return a run of ten seconds whose first change is after one second."""
    scenario = Scenario(
        name="s",
        about="x",
        duration=Duration(ended_ms),
        topics={topic: ScenarioTopic(partitions=partitions)},
        groups=(Group(name=group, topics=(topic,), expect=limits or GroupLimits()),),
    )
    record = ScenarioRecord(
        lives=lives,
        changed_ms=changed_ms,
        ended_ms=ended_ms,
        committed={},
        partitions=scenario.partitions_by_group(),
        marks=marks,
        stalled_ms=stalled_ms,
        sessions={(group, None): session_ms},
    )
    return ReportedRun(name=name, record=record, verdict=judge(scenario, record, "simulated"))


T0, T1 = ("t", 0), ("t", 1)


def handed_over(**settings):
    """Return a run in which x leaves at 2 s, and y has both partitions from 3.5 s on."""
    return run(
        life("x", 1, event(90, J), event(100, A, 1, T0), event(2_000, L, -1), ended_ms=2_000),
        life(
            "y", 2, event(90, J), event(100, A, 1, T1), event(2_100, H, 1, T1),
            event(3_000, R, 1), event(3_100, J, 2), event(3_500, A, 2, T0, T1),
        ),
        **settings,
    )  # fmt: skip


def crowd(members, partitions=None, group="crowd"):
    """Return a run of a minute: the members of a consumer group, of which a tenth is lost at 20 s.

    These come back within ten seconds; until then others have their partitions.
    """
    lives = []
    count = partitions or members
    for number in range(members):
        own = tuple(("t", index) for index in range(number, count, members))
        joined = 100 + number % 3_000
        events = [event(joined, J), event(joined + 40, A, 1, *own)]
        events += [event(at + number % 5_000, H, 1, *own) for at in (5_000, 10_000)]
        if number % 10 == 0:
            back = 20_000 + number % 10_000
            events += [event(20_000, K, -1), event(back, J, 2), event(back + 300, A, 3, *own)]
        elif number % 10 == 1 and own:
            before = tuple((topic, index - 1) for topic, index in own)
            events += [event(20_500, A, 2, *own, *before), event(30_000, A, 3, *own)]
        lives.append(life(f"{group}-{number}", number, *events, group=group, seen_ms=60_000))
    return run(
        *lives, group=group, partitions=count, ended_ms=60_000, changed_ms=20_000,
        marks=((20_000, "kill node 1"),), name="crowd",
    )  # fmt: skip
