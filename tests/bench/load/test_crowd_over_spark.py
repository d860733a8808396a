"""A crowd over Spark: who is in which task, and verdicts that are put together group by group."""

import pytest

from bench.load.crowd_over_spark import SparkLoad, crowd_of, found_in, judged, packed, unpacked
from bench.load.driver import LoadSpec
from bench.load.live import LiveLoad
from bench.load.submit import main
from failover.drills.drill import Drill, Expect
from failover.drills.verdict import Findings, MemberTimeline
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind
from tests.waiting import WITHIN_S, until


def event(time_ms, kind, **held):
    return MemberHistoryEvent(
        time_ms=time_ms, kind=kind, member_id="m", instance_id=None, generation=1, **held
    )


def story(name, *events, is_exclusive=True):
    return MemberTimeline(
        group_id="g", name=name, is_static=False, is_exclusive=is_exclusive, events=events,
        seen_ms=9_000, holds=(("g", 0),),
    )  # fmt: skip


ASSIGNED = event(1_000, MemberHistoryKind.ASSIGNED, partitions=(("g", 0),))
COMMITTED = event(2_000, MemberHistoryKind.COMMITTED, offsets=(("g", 0, 7),))


def load_of(members, tasks=2):
    return SparkLoad(
        bootstrap=(), workload=crowd_of(members, 0.5), prefix="p", tasks=tasks, watcher=("h", 1)
    )


@pytest.mark.parametrize(("members", "tasks"), [(40, 2), (200, 2), (10_000, 2), (1_000, 5), (3, 2)])
def test_every_member_is_driven_by_one_task(members, tasks):
    load = load_of(members, tasks)
    shares = [load.share(task) for task in range(tasks)]
    names = [member.client_id for share in shares for member in share]
    assert len(names) == len(set(names)) == members


def test_every_task_has_dynamic_and_static_members_of_every_group():
    load = load_of(200)
    for task in range(2):
        kinds = {(each.group_id, each.instance_id is None) for each in load.share(task)}
        assert len(kinds) == 2 * load.workload.groups


def test_a_crowd_of_any_size_sends_about_as_much_each_second():
    for members in (2_000, 10_000, 50_000):
        workload = crowd_of(members)
        assert members / workload.heartbeat_interval_ms == 2
        assert workload.session_timeout_ms >= 12 * workload.heartbeat_interval_ms
    assert crowd_of(100).heartbeat_interval_ms == 1_000
    assert {*crowd_of(10_000, 0.5).group_types("p").values()} == {"classic", "consumer"}


def test_a_part_of_a_groups_histories_is_the_same_after_its_journey():
    part = [story("a", ASSIGNED, COMMITTED), story("b", is_exclusive=False)]
    assert unpacked(packed(part, 5, 6)) == (part, 5, 6)


def test_what_one_task_cannot_see_is_found_where_all_parts_of_a_group_are():
    parts = [([story("a", ASSIGNED)], 1_500, 3), ([story("b", ASSIGNED, COMMITTED)], 1_500, 8)]
    found = found_in("g", parts, {("g", 0): 6})
    assert found.broken_counts["partitions with two owners"] == 1
    assert found.broken_counts["lost writes"] == 1
    assert (found.members, found.stalled_ms) == (2, 8)
    alone = found_in("g", parts[:1], {})
    assert not any(alone.broken_counts.values())


def test_members_that_are_lost_with_their_task_make_a_verdict_unclean():
    drill = Drill(name="d", about="nothing", workload=crowd_of(3), steps=(), expect=Expect())
    for seen, is_clean in ((3, True), (2, False)):
        found = Findings(members=seen, unheard_ms=[1] * seen, silent_ms=[1])
        verdict = judged(drill, found, replicated_ms=0)
        assert verdict.is_clean is is_clean
        assert verdict.rows[-1].value == 3 - seen


def test_a_large_crowd_can_be_looked_at_while_its_members_start():
    """The task must tell its watcher meanwhile, or it counts as lost."""
    load = load_of(400)
    spec = LoadSpec(bootstrap=(("127.0.0.1", 1),), members=(), partitions_of={}, until_ms=0)
    with LiveLoad(spec) as crowd:
        crowd.begin(load.share(0), over_ms=600_000)
        began = until(crowd.shares, WITHIN_S, "the first members have started")
        assert sum(share.members for share in began.values()) < 200


@pytest.mark.parametrize(
    "words",
    [
        ["--members", "0"],
        ["--members", "1000001"],
        ["--tasks", "-1"],
        ["--consumer-share", "2"],
        ["--consumer-share", "nan"],
        ["--bootstrap", "nonsense"],
        ["--bootstrap", "a:b"],
        ["--seconds", "9999999999"],
    ],
)
def test_bad_input_of_the_load_is_said_with_exit_code_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--bootstrap", "127.0.0.1:1", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
