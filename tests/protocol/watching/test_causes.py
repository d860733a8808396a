"""What a coordinator wrote at once has one cause; what it wrote at another time has another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicPartitions,
    StreamsGroupMetadataKey,
    StreamsGroupTopologyKey,
)
from protocol.watching.topic_book import TopicBook
from tests.protocol.watching.records import (
    NOW,
    TOPIC,
    Watched,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)

TOPICS_CHANGED = (
    "its topics have changed (inferred: their hash is another one, and no member changed)"
)


@pytest.fixture
def watched() -> Watched:
    """A group with two members that have what they are to have, in epoch 3."""
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0, 1, 2, 3)}))
    watched.write(current("a", 2, 0, 1, 2, 3))
    watched.now += 1_000
    watched.write(joined("b"), epoch(3), *targets(3, {"a": (0, 1), "b": (2, 3)}))
    watched.write(current("a", 3, 0, 1), current("b", 3, 2, 3))
    watched.news()
    watched.now += 60_000
    return watched


def regex(pattern: str, *topics: str, version: int = 1) -> tuple[Any, Any]:
    value = ConsumerGroupRegularExpressionValue(topics=topics, version=version, timestamp=1)
    return ConsumerGroupRegularExpressionKey("g", pattern), value


def by_regex(name: str, pattern: str) -> tuple[Any, Any]:
    return joined(name, topics=(), subscribed_topic_regex=pattern)


def test_a_member_with_another_host_is_not_the_cause_of_what_comes_later(watched: Watched) -> None:
    """Kafka writes a member's new host, rack or client id, and no epoch."""
    watched.write(joined("a", client_host="/10.0.0.5"))
    watched.now += 5_000
    watched.write(*gone("b"), epoch(4), *targets(4, {"a": (0, 1, 2, 3)}))
    watched.write(current("a", 4, 0, 1, 2, 3))
    watched.now += 5_000
    watched.write(joined("a", client_host="/10.0.0.6"), epoch(5, 2), *targets(5, {}))
    (left, grown) = watched.news()
    assert left.startswith("epoch 3 → 4: member b (10.0.0.4) is gone")
    assert grown.startswith(f"epoch 4 → 5: {TOPICS_CHANGED}")


def test_a_member_that_is_written_again_and_again_takes_no_memory(watched: Watched) -> None:
    for number in range(1_000):
        watched.now += 1_000
        watched.write(joined("a", client_host=f"/10.0.0.{number % 2}"))
    (memory,) = watched.watch._modern[0]._memories.values()
    assert len(memory.candidates) <= 1


@pytest.mark.parametrize("fields", [{}, {"instance_id": "i"}])
def test_who_subscribes_to_nothing_yet_makes_no_epoch(
    watched: Watched, fields: dict[str, str]
) -> None:
    """Neither is it the cause of the next one, nor is one missing in the log."""
    watched.write(joined("c", topics=(), **fields), current("c", 3))
    watched.now += 5_000
    watched.write(*gone("b"), epoch(4), *targets(4, {"a": (0, 1, 2, 3), "c": ()}))
    watched.write(current("a", 4, 0, 1, 2, 3), current("c", 4))
    watched.now += 5_000
    watched.write(joined("d", topics=()), epoch(5, 2), *targets(5, {"a": (0, 1, 2), "d": ()}))
    watched.now += 5_000
    watched.write(joined("c", **fields), epoch(6, 2), *targets(6, {"a": (0, 1), "c": (2,)}))
    told = [each.split(" (")[0] for each in watched.news()]
    assert told == [
        "epoch 3 → 4: member b",
        f"epoch 4 → 5: {TOPICS_CHANGED.split(' (', maxsplit=1)[0]}",
        f"epoch 5 → 6: member {fields.get('instance_id', 'c')}",
    ]


