"""Which groups have metrics of their own, and how long rebalances are said to take."""

import random
from typing import Any

import pytest

from actors.metrics.names import (
    GROUP_MEMBERS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_STATE,
    GROUP_TYPES,
    GROUPS_LEFT_OUT,
    MEMBERS_LEFT_OUT,
)
from actors.telemetry import group_activity
from actors.telemetry.group_activity import GROUPS_MAX, PERIOD_S, GroupActivity
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.histograms import SERIES_MAX, Histogram
from actors.telemetry.rebalance_durations import RebalanceDurations
from failover.group_counts import GroupCounts
from protocol.groups.facts import GroupConverted, GroupDeleted, RebalanceOutcome, TopicsCause
from protocol.groups.group_type import GroupSummary
from protocol.stories.causes import Cause
from protocol.stories.story import GROUP_ID_MAX
from tests.actors.telemetry.facts import NOW, member_event, rebalance, reconciled, target_assigned
from tests.actors.telemetry.test_metrics import Clock
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk


class Shard:
    """Groups with so many members, all Stable but one."""

    def __init__(self, **members: int) -> None:
        self.group_ids = members

    def summary(self, group_id: str) -> Any:
        state = "Reconciling" if group_id == "c" else "Stable"
        return GroupSummary("consumer", state, "consumer", self.group_ids[group_id])


def shown(metrics: GroupMetrics, shard: Any, shown_max: int) -> dict[str, Any]:
    metrics.count([shard], shown_max)
    metrics.count([shard], shown_max)
    return metrics.status()


def test_the_most_active_groups_are_shown_and_the_others_are_summed() -> None:
    metrics = GroupMetrics(Clock())
    metrics.observe(target_assigned(group_id="a", epoch_before=1, epoch_after=3))
    metrics.observe(rebalance(group_id="c"))
    found = shown(metrics, Shard(a=1, b=500, c=2, d=40, e=50), 3)  # type: ignore[arg-type]
    assert found[GROUP_MEMBERS] == [["a", 1], ["c", 2], ["b", 500]]
    assert found[GROUP_REBALANCES] == [["a", 2], ["c", 1], ["b", 0]]
    assert found[GROUP_REBALANCING] == [["a", 0], ["c", 1], ["b", 0]]
    assert found[GROUP_STATE][1] == ["c", "consumer", "Reconciling", 1]
    assert (found[GROUPS_LEFT_OUT], found[MEMBERS_LEFT_OUT]) == (2, 90)


def test_no_group_is_shown_when_none_is_wanted() -> None:
    found = shown(GroupMetrics(Clock()), Shard(a=1, b=2), 0)
    assert found[GROUP_MEMBERS] == []
    assert (found[GROUPS_LEFT_OUT], found[MEMBERS_LEFT_OUT]) == (2, 3)


def test_a_group_with_a_long_id_is_summed_with_the_others() -> None:
    """Of ids as long as clients may make them, a Collector would not take fifty."""
    found = shown(GroupMetrics(Clock()), Shard(**{"x" * (GROUP_ID_MAX + 1): 9, "a": 1}), 50)
    assert found[GROUP_MEMBERS] == [["a", 1]]
    assert (found[GROUPS_LEFT_OUT], found[MEMBERS_LEFT_OUT]) == (1, 9)


def test_the_ranking_is_that_of_sorting_all_groups() -> None:
    rng = random.Random(1)
    members = {f"group-{number}": rng.randrange(50) for number in range(300)}
    activity = {group_id: rng.randrange(5) for group_id in members}
    counts = GroupCounts(activity.__getitem__)
    for _ in range(10):
        counts.count([Shard(**members)], groups_max=100, ranked_max=20)  # type: ignore[list-item]
    best = sorted(((activity[each], members[each], each) for each in members), reverse=True)[:20]
    assert [(each.activity, each.members, each.group_id) for each in counts.ranked] == best
    assert counts.members == sum(members.values())


