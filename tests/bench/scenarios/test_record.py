"""What a run cost, computed from histories that are written here by hand."""

from dataclasses import replace

import pytest

from bench.rehearsals.comparison import Comparison
from bench.scenarios.files import parse
from bench.scenarios.plan import Life
from bench.scenarios.record import CHECKS, LifeRecord, ScenarioRecord, costs
from bench.scenarios.scenario import GroupLimits
from bench.scenarios.verdicts.verdict import LIMITS, judge
from failover.drills.verdict import MemberTimeline
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind

A, J, R, F, C = (
    MemberHistoryKind.ASSIGNED,
    MemberHistoryKind.JOINED,
    MemberHistoryKind.REBALANCING,
    MemberHistoryKind.FAILED,
    MemberHistoryKind.COMMITTED,
)
T0, T1 = ("t", 0), ("t", 1)


def event(time_ms, kind, generation, *partitions, offsets=()):
    return MemberHistoryEvent(
        time_ms=time_ms, kind=kind, member_id="m", instance_id=None, generation=generation,
        partitions=partitions, offsets=offsets,
    )  # fmt: skip


def life(name, number, *events, started_ms=0, ended_ms=None):
    held = events[-1].partitions if events else ()
    timeline = MemberTimeline(
        group_id="a", name=name, is_static=False, events=events,
        seen_ms=None if ended_ms is not None else 1_000,
        holds=() if ended_ms is not None else held,
    )  # fmt: skip
    return LifeRecord(Life("a", name, number), started_ms, ended_ms, timeline)


def record(*lives, committed=None, session_ms=100):
    return ScenarioRecord(
        lives=lives, changed_ms=100, ended_ms=1_000, committed=committed or {},
        partitions={"a": (T0, T1)}, sessions={("a", None): session_ms},
    )  # fmt: skip


FORMING = parse(
    "s",
    'about = "x"\nduration = "1s"\ntopics.t.partitions = 2\n[[groups]]\nname = "a"\ntopics = ["t"]',
)
HANDED_OVER = record(
    life("x", 1, event(10, J, 1), event(20, A, 1, T0, T1), ended_ms=200),
    life(
        "y", 2, event(15, J, 1), event(20, A, 1), event(300, R, 1), event(310, J, 2),
        event(350, A, 2, T0, T1),
    ),
)  # fmt: skip


def test_a_handover_has_its_costs():
    paid = costs(HANDED_OVER, "a")
    assert (paid.members, paid.generation, paid.rebalances) == (1, 2, 1)
    assert paid.unavailable_member_ms == 50, "from the rebalance to the assignment"
    assert paid.unowned_ms == 150, "from the end of x to the assignment of y"
    assert (paid.moved, paid.failed) == (2, 0)
    assert paid.revoked == 0, "y had nothing that could be taken, and x does not survive"


SHARED = record(
    life("x", 1, event(20, A, 1, T0, T1), event(300, R, 1), event(310, J, 2), event(320, A, 2, T0)),
    life("y", 2, event(320, A, 2, T1), started_ms=200),
)
"""A second member comes, and takes half of what the first one had."""


def test_what_is_taken_from_a_survivor_is_counted():
    assert costs(SHARED, "a").revoked == 2, "all that it gave up in the rebalance"
    gone = life("x", 1, *SHARED.lives[0].timeline.events, ended_ms=500)
    assert costs(record(gone, SHARED.lives[1]), "a").revoked == 0
    young = life("x", 1, *SHARED.lives[0].timeline.events, started_ms=100)
    assert costs(record(young, SHARED.lives[1]), "a").revoked == 0


def test_the_load_of_the_member_that_has_most_in_the_end_is_told():
    assert costs(SHARED, "a").most == 1
    alone = life("x", 1, event(20, A, 1, T0, T1))
    assert costs(record(alone, life("y", 2, event(20, A, 1))), "a").most == 2
    gone = life("x", 1, event(20, A, 1, T0, T1), ended_ms=500)
    assert costs(record(gone), "a").most == 0


