"""What Kafka writes of share and streams groups, case by case; the models found each of these."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from protocol.groups.facts import TopicsCause, TopicsChanged
from protocol.records import Record, encode
from protocol.stories import movement
from tests.protocol.watching import share_records as share
from tests.protocol.watching import streams_records as streams
from tests.protocol.watching.records import TOPIC, Watched, current, epoch, joined, targets
from tests.protocol.watching.test_causes import TOPICS_CHANGED

if TYPE_CHECKING:
    from typing import Any

OTHER = UUID(int=9)
BOTH = [(TOPIC, 0), (TOPIC, 1)]
ACTIVE = [("active", "0", each) for each in range(4)]


def write(watched: Watched, *records: list[tuple[Any, Any]]) -> None:
    for those in records:
        watched.write(*those)


@pytest.fixture
def sharing() -> Watched:
    """A share group whose members a and b both have both partitions, in epoch 3."""
    watched = Watched()
    write(watched, share.state({}, {TOPIC: ("t", {0, 1})}))
    watched.now += 1_000
    write(watched, share.joined("a"), share.epoch(2), share.targets(2, {"a": BOTH}))
    write(watched, share.current("a", 2, BOTH))
    watched.now += 1_000
    write(watched, share.joined("b"), share.epoch(3), share.targets(3, {"b": BOTH}))
    write(watched, share.current("b", 3, BOTH))
    watched.now += 5_000
    write(watched, share.current("a", 3, BOTH))
    return watched


@pytest.fixture
def streaming() -> Watched:
    """A streams group with a static member a that has all tasks, in epoch 2."""
    watched = Watched()
    write(watched, streams.joined("a", instance_id="i"), streams.topology(), streams.epoch(2))
    write(watched, streams.targets(2, {"a": ACTIVE}), streams.current("a", 2, ACTIVE))
    watched.news()
    watched.now += 60_000
    return watched


def test_a_partition_that_gets_one_more_owner_had_one(sharing: Watched) -> None:
    assert sharing.news()[-1] == (
        "epoch 2 → 3: member b (10.0.0.4) joined; waited 5.0 s for a; 2 of 4 partitions moved"
    )


def test_a_partition_that_loses_one_of_its_owners_still_has_one(sharing: Watched) -> None:
    sharing.news()
    write(sharing, share.gone("b"), share.epoch(4), share.targets(4, {}))
    write(sharing, share.current("a", 4, BOTH))
    (told,) = sharing.news()
    assert told.startswith("epoch 3 → 4: member b (10.0.0.4) is gone")
    assert told.endswith("; 0 of 4 partitions moved")


def test_a_partition_that_loses_all_its_owners_is_counted_once(sharing: Watched) -> None:
    sharing.news()
    write(sharing, share.gone("b"), share.epoch(4))
    sharing.now += 1_000
    write(sharing, share.gone("a"), share.epoch(5))
    assert sharing.news()[-1].endswith("; 2 partitions without an owner now; no members are left")


def test_share_state_of_a_topic_that_nobody_wants_any_more_is_no_cause(sharing: Watched) -> None:
    sharing.news()
    known = {TOPIC: ("t", {0, 1})}
    write(sharing, share.state({}, {**known, OTHER: ("u", {0})}))
    sharing.now += 1_000
    write(sharing, share.epoch(4, 2), share.targets(4, {}))
    assert sharing.news()[-1].startswith(f"epoch 3 → 4: {TOPICS_CHANGED}")


def test_share_state_that_the_target_has_already_is_no_cause(sharing: Watched) -> None:
    """A target was computed later than its epoch, and has it."""
    sharing.news()
    write(sharing, share.joined("c"), share.epoch(4), share.current("c", 3, []))
    sharing.now += 1_000
    write(sharing, share.state({}, {TOPIC: ("t", {0, 1, 2})}))
    sharing.now += 1_000
    write(sharing, share.targets(4, {"c": [(TOPIC, 2)]}), share.current("c", 4, [(TOPIC, 2)]))
    sharing.now += 1_000
    write(sharing, share.epoch(5, 2), share.targets(5, {}))
    told = sharing.news()
    assert told[0].startswith("epoch 3 → 4: member c (10.0.0.4) joined")
    assert told[1].startswith(f"epoch 4 → 5: {TOPICS_CHANGED}")


def test_all_have_the_target_of_a_topology_whose_topics_are_missing() -> None:
    watched = Watched()
    write(watched, streams.joined("a"), streams.topology(), streams.epoch(2, validated=-1))
    write(watched, streams.targets(2, {"a": []}), streams.current("a", 2, []))
    assert watched.news() == ["epoch 1 → 2: member a (10.0.0.4) joined; 0 tasks moved"]
    watched.now += 5_000
    write(watched, streams.epoch(3, 2), streams.targets(3, {"a": ACTIVE}))
    write(watched, streams.current("a", 3, ACTIVE))
    assert watched.news() == [
        "epoch 2 → 3: all topics of its topology exist now; 4 tasks newly assigned"
    ]


def test_a_static_member_of_a_streams_group_comes_back_as_another_process(
    streaming: Watched,
) -> None:
    """Kafka writes it as it was, and then, at once, as it is."""
    write(streaming, streams.gone("a"), streams.joined("b", instance_id="i"))
    write(streaming, streams.targets(2, {"b": ACTIVE})[:-1], streams.current("b", 0, ACTIVE))
    write(streaming, streams.joined("b", instance_id="i", process_id="other"), streams.epoch(3))
    write(streaming, streams.targets(3, {}), streams.current("b", 3, ACTIVE))
    assert streaming.news() == [
        "epoch 2 → 3: member i (10.0.0.4) has another process, endpoint, host or tags; 0 tasks"
        " moved"
    ]


def test_standby_and_warm_up_tasks_move_nothing(streaming: Watched) -> None:
    replicas = [("standby", "0", 0), ("warmup", "0", 1)]
    write(streaming, streams.joined("b"), streams.epoch(3))
    write(streaming, streams.targets(3, {"b": replicas}), streams.current("b", 3, replicas))
    streaming.now += 2_000
    write(streaming, streams.current("a", 3, ACTIVE))
    assert streaming.news() == [
        "epoch 2 → 3: member b (10.0.0.4) joined; waited 2.0 s for i; 0 tasks moved"
    ]


def test_a_member_that_is_asked_for_more_has_its_whole_time_again(streaming: Watched) -> None:
    """Its coordinator starts the rebalance timeout again with each record of what to give up."""
    kept, given = ACTIVE[:2], ACTIVE[2:]
    write(streaming, streams.joined("b"), streams.epoch(3))
    write(streaming, streams.targets(3, {"a": kept, "b": given}), streams.current("b", 3, [], 2))
    write(streaming, streams.current("a", 2, kept, 1, given))
    streaming.now += 50_000
    write(streaming, streams.epoch(4, 2), streams.targets(4, {"a": kept[:1], "b": ACTIVE[1:]}))
    write(streaming, streams.current("a", 3, kept[:1], 1, kept[1:]))
    streaming.now += 20_000
    write(streaming, streams.gone("a"), streams.epoch(5), streams.targets(5, {"b": ACTIVE}))
    assert streaming.news()[-1].startswith(
        "epoch 4 → 5: member i (10.0.0.4) is gone (inferred: it left or its session ended;"
    )


def test_an_epoch_with_a_member_from_another_host_may_have_another_cause() -> None:
    """Only of streams groups does a host make an epoch."""
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0,)}), current("a", 2, 0))
    watched.news()
    watched.now += 60_000
    watched.write(joined("a", client_host="/10.0.0.5"), epoch(3), *targets(3, {}))
    assert watched.news()[0].startswith(
        "epoch 2 → 3: it was rebalanced, and the records do not say why"
    )


def test_a_target_whose_epoch_is_gone_is_not_the_answer_to_an_earlier_one() -> None:
    """The cleaner was at work after the first write was read."""
    watched = Watched()
    watched.write(joined("a"), epoch(2), current("a", 1))
    watched.now += 60_000
    watched.write(*targets(7, {})[-1:], current("a", 7))
    watched.now += 60_000
    watched.write(epoch(8, 2), *targets(8, {"a": (0,)}))
    assert watched.news() == []


def test_a_target_that_members_have_and_the_log_has_not_was_another_one() -> None:
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0, 1))
    watched.news()
    watched.now += 60_000
    watched.write(joined("b"), epoch(3))
    watched.now += 60_000
    watched.write(current("b", 3, 1))
    watched.now += 60_000
    watched.write(epoch(4, 2), *targets(4, {"a": (0,), "b": (1,)}))
    assert watched.news() == []


@pytest.mark.parametrize("is_gone", [True, False])
def test_members_that_come_or_go_without_an_epoch_had_one(*, is_gone: bool) -> None:
    """Compaction has removed it; that the next epoch's number fits is chance."""
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0, 1))
    watched.write(joined("b"), epoch(3), *targets(3, {"a": (0,), "b": (1,)}))
    watched.news()
    watched.now += 60_000
    if is_gone:
        watched.write(*((key, None) for key, _ in (current("b", 0), joined("b"))))
    else:
        watched.write(joined("c"), *targets(9, {"c": ()})[:-1])
    watched.now += 60_000
    watched.write(epoch(4, 2), *targets(4, {"a": (0, 1)}))
    assert [each for each in watched.news() if "→" in each] == []