def test_a_group_may_begin_with_a_member_that_subscribes_to_nothing_yet() -> None:
    watched = Watched()
    watched.write(joined("a", topics=()), current("a", 1))
    watched.now += 5_000
    watched.write(joined("b"), epoch(2), *targets(2, {"a": (), "b": (0, 1, 2, 3)}))
    (told,) = watched.news()
    assert told.startswith("epoch 1 → 2: member b (10.0.0.4) joined; 4 partitions newly assigned")


def test_a_regular_expression_that_is_only_looked_at_again_is_no_cause() -> None:
    watched = Watched()
    watched.write(by_regex("a", "t.*"))
    watched.now += 100
    watched.write(regex("t.*", "t"), epoch(2))
    watched.now += 100
    watched.write(*targets(2, {"a": (0, 1)}), current("a", 2, 0, 1))
    (told,) = watched.news()
    assert told.startswith("epoch 1 → 2: member a (10.0.0.4) joined")
    watched.now += 600_000
    watched.write(regex("t.*", "t", version=2))
    watched.now += 100
    watched.write(epoch(3, 2), *targets(3, {"a": (0, 1, 2)}))
    watched.now += 600_000
    watched.write(regex("t.*", "t", version=3), epoch(4, 3), *targets(4, {"a": (0, 1)}))
    watched.now += 600_000
    watched.write(regex("t.*", "t", "u", version=4), epoch(5, 4), *targets(5, {"a": (0,)}))
    told = watched.news()
    assert [each.split(": ", 1)[1].split(";")[0] for each in told] == [
        TOPICS_CHANGED,
        TOPICS_CHANGED,
        "a regular expression matches other topics",
    ]


def test_who_waits_for_its_regular_expression_did_not_cause_what_comes_first(
    watched: Watched,
) -> None:
    watched.write(by_regex("c", "t.*"), current("c", 3))
    watched.now += 20
    watched.write(*gone("b"), epoch(4), *targets(4, {"a": (0, 1, 2, 3)}))
    watched.write(current("a", 4, 0, 1, 2, 3))
    watched.now += 20
    watched.write(regex("t.*", "t"), epoch(5, 2))
    watched.now += 20
    watched.write(*targets(5, {"a": (0, 1), "c": (2, 3)}), current("c", 5))
    told = watched.news()
    assert told[0].startswith("epoch 3 → 4: member b (10.0.0.4) is gone")
    assert told[1].startswith("epoch 4 → 5: member c (10.0.0.4) joined")


def test_who_moves_to_another_host_still_waits_for_its_regular_expression(
    watched: Watched,
) -> None:
    watched.write(by_regex("c", "t.*"), current("c", 3))
    watched.now += 20
    key, value = by_regex("c", "t.*")
    watched.write((key, replace(value, client_host="/10.0.0.9")))
    watched.now += 20
    watched.write(regex("t.*", "t"), epoch(4, 2), *targets(4, {"a": (0, 1), "c": (2, 3)}))
    (told,) = watched.news()
    assert told.startswith("epoch 3 → 4: member c (10.0.0.4) joined")


def test_an_expression_that_matches_nothing_at_first_has_no_member_as_its_cause_later(
    watched: Watched,
) -> None:
    watched.write(by_regex("c", "u.*"), current("c", 3))
    watched.now += 20
    watched.write(regex("u.*"))
    watched.now += 3_600_000
    watched.write(regex("u.*", "u", version=2), epoch(4, 2), *targets(4, {"c": ()}))
    (told,) = watched.news()
    assert told.startswith("epoch 3 → 4: a regular expression matches other topics")


def state(initializing: tuple[int, ...], initialized: tuple[int, ...]) -> tuple[Any, Any]:
    def topic(partitions: tuple[int, ...]) -> tuple[ShareTopicPartitions, ...]:
        row = ShareTopicPartitions(topic_id=TOPIC, topic_name="t", partitions=partitions)
        return (row,) if partitions else ()

    return ShareGroupStatePartitionMetadataKey("g"), ShareGroupStatePartitionMetadataValue(
        initializing_topics=topic(initializing),
        initialized_topics=topic(initialized),
        deleting_topics=(),
    )


