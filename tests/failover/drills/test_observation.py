"""The verdict of a drill on groups that were only observed."""

import pytest

from failover.drills.drill import named
from failover.drills.observation import (
    OBSERVED_CHECKS,
    GroupSight,
    Observation,
    judge_observed,
)

FAULT = 1_000
T0, T1, T2 = (("t", number) for number in range(3))
BEFORE = {"a": frozenset({T0, T1}), "b": frozenset({T2})}


def sight(time_ms, held=BEFORE, **given):
    given = {"state": "Stable", "committed": {T0: 10}, **given}
    return GroupSight(group_id="g", time_ms=time_ms, held=held, **given)


def unanswered(time_ms):
    return GroupSight(group_id="g", time_ms=time_ms)


def rows(*sights):
    seen = Observation(sights={"g": sights}, fault_ms=FAULT, replicated_ms=500)
    verdict = judge_observed(named("kill-leader"), seen)
    return verdict, {row.name: row.value for row in verdict.rows}


def test_a_group_that_noticed_nothing_is_clean():
    verdict, values = rows(sight(500), sight(900), unanswered(1_900), sight(2_000), sight(2_300))
    assert verdict.is_clean, verdict.text()
    assert values["rebalances"] == 0
    assert values["a group without an answer, max ms"] == 1_100
    assert (values["members"], values["sights of the groups"]) == (2, 5)


@pytest.mark.parametrize(
    ("check", "after", "sentence"),
    [
        (
            "partitions with two owners",
            sight(2_000, {"a": frozenset({T0, T1}), "b": frozenset({T1, T2})}),
            "t-1 of g had a, b",
        ),
        (
            "offsets gone backward",
            sight(2_000, committed={T0: 9}),
            "t-0 of g: 10 was committed, then 9",
        ),
        (
            "offsets gone backward",
            sight(2_000, committed={}),
            "t-0 of g: 10 was committed, then nothing",
        ),
        ("epochs gone backward", sight(2_000, epoch=3), "g was in epoch 4 and then in 3"),
        (
            "members gone or with a new id",
            sight(2_000, {"a": frozenset({T0, T1}), "c": frozenset({T2})}),
            "b of g is no longer a member",
        ),
        (
            "partitions without an owner",
            sight(2_000, {"a": frozenset({T0, T1}), "b": frozenset()}),
            "nobody has t-2 of g",
        ),
    ],
)
def test_each_check_bites(check, after, sentence):
    verdict, values = rows(sight(900, epoch=4 if after.epoch else None), after)
    assert values[check] == 1
    assert not verdict.is_clean
    assert sentence in verdict.complaints
    others = OBSERVED_CHECKS.keys() - {check}
    assert {name: values[name] for name in others} == dict.fromkeys(others, 0)


def test_share_groups_may_share_partitions():
    shared = {"a": frozenset({T0}), "b": frozenset({T0})}
    _, values = rows(
        sight(900, shared, is_exclusive=False), sight(2_000, shared, is_exclusive=False)
    )
    assert values["partitions with two owners"] == 0


MOVED = {"a": frozenset({T0}), "b": frozenset({T1, T2})}


@pytest.mark.parametrize(
    ("after", "count"),
    [
        ([sight(2_000)], 0),
        ([sight(2_000, epoch=5)], 1),
        ([sight(2_000, epoch=5), sight(3_000, epoch=7)], 2),
        ([sight(2_000, state="PreparingRebalance"), sight(3_000)], 1),
        ([sight(2_000, state="PreparingRebalance"), sight(3_000, MOVED)], 1),
        ([sight(2_000, MOVED), sight(3_000)], 2),
        ([sight(2_000, {}, state="Empty"), unanswered(2_500), sight(3_000)], 1),
    ],
)
def test_rebalances_are_counted_by_epochs_and_in_classic_groups_by_what_is_seen(after, count):
    epoch = 4 if after[0].epoch else None
    _, values = rows(sight(500, epoch=epoch), sight(900, epoch=epoch), *after)
    assert values["rebalances"] == count