def test_epoch_2_is_the_second_one_of_a_group_of_kafka_4_2() -> None:
    """Groups begin in epoch 1 since targets have times; of this one epoch 1 is gone."""
    watched = Watched()
    write(watched, share.state({}, {TOPIC: ("t", {0, 1})}))
    watched.now += 1_000
    write(watched, share.joined("b"), share.epoch(2), share.targets(2, {"b": BOTH}, time_ms=0))
    write(watched, share.current("b", 2, BOTH))
    assert watched.news() == []
    watched.now += 1_000
    write(watched, share.gone("b"), share.epoch(3), share.targets(3, {}, time_ms=0))
    assert watched.news()[-1].startswith("epoch 2 → 3: member b (10.0.0.4) is gone")


def test_a_group_of_kafka_4_2_has_epoch_0_before_its_first_target() -> None:
    watched = Watched()
    write(watched, share.joined("a"), share.epoch(1))
    watched.now += 1_000
    write(watched, share.joined("b"), share.epoch(2), share.targets(2, {"a": [], "b": []}))
    assert watched.news()[-1].startswith("epoch 0 → 2: member a (10.0.0.4) joined")


def test_of_the_first_epoch_that_is_left_no_cause_is_known() -> None:
    watched = Watched()
    facts = []
    for record in (*streams.topology(), *streams.epoch(57), *streams.epoch(58)):
        facts += watched.watch.take(*encode(Record(*record)), watched.now)
    assert [each.cause for each in facts if isinstance(each, TopicsChanged)] == [
        TopicsCause.NOT_RECORDED,
        TopicsCause.NOT_RECORDED,
    ]


def test_what_moved_is_counted_of_targets_that_are_too_large_for_a_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(movement.of_target, "__defaults__", (10,))
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0, 1, 2, 3)}))
    watched.news()
    watched.write(joined("b"), epoch(3), *targets(3, {"a": (), "b": (0, 1, 2, 3)}))
    assert "; 4 of 4 partitions moved" in watched.news()[-1]