def test_a_cooperative_member_goes_on_with_what_it_keeps():
    """KIP-429: only what it gives up has no owner, until another member is given it."""
    gives = life(
        "x", 1, event(10, J, 1), event(20, A, 1, T0, T1), event(300, R, 1, T0, T1),
        event(310, J, 2, T0, T1), event(350, A, 2, T0), event(360, J, 3, T0), event(400, A, 3, T0),
    )  # fmt: skip
    takes = life("y", 2, event(310, J, 2), event(350, A, 2), event(360, J, 3), event(410, A, 3, T1),
                 started_ms=290)  # fmt: skip
    lives = [
        replace(each, timeline=replace(each.timeline, is_cooperative=True))
        for each in (gives, takes)
    ]
    paid = costs(record(*lives), "a")
    assert (paid.unowned_ms, paid.moved, paid.rebalances) == (60, 1, 2)
    assert paid.unavailable_member_ms == 60 + 50, "the new one only, which owns nothing until 410"
    assert costs(record(gives, takes), "a").unavailable_member_ms == 200


def test_what_was_before_the_first_change_costs_nothing():
    paid = costs(record(life("x", 1, event(20, J, 1), event(90, A, 1, T0, T1))), "a")
    assert (paid.rebalances, paid.unavailable_member_ms, paid.unowned_ms) == (0, 0, 0)


def test_a_member_that_never_gets_an_assignment_is_unavailable_until_its_end():
    gone = life("x", 1, started_ms=300, ended_ms=500)
    failed = life("y", 2, event(400, F, -1), started_ms=300, ended_ms=None)
    stays = life("z", 3, event(350, J, 1), started_ms=300)
    assert costs(record(gone), "a").unavailable_member_ms == 200
    assert costs(record(failed), "a").unavailable_member_ms == 100
    assert costs(record(failed), "a").failed == 1
    assert costs(record(stays), "a").unavailable_member_ms == 700
    assert costs(record(stays), "a").unowned_ms == 900


PLANTED = {
    "partitions with two owners": record(
        life("x", 1, event(20, A, 1, T0, T1)), life("y", 2, event(20, A, 1, T0))
    ),
    "lost commits": record(
        life("x", 1, event(20, A, 1, T0, T1), event(30, C, 1, T0, T1, offsets=(("t", 0, 7),))),
        committed={("a", "t", 0): 6},
    ),
    "generations gone backward": record(
        life("x", 1, event(20, A, 2, T0, T1), event(30, A, 1, T0, T1))
    ),
    "partitions without an owner in the end": record(life("x", 1, event(20, A, 1, T0))),
    "processes of members that were lost": replace(HANDED_OVER, lost=("task 1 has ended",)),
    "faults that did not happen": replace(HANDED_OVER, missed=("kill at 20 s did not happen",)),
}


def test_each_check_finds_what_is_planted_for_it_and_nothing_else():
    assert set(PLANTED) == set(CHECKS)
    for planted, broken in PLANTED.items():
        assert [name for name, check in CHECKS.items() if check(broken)] == [planted]
    assert not any(check(HANDED_OVER) for check in CHECKS.values())


def scenario(expect=""):
    return parse(
        "s",
        f'about = "x"\nduration = "1s"\ntopics.t.partitions = 2\n'
        f'[[groups]]\nname = "a"\ntopics = ["t"]\nexpect = {{ {expect} }}\n',
    )


def text_of(verdict):
    return Comparison([verdict]).text()


