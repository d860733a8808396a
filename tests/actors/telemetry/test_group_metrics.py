"""How many groups of each type and state there are, and how often they rebalance."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from actors.metrics.names import GROUP_COUNT, GROUP_TYPES
from actors.metrics.table import ROWS
from actors.telemetry.group_metrics import GroupMetrics, RecentRate
from failover.group_counts import GroupCounts
from protocol.config import Configs
from protocol.groups.group_types import TABLES
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from tests.actors.telemetry.facts import rebalance, target_assigned
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk


def counted(*shards: GroupShard) -> dict[str, Any]:
    metrics = GroupMetrics(lambda: 0.0)
    metrics.count(shards)
    metrics.count(shards)
    return metrics.status()


def test_every_type_of_group_has_metrics() -> None:
    assert {row.group_type for row in GROUP_TYPES} == set(TABLES.types)
    keys = {row.key for row in ROWS}
    for row in GROUP_TYPES:
        assert {row.count_key, row.rebalances_key, row.rebalance_rate_key} <= keys


def test_groups_are_counted_by_type_and_state() -> None:
    consumer, share, streams = ConsumerTalk(), ShareTalk(), StreamsTalk()
    consumer.join("A")
    consumer.join("B")
    share.join("A")
    streams.join("A")
    streams.leave("A")
    found = counted(consumer.shard, share.shard, streams.shard)
    assert found[GROUP_COUNT] == {"classic": 0, "consumer": 1, "share": 1, "streams": 1}
    assert found["consumer-group-count"]["Reconciling"] == 1
    assert found["share-group-count"] == {"Empty": 0, "Stable": 1, "Dead": 0}
    assert found["streams-group-count"]["Empty"] == 1
    assert sum(found["streams-group-count"].values()) == 1


def a_share_group() -> ShareTalk:
    talk = ShareTalk()
    talk.set_topics(a=2)
    return talk


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (ConsumerTalk, "consumer"),
        (a_share_group, "share"),
        (StreamsTalk, "streams"),
    ],
)
def test_every_state_that_a_group_goes_through_is_counted(make: Any, kind: str) -> None:
    talk, states = make(), set()
    for step in (
        lambda: talk.join("A"),
        lambda: talk.beat("A"),
        lambda: talk.join("B"),
        lambda: talk.beat("A"),
        lambda: talk.leave("A"),
        lambda: talk.leave("B"),
    ):
        step()
        found = counted(talk.shard)[f"{kind}-group-count"]
        assert sum(found.values()) == 1
        states |= {state for state, count in found.items() if count}
    assert {"Empty", "Stable"} <= states


def test_many_groups_are_counted_in_slices() -> None:
    counts = GroupCounts()
    shards = [ConsumerTalk().shard for _ in range(3)]
    talk = ConsumerTalk()
    talk.join("A")
    shards[1] = talk.shard
    for _ in range(3):
        counts.count(shards, 1)
    assert sum(counts.last.values()) == 1
    for _ in range(3):
        counts.count([], 1)
    assert not counts.last


def test_a_group_that_cannot_be_counted_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    metrics = GroupMetrics(lambda: 0.0)
    broken: Any = SimpleNamespace(group_ids=["g"], summary=lambda group_id: {}[group_id])
    metrics.count([broken])
    metrics.count([broken])
    assert "could not be counted" in caplog.text
    assert metrics.status()[GROUP_COUNT]["consumer"] == 0


def test_an_empty_shard_has_no_groups() -> None:
    shard = GroupShard(Configs(), Topics(), random.Random(0))
    assert sum(counted(shard)[GROUP_COUNT].values()) == 0


def test_rebalances_are_counted_by_type() -> None:
    metrics = GroupMetrics(lambda: 0.0)
    metrics.observe(rebalance())
    metrics.observe(target_assigned(group_type="share", epoch_before=4, epoch_after=7))
    metrics.observe(target_assigned(group_type="streams"))
    found = metrics.status()
    assert found["group-completed-rebalance-count"] == 1
    assert found["consumer-group-rebalance-count"] == 0
    assert found["share-group-rebalance-count"] == 3
    assert found["streams-group-rebalance-count"] == 1
    assert found["share-group-rebalance-rate"] == 3


def test_a_rate_is_that_of_the_last_minute() -> None:
    now_s = 1_000.0
    rate = RecentRate(lambda: now_s)
    rate.add(6)
    now_s += 10
    rate.add(3)
    rate.add(3)
    assert rate.per_second() == pytest.approx(1.2)
    now_s += 55
    assert rate.per_second() == pytest.approx(0.1)
    now_s += 60
    assert rate.per_second() == 0
