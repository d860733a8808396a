"""Consumer groups: their records say what changed; only how a member went is concluded."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocol.groups.facts import TargetAssigned
from protocol.groups.topics import Topic
from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    Record,
    encode,
)
from protocol.stories import movement
from protocol.stories.story import Wait
from protocol.watching import overview
from protocol.watching.new_target import AWAITED_MAX
from protocol.watching.topic_book import MISSED_MAX, TopicBook
from tests.protocol.watching.records import (
    NOW,
    SESSION_MS,
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

UNREVOKED = 1
UNRELEASED = 2


@pytest.fixture
def watched() -> Watched:
    """A group with two members that have what they are to have, in epoch 3."""
    watched = Watched()
    watched.write(
        joined("a"), epoch(2), *targets(2, {"a": (0, 1, 2, 3)}), current("a", 2, 0, 1, 2, 3)
    )
    watched.now += 1_000
    watched.write(joined("b"), epoch(3), *targets(3, {"a": (0, 1), "b": (2, 3)}))
    watched.write(
        current("b", 3, state=UNRELEASED), current("a", 2, 0, 1, state=UNREVOKED, revoking=(2, 3))
    )
    watched.now += 700
    watched.write(current("a", 3, 0, 1), current("b", 3, 2, 3))
    assert watched.news() == [
        "epoch 1 → 2: member a (10.0.0.4) joined; 4 partitions newly assigned",
        "epoch 2 → 3: member b (10.0.0.4) joined; waited 0.7 s for b; 2 of 4 partitions moved",
    ]
    watched.now += 60_000
    return watched


def leave(watched: Watched) -> str:
    """Let b go, and a take over what it had; what is told of it."""
    watched.write(*gone("b"), epoch(4), *targets(4, {"a": (0, 1, 2, 3)}))
    watched.write(current("a", 4, 0, 1, 2, 3))
    (told,) = watched.news()
    return told


def test_the_time_until_a_target_was_written_is_told(watched: Watched) -> None:
    """Kafka computes it at a later heartbeat, or when its assignment interval is over."""
    watched.write(*gone("b"), epoch(4))
    watched.now += 4_400
    watched.write(*targets(4, {"a": (0, 1, 2, 3)}))
    watched.now += 600
    watched.write(current("a", 4, 0, 1, 2, 3))
    (story,) = watched.stories.values()
    assert [(each.what, each.wait_ms) for each in story.waits] == [
        (Wait.TARGET, 4_400),
        (Wait.RECONCILE, 600),
    ]
    (told,) = watched.news()
    assert told.endswith(
        "; waited 4.4 s until the new target was written; waited 0.6 s for a;"
        " 2 of 4 partitions moved"
    )


def test_of_each_member_that_went_before_the_target_it_is_told_what_nobody_served(
    watched: Watched,
) -> None:
    watched.write(joined("c"), epoch(4), *targets(4, {"a": (0, 1), "b": (2,), "c": (3,)}))
    watched.write(current("a", 4, 0, 1), current("b", 4, 2), current("c", 4, 3))
    watched.news()
    for partition in (2, 3):
        watched.commit(partition)
    watched.now += SESSION_MS
    for number, name in ((5, "b"), (6, "c")):
        watched.write(*gone(name), epoch(number))
        watched.now += 1_000
    watched.write(*targets(6, {"a": (0, 1, 2, 3)}), current("a", 6, 0, 1, 2, 3))
    (told,) = watched.news()
    assert told.endswith(
        "; waited 2.0 s until the new target was written; 2 of 4 partitions moved;"
        " 1 partition of b served by nobody for up to 12.0 s;"
        " 1 partition of c served by nobody for up to 12.0 s"
    )


def test_of_too_many_partitions_it_is_not_told_how_many_moved(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.commit(3)
    monkeypatch.setattr(movement, "UNITS_MAX", 3)
    assert leave(watched).endswith("its session timeout is presumably 10.0 s)")


def test_a_member_whose_last_commit_is_new_has_left(watched: Watched) -> None:
    watched.commit(3)
    watched.now += 300
    assert leave(watched) == (
        "epoch 3 → 4: member b (10.0.0.4) left (inferred: its last commit was 0.3 s before, and its"
        " session timeout is presumably 10.0 s); 2 of 4 partitions moved"
    )


def test_a_member_that_has_not_committed_for_its_session_has_vanished(watched: Watched) -> None:
    watched.commit(3)
    watched.now += SESSION_MS
    assert leave(watched) == (
        "epoch 3 → 4: member b (10.0.0.4) sent no heartbeat within its session timeout (inferred:"
        " its last commit was 10.0 s before, and its session timeout is presumably 10.0 s); 2 of 4"
        " partitions moved; 2 partitions of b served by nobody for up to 10.0 s"
    )


def test_of_a_member_that_never_commits_it_is_not_known_how_it_went(watched: Watched) -> None:
    assert leave(watched) == (
        "epoch 3 → 4: member b (10.0.0.4) is gone (inferred: it left or its session ended; it never"
        " committed an offset); 2 of 4 partitions moved"
    )


@pytest.mark.parametrize("early_ms", [0, 5], ids=["in-time", "clock-of-records"])
def test_a_member_that_keeps_partitions_beyond_its_rebalance_timeout(
    watched: Watched, early_ms: int
) -> None:
    """Kafka starts the timer some milliseconds before it gives the record its time."""
    watched.write(joined("c"), epoch(4), *targets(4, {"b": (2,), "c": (3,)}), current("c", 4))
    watched.write(current("b", 3, 2, state=UNREVOKED, revoking=(3,)), current("a", 4, 0, 1))
    watched.commit(3)
    watched.now += 60_000 - early_ms
    watched.write(*gone("b"), epoch(5), *targets(5, {"a": (0, 1, 2)}))
    watched.write(current("a", 5, 0, 1, 2), current("c", 5, 3))
    told = watched.news()
    assert told[-1].startswith(
        "epoch 4 → 5: member b (10.0.0.4) did not give up its partitions within its rebalance"
        " timeout (inferred: it was to give up partitions for 60.0 s, and its rebalance timeout is"
        " 60.0 s)"
    )


def test_the_last_member_is_gone(watched: Watched) -> None:
    leave(watched)
    watched.write(*gone("a"), epoch(5))
    (told,) = watched.news()
    assert told.startswith("epoch 4 → 5: member a (10.0.0.4) is gone")
    assert told.endswith("; 4 partitions without an owner now; no members are left")
    watched.write(joined("z"), epoch(6), *targets(6, {"z": (0,)}), current("z", 6, 0))
    assert watched.news() == ["epoch 5 → 6: member z (10.0.0.4) joined; 1 partition newly assigned"]


def test_a_static_member_goes_comes_back_and_goes_for_good() -> None:
    watched = Watched()
    static = {"instance_id": "i"}
    watched.write(
        joined("x", **static), epoch(2), *targets(2, {"x": (0, 1)}), current("x", 2, 0, 1)
    )
    watched.news()
    watched.write(current("x", -2, 0, 1))
    watched.now += 4_000
    watched.write(*gone("x"), joined("y", **static), *targets(2, {"y": (0, 1)})[:-1])
    watched.write(current("y", 2, 0, 1))
    assert watched.news() == [
        "member i (10.0.0.4) came back under a new member id; nothing else changed"
    ]
    watched.write(current("y", -2, 0, 1))
    watched.now += 45_000
    watched.write(*gone("y"), epoch(3))
    assert watched.news() == [
        "epoch 2 → 3: member i (10.0.0.4) sent no heartbeat within its session timeout (inferred:"
        " it had left 45.0 s before, to come back, and has not); 2 partitions without an owner now;"
        " no members are left"
    ]


def test_other_topics_of_a_member_and_of_the_cluster(watched: Watched) -> None:
    watched.write(joined("b", topics=("t", "u")), epoch(4, 2), *targets(4, {}))
    watched.write(current("a", 4, 0, 1), current("b", 4, 2, 3))
    watched.write(epoch(5, 3), *targets(5, {}), current("a", 5, 0, 1), current("b", 5, 2, 3))
    watched.write(epoch(6, 3), *targets(6, {}), current("a", 6, 0, 1), current("b", 6, 2, 3))
    matches = ConsumerGroupRegularExpressionValue(topics=("t",), version=1, timestamp=watched.now)
    watched.write((ConsumerGroupRegularExpressionKey("g", "t.*"), matches))
    watched.write(epoch(7, 4), *targets(7, {}), current("a", 7, 0, 1), current("b", 7, 2, 3))
    moved = "; 0 partitions moved"
    assert watched.news() == [
        f"epoch 3 → 4: member b (10.0.0.4) subscribes to other topics{moved}",
        "epoch 4 → 5: its topics have changed (inferred: their hash is another one, and no member"
        f" changed){moved}",
        "epoch 5 → 6: it was rebalanced, and the records do not say why (inferred: neither a member"
        f" nor the hash of the topics changed){moved}",
        f"epoch 6 → 7: a regular expression matches other topics{moved}",
    ]


def test_a_target_that_comes_after_a_later_change_has_its_own_cause(watched: Watched) -> None:
    """A coordinator computes a target while the group goes on."""
    watched.write(joined("c"), epoch(4))
    watched.now += 50
    watched.write(joined("b", topics=("t", "u")), epoch(5, 2))
    watched.write(*targets(4, {"b": (2,), "c": (3,)}), *targets(5, {}))
    told = watched.news()
    assert told[0].startswith("epoch 3 → 4: member c (10.0.0.4) joined")
    assert told[1].startswith("epoch 4 → 5: member b (10.0.0.4) subscribes to other topics")


def test_a_topic_whose_name_is_learned_later() -> None:
    watched = Watched()
    other = UUID(int=9)
    topics = watched.watch.outlook.topics = TopicBook()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0,)}))
    assert topics.misses
    topics.replace([Topic(other, "u", 1)])
    assert not topics.misses
    watched.commit(0, topic_id=TOPIC)
    assert topics.by_id(TOPIC) == Topic(TOPIC, "t", 0)
    topics.replace([Topic(TOPIC, "t", 3)])
    assert (topics.by_name("t"), topics.by_name("u")) == (Topic(TOPIC, "t", 3), None)
    assert topics.by_id(other) == Topic(other, "u", 1)  # deleted, and still named


def test_an_id_that_no_topic_has_is_missed_once() -> None:
    topics = TopicBook([Topic(TOPIC, "t", 4)])
    assert topics.by_id(TOPIC) is not None
    assert not topics.misses
    secret = UUID(int=9)
    assert topics.by_id(secret) is None
    assert topics.misses
    topics.replace([Topic(TOPIC, "t", 4)])
    assert topics.by_id(secret) is None
    assert not topics.misses
    topics.replace([Topic(TOPIC, "t", 4), Topic(secret, "s", 1)])
    assert topics.by_id(secret) == Topic(secret, "s", 1)


def test_the_ids_that_no_topic_has_are_bounded() -> None:
    topics = TopicBook()
    for number in range(2 * MISSED_MAX):
        topics.by_id(UUID(int=number))
        topics.replace(())
    assert len(topics._unfound) <= MISSED_MAX


def test_a_classic_group_becomes_one_and_is_one_again() -> None:
    watched = Watched()
    a = member("a", 0, 1, 2, 3)
    watched.write(generation(1, a))
    watched.news()
    watched.write((GroupMetadataKey("g"), None), joined("a"), epoch(1))
    watched.write(*targets(1, {"a": (0, 1, 2, 3)}), current("a", 1, 0, 1, 2, 3))
    watched.write(joined("m"), epoch(2), *targets(2, {"a": (0, 1), "m": (2, 3)}))
    watched.write(current("m", 2), current("a", 2, 0, 1), current("m", 2, 2, 3))
    assert watched.news() == ["epoch 1 → 2: member m (10.0.0.4) joined; 2 of 4 partitions moved"]
    assert watched.watch.outlook.ctx.groups["g"].type_name == "consumer"
    watched.write(*gone("a"), *gone("m"))
    watched.write((ConsumerGroupTargetAssignmentMetadataKey("g"), None))
    watched.write((ConsumerGroupMetadataKey("g"), None), generation(2, member("a", 0, 1)))
    assert watched.news() == []
    watched.write(generation(3, a))
    assert watched.news() == [
        "generation 2 → 3: it has changed its type (inferred: its members joined again for the"
        " first time since then); 2 partitions newly assigned"
    ]


def test_who_waited_in_the_classic_group_is_not_the_cause_of_what_comes_after() -> None:
    watched = Watched()
    watched.write(generation(1, member("a", 0, 1, 2, 3)))
    watched.news()
    watched.write((GroupMetadataKey("g"), None), joined("a"), joined("late"), epoch(1))
    watched.write(*targets(1, {"a": (0, 1, 2, 3), "late": ()}), current("a", 1, 0, 1, 2, 3))
    watched.write(joined("m"), epoch(2), *targets(2, {"a": (0, 1), "m": (2, 3)}))
    watched.write(current("a", 2, 0, 1), current("late", 2), current("m", 2, 2, 3))
    assert watched.news() == ["epoch 1 → 2: member m (10.0.0.4) joined; 2 of 4 partitions moved"]


def test_the_groups_as_they_are(watched: Watched) -> None:
    watched.commit(0, offset=5)
    watched.write(joined("c"), epoch(4))
    (row,) = overview.rows(watched.watch.outlook, lambda _, partition: 12 if not partition else 0)
    assert (row.group_type, row.state, row.members) == ("consumer", "Assigning", 3)
    assert (row.epoch, row.target_epoch, row.behind) == (4, 3, 1)
    assert (row.offsets, row.lag, row.last_commit_ms) == (1, 7, watched.now)
    assert watched.now > NOW


def test_of_many_that_are_awaited_some_are_named() -> None:
    watched = Watched()
    names = [f"m{number}" for number in range(50)]
    watched.write(*map(joined, names), epoch(2), *targets(2, dict.fromkeys(names, ())))
    facts: list[TargetAssigned] = []
    for record in (joined("late"), epoch(3), *targets(3, {"late": (0,)})):
        found = watched.watch.take(*encode(Record(*record)), watched.now)
        facts += [each for each in found if isinstance(each, TargetAssigned)]
    (fact,) = facts
    assert (fact.awaited_count, len(fact.awaited), fact.members) == (50, AWAITED_MAX, 51)
    assert fact.awaited[0].member_id == "id-of-m0"


def test_a_target_for_nobody_is_not_told_after_the_end(watched: Watched) -> None:
    """A run of the assignor that began before everybody went."""
    watched.write(joined("c"), epoch(4))
    for number, name in enumerate("abc"):
        watched.write(*gone(name), epoch(5 + number))
    assert watched.news()[-1].endswith("no members are left")
    watched.write(*targets(4, {}))
    assert watched.news() == []