def test_share_state_is_the_cause_only_once_it_is_initialized() -> None:
    """Kafka asks for the share state of new partitions after the epoch that they are known from."""
    watched = Watched()

    def change(number: int, topics_hash: int) -> list[tuple[Any, Any]]:
        return [
            (
                ShareGroupMetadataKey("g"),
                ShareGroupMetadataValue(epoch=number, metadata_hash=topics_hash),
            ),
            (
                ShareGroupTargetAssignmentMetadataKey("g"),
                ShareGroupTargetAssignmentMetadataValue(
                    assignment_epoch=number, assignment_timestamp=NOW
                ),
            ),
        ]

    a = ShareGroupMemberMetadataValue(
        rack_id=None, client_id="a", client_host="/10.0.0.4", subscribed_topic_names=("t",)
    )
    watched.write((ShareGroupMemberMetadataKey("g", "id-of-a"), a), *change(2, 1))
    watched.write(state((0, 1), ()))
    watched.now += 10
    watched.write(state((), (0, 1)))
    watched.now += 10
    watched.write(*change(3, 1))
    watched.now += 60_000
    watched.write(*change(4, 2), state((2,), (0, 1)))
    watched.now += 60_000
    watched.write(*change(5, 3))
    told = [each.split(": ", 1)[1].split(";")[0] for each in watched.news()]
    assert told[0] == "member a (10.0.0.4) joined"
    assert told[1] == "more of its partitions may be assigned"
    assert told[2:] == [TOPICS_CHANGED, TOPICS_CHANGED]


def test_a_static_member_that_comes_back_with_other_topics_has_changed_something() -> None:
    """Kafka writes it as it was, and then, at once, as it is."""
    watched = Watched()
    watched.write(joined("x", instance_id="i"), epoch(2), *targets(2, {"x": (0, 1)}))
    watched.write(current("x", 2, 0, 1))
    watched.news()
    watched.now += 5_000
    watched.write(*gone("x"), joined("y", instance_id="i"), *targets(2, {"y": (0, 1)})[:-1])
    watched.write(current("y", 2, 0, 1), joined("y", instance_id="i", topics=("t", "u")))
    watched.write(epoch(3, 2), *targets(3, {"y": (0, 1, 2)}), current("y", 3, 0, 1, 2))
    (told,) = watched.news()
    assert told.startswith("epoch 2 → 3: member i (10.0.0.4) came back")
    assert told.endswith("1 partition newly assigned")


def test_a_static_member_that_comes_back_from_another_host_has_changed_nothing() -> None:
    watched = Watched()
    watched.write(joined("x", instance_id="i"), epoch(2), *targets(2, {"x": (0, 1)}))
    watched.write(current("x", 2, state=1, revoking=(0, 1)))
    watched.news()
    for number in range(3, 60):
        watched.now += 5_000
        old, new = ("x", "y") if number % 2 else ("y", "x")
        watched.write(*gone(old), joined(new, instance_id="i"), *targets(2, {new: (0, 1)})[:-1])
        watched.write(current(new, 2, state=1, revoking=(0, 1)))
        watched.write(joined(new, instance_id="i", client_host="/10.0.0.9"))
    assert set(watched.news()) == {
        "member i (10.0.0.4) came back under a new member id; nothing else changed"
    }
    watched.now += 5_000
    watched.write(epoch(3, 2), *targets(3, {"y": (0,)}))
    assert watched.news()[-1].startswith(f"epoch 2 → 3: {TOPICS_CHANGED}")
    (memory,) = watched.watch._modern[0]._memories.values()
    assert set(memory.revoking) | set(memory.gained) | set(memory.held) <= {"id-of-y"}