def test_real_groups_say_how_many_members_they_have() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.join("B")
    ((_, members),) = shown(GroupMetrics(Clock()), talk.shard, 5)[GROUP_MEMBERS]
    assert members == 2


def test_activity_is_that_of_the_last_two_periods() -> None:
    clock = Clock()
    activity = GroupActivity(clock)
    activity.add("a", 2)
    clock.now_s += PERIOD_S
    assert (activity.lately("a"), activity.total("a")) == (2, 2)
    activity.add("a", 1)
    clock.now_s += PERIOD_S
    assert (activity.lately("a"), activity.total("a")) == (1, 3)
    clock.now_s += 2 * PERIOD_S
    assert (activity.lately("a"), activity.total("a")) == (0, 3)


def test_groups_are_forgotten_beyond_a_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(group_activity, "GROUPS_MAX", 2)
    activity = GroupActivity(Clock())
    for group_id in ("a", "b", "a", "c"):
        activity.add(group_id, 1)
    assert [activity.total(each) for each in "abc"] == [2, 0, 1]
    assert [activity.lately(each) for each in "abc"] == [2, 0, 1]
    assert GROUPS_MAX > 1_000


def durations(*facts: Any) -> dict[tuple[str, ...], float]:
    counted = RebalanceDurations()
    for fact in facts:
        counted.observe(fact)
    return {tuple(each["labels"]): each["sum"] for each in counted.histogram.status()}


def test_a_classic_rebalance_lasts_from_its_trigger_to_the_assignment() -> None:
    restarted = rebalance(outcome=RebalanceOutcome.RESTARTED)
    assert durations(restarted, rebalance()) == {("classic", "left"): 0.212}


def test_another_rebalance_lasts_from_the_first_change_to_the_last_member() -> None:
    first, second = target_assigned(), target_assigned(changed_ms=NOW + 500)
    end = reconciled(time_ms=NOW + 4_000)
    assert durations(first, second, end) == {("consumer", "left"): 4.0}
    topics = target_assigned(cause=TopicsCause.TOPICS_CHANGED, group_type="share")
    assert durations(topics, end) == {("share", "topics-changed"): 4.0}
    assert durations(target_assigned(cause=None), end) == {("consumer", "unknown"): 4.0}
    after = target_assigned(cause=None, elected_ms=NOW)
    assert durations(after, end) == {("consumer", "failover"): 4.0}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("consumer poll timeout has expired.", "poll-timeout"),
        ("the consumer was removed by an admin", "admin-removed"),
        ("the consumer is being closed", "left"),
    ],
)
def test_why_a_member_left_is_told_apart(reason: str, cause: str) -> None:
    assert durations(rebalance(reason=reason)) == {("classic", cause): 0.212}
    target = target_assigned(cause=member_event(reason=reason))
    assert durations(target, reconciled()) == {("consumer", cause): 0.25}


def test_a_group_of_another_type_is_told_from_one_whose_cause_is_not_known() -> None:
    converted = GroupConverted(
        group_id="orders", group_type="consumer", epoch=5, members=2, time_ms=NOW
    )
    target, end = target_assigned(cause=None), reconciled()
    assert durations(converted, target, end) == {("consumer", "type-changed"): 0.25}
    deleted = GroupDeleted(group_id="orders", time_ms=NOW)
    assert durations(converted, deleted, target, end) == {("consumer", "unknown"): 0.25}


def test_every_cause_of_every_type_has_room() -> None:
    assert len(GROUP_TYPES) * len(Cause) <= SERIES_MAX


def test_a_group_without_members_or_that_is_deleted_has_no_duration() -> None:
    assert durations(target_assigned(), reconciled(members=0)) == {}
    deleted = GroupDeleted(group_id="orders", time_ms=NOW)
    assert durations(target_assigned(), deleted, reconciled()) == {}
    assert durations(reconciled()) == {}


def test_a_histogram_has_a_limit_of_series() -> None:
    histogram = Histogram()
    for number in range(SERIES_MAX + 5):
        histogram.add(1.0, str(number))
    assert len(histogram.status()) == SERIES_MAX