def test_every_setting_of_expect_limits_something():
    assert tuple(LIMITS) == GroupLimits.__struct_fields__


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ("rebalances_max = 0", "1 rebalance, and at most 0 were expected."),
        ("unavailable_member_seconds_max = 0.04", "0.05 unavailable member-seconds, and at most"),
        ("unowned_seconds_max = 0.1", "0.15 seconds without an owner of a partition, and at most"),
        ("rebalances_min = 2", "1 rebalance, and at least 2 were expected."),
        ("failed_members_min = 1", "0 failed members, and at least 1 were expected."),
        ("members_min = 2", "1 member in the end, and at least 2 were expected."),
        ("partitions_moved_max = 1", "2 partitions moved, and at most 1 were expected."),
        ("survivor_revocations_min = 1", "0 partitions taken from members that lived all the time"),
        ("most_partitions_max = 1", "2 partitions of the member that has most in the end, and at"),
    ],
)
def test_a_verdict_says_which_limit_is_not_kept(expect, sentence):
    verdict = judge(scenario(expect), HANDED_OVER, "simulated")
    assert not verdict.is_clean
    assert f"a: {sentence}" in text_of(verdict)
    assert text_of(verdict).endswith("NOT CLEAN")
    assert verdict.document()["groups"]["a"]["exceeded"]


def test_a_verdict_is_clean_within_the_limits_and_not_when_a_rule_is_broken():
    verdict = judge(scenario("rebalances_max = 1"), HANDED_OVER, "simulated")
    assert verdict.is_clean
    assert text_of(verdict).endswith("\nclean")
    broken = judge(scenario(), PLANTED["lost commits"], "simulated")
    assert not broken.is_clean
    assert "lost commits: 1\n  t-0 of a: 7 was acknowledged, 6 is there" in text_of(broken)
    assert broken.document()["violations"] == {
        "lost commits": ["t-0 of a: 7 was acknowledged, 6 is there"]
    }


def test_a_group_that_was_still_forming_at_the_first_change_is_told():
    soon = costs(record(life("x", 1, event(20, J, 1), event(90, A, 1, T0, T1))), "a")
    half = costs(record(life("x", 1, event(20, A, 1, T0), event(140, A, 2, T0, T1))), "a")
    assert (soon.unowned_before, half.unowned_before) == (0, 1)
    late = record(life("x", 1, event(20, J, 1)))
    assert costs(late, "a").unowned_before == 2
    assert costs(replace(late, began_ms=100), "a").unowned_before == 0, "there was no time before"
    verdict = judge(FORMING, late, "real")
    told = "2 partitions had no owner yet when the first change came, of a: the figures"
    assert verdict.remarked[0].startswith(told)


@pytest.mark.parametrize("session_ms", [499, 501])
def test_a_run_may_end_before_the_session_of_a_member_that_vanished(session_ms):
    gone = life("x", 1, event(10, J, 1), event(20, A, 1, T0), ended_ms=500)
    found = judge(FORMING, record(gone, SHARED.lives[1], session_ms=session_ms), "simulated")
    broken = found.found.get("partitions without an owner in the end", ())
    assert list(broken) == (
        [] if session_ms > 500 else ["1 partitions of a have no owner, such as t-0"]
    )
    assert ("the run ended too early" in " ".join(found.notes)) == (session_ms > 500)


def test_a_member_that_left_has_no_session_unless_it_is_a_static_one_that_stopped():
    stopped = event(490, MemberHistoryKind.LEFT, 1)
    dynamic = life("x", 1, event(10, J, 1), event(20, A, 1, T0), stopped, ended_ms=480)
    static = replace(dynamic, timeline=replace(dynamic.timeline, is_static=True))
    for each, broken in ((dynamic, True), (static, False)):
        run = record(each, SHARED.lives[1], session_ms=10_000)
        assert bool(CHECKS["partitions without an owner in the end"](run)) == broken


@pytest.mark.parametrize(("came_ms", "is_broken"), [(590, True), (610, False)])
def test_generations_begin_again_once_a_group_was_empty(came_ms, is_broken):
    """As after an offline migration there and back: the other type's group was another one.

    The group is empty once the session of its last member is over, 100 ms after that has ended.
    """
    first = life("x", 1, event(20, A, 1, T0, T1), ended_ms=500)
    other = life("y", 2, event(came_ms + 10, A, 1, T0, T1), started_ms=came_ms)
    found = CHECKS["partitions with two owners"](record(first, other))
    assert bool(found) == is_broken