def test_a_classic_group_whose_members_all_wait_is_converted() -> None:
    """Its last generation is empty, and its epoch goes on from there."""
    watched = Watched()
    watched.write(generation(7, member("z", 0)), generation(8))
    watched.news()
    watched.now += 60_000
    watched.write((GroupMetadataKey("g"), None), joined("a"), epoch(8), *targets(8, {"a": ()}))
    watched.write(current("a", 8), joined("m"), epoch(9), *targets(9, {"m": (0, 1), "a": (2, 3)}))
    assert watched.news() == [
        "epoch 8 → 9: member m (10.0.0.4) joined; 4 partitions newly assigned; its end was not seen"
        " yet"
    ]


def test_an_empty_classic_group_ends_and_another_one_begins() -> None:
    watched = Watched()
    watched.write(generation(1, member("z", 0)), generation(2))
    watched.news()
    watched.write((GroupMetadataKey("g"), None), joined("m"), epoch(2), *targets(2, {"m": (0,)}))
    watched.write(current("m", 2, 0))
    assert watched.news() == ["epoch 1 → 2: member m (10.0.0.4) joined; 1 partition newly assigned"]


def test_a_group_that_was_deleted_is_not_converted_by_one_that_comes_later() -> None:
    watched = Watched()
    watched.write(generation(1, member("a", 0)))
    watched.write((GroupMetadataKey("g"), None))
    watched.now += 3_600_000
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0,)}), current("a", 2, 0))
    watched.write(*gone("a"), (ConsumerGroupTargetAssignmentMetadataKey("g"), None))
    watched.write((ConsumerGroupMetadataKey("g"), None))
    watched.now += 3_600_000
    watched.write(generation(1, member("b", 0)))
    told = watched.news()
    assert [each.split(";")[0] for each in told[-2:]] == [
        "epoch 1 → 2: member a (10.0.0.4) joined",
        "generation 0 → 1: member b (10.0.0.4) joined (inferred: it is new in generation 1)",
    ]


def test_groups_of_kafka_before_4_3_begin_in_epoch_1() -> None:
    watched = Watched()
    watched.write(joined("a"), epoch(1), *targets(1, {"a": (0,)}), current("a", 1, 0))
    assert watched.news() == ["epoch 0 → 1: member a (10.0.0.4) joined; 1 partition newly assigned"]


def test_what_its_partitions_last_owner_committed_says_nothing_of_a_member(
    watched: Watched,
) -> None:
    watched.commit(2)
    watched.now += 4_000
    watched.write(joined("c"), epoch(4), *targets(4, {"b": (3,), "c": (2,)}), current("c", 4, 2))
    watched.write(current("b", 4, 3), current("a", 4, 0, 1))
    watched.news()
    watched.now += 4_000
    watched.write(*gone("c"), epoch(5), *targets(5, {"b": (2, 3)}))
    (told,) = watched.news()
    assert told.startswith(
        "epoch 4 → 5: member c (10.0.0.4) is gone (inferred: it left or its session ended; no"
        " commit of its own is known)"
    )


def test_what_a_member_committed_of_its_own_counts_though_it_gained_more_since(
    watched: Watched,
) -> None:
    watched.commit(0)
    watched.commit(3)
    watched.now += 4_000
    watched.write(*gone("a"), epoch(4), *targets(4, {"b": (2, 3, 0, 1)}))
    watched.write(current("b", 4, 2, 3, 0, 1))
    watched.news()
    watched.now += 4_000
    watched.write(*gone("b"), epoch(5))
    (told,) = watched.news()
    assert told.startswith(
        "epoch 4 → 5: member b (10.0.0.4) sent no heartbeat within its session timeout (inferred:"
        " its last commit was 8.0 s before, and its session timeout is presumably 10.0 s)"
    )


def test_what_a_member_is_giving_up_and_keeps_after_all_is_not_gained(watched: Watched) -> None:
    watched.commit(3)
    watched.write(joined("c"), epoch(4), *targets(4, {"b": (2,), "c": (3,)}), current("c", 4))
    watched.write(current("b", 3, 2, state=1, revoking=(3,)), current("a", 4, 0, 1))
    watched.now += 1_000
    watched.write(*gone("c"), epoch(5), *targets(5, {"b": (2, 3)}), current("b", 5, 2, 3))
    watched.news()
    watched.now += 1_000
    watched.write(*gone("b"), epoch(6), *targets(6, {"a": (0, 1, 2, 3)}))
    *_, told = watched.news()
    assert "member b (10.0.0.4) left (inferred: its last commit was 2.0 s before" in told


def test_a_static_member_under_another_member_id_has_not_gained_what_it_had() -> None:
    watched = Watched()
    watched.write(joined("a", instance_id="i"), joined("c"), epoch(2))
    watched.write(*targets(2, {"a": (0, 1), "c": (2, 3)}))
    watched.write(current("a", 2, 0, 1), current("c", 2, 2, 3))
    watched.commit(0)
    watched.now += 1_000
    watched.write(*gone("a"), joined("b", instance_id="i"), *targets(2, {"b": (0, 1)})[:-1])
    watched.write(current("b", 2, 0, 1))
    watched.news()
    watched.now += 1_000
    watched.write(*gone("b"), epoch(3), *targets(3, {"c": (0, 1, 2, 3)}))
    (told,) = watched.news()
    assert "member i (10.0.0.4) left (inferred: its last commit was 2.0 s before" in told


def test_what_a_topic_had_committed_before_its_name_was_known_is_not_its_own(
    watched: Watched,
) -> None:
    """Only a name tells of which partition a commit is."""
    topics, watched.watch.outlook.topics = watched.watch.outlook.topics, TopicBook()
    watched.commit(2)
    watched.now += 1_000
    watched.write(joined("c"), epoch(4), *targets(4, {"b": (3,), "c": (2,)}))
    watched.write(current("b", 4, 3), current("c", 4, 2), current("a", 4, 0, 1))
    watched.watch.outlook.topics = topics
    watched.news()
    watched.now += 1_000
    watched.write(*gone("c"), epoch(5), *targets(5, {"b": (2, 3)}))
    (told,) = watched.news()
    assert told.startswith("epoch 4 → 5: member c (10.0.0.4) is gone")
    assert "no commit of its own is known" in told


def test_clocks_that_go_back_give_no_negative_times(watched: Watched) -> None:
    watched.write(joined("s", instance_id="i"), epoch(4), *targets(4, {"s": ()}), current("s", 4))
    watched.write(current("s", -2))
    watched.now -= 30_000
    watched.write(*gone("s"), epoch(5), *targets(5, {}))
    assert not any("-" in each.split("inferred: ")[-1] for each in watched.news())


def test_nothing_is_kept_of_groups_that_are_gone() -> None:
    watched = Watched()
    for number in range(2):
        watched.write(joined("a"), epoch(2), *targets(2, {"a": (0,)}), current("a", 2, 0))
        watched.write(*gone("a"), epoch(3), (ConsumerGroupMetadataKey("g"), None))
        watched.write((ConsumerGroupRegularExpressionKey("g", "t.*"), None))
        watched.write((ShareGroupStatePartitionMetadataKey("g"), None))
        watched.write((StreamsGroupMetadataKey("g"), None), (StreamsGroupTopologyKey("g"), None))
        for name in (f"c{number}", "d"):
            watched.write(*gone(name))
        watched.write((ConsumerGroupTargetAssignmentMemberKey("g", "z"), None))
        watched.write((ConsumerGroupTargetAssignmentMetadataKey("g"), None))
    assert [each._memories for each in watched.watch._modern] == [{}, {}, {}]
    assert watched.watch.outlook.ctx.groups == {}
