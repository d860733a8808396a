"""Classic groups: two generations have what a rebalance changed, and only hints of its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol.records import ConsumerGroupMetadataKey, GroupMetadataKey
from protocol.watching.outlook import DEPARTED_MAX
from tests.protocol.watching.records import (
    NOW,
    Watched,
    epoch,
    generation,
    gone,
    joined,
    member,
)

TOMBSTONE = (GroupMetadataKey("g"), None)


@pytest.fixture
def watched() -> Watched:
    """A group of two members in generation 1."""
    watched = Watched()
    watched.write(generation(0))
    watched.now += 3_000
    watched.write(generation(1, member("a", 0, 1), member("b", 2, 3), since=watched.now - 40))
    assert watched.news() == [
        "generation 0 → 1: member a (10.0.0.4) joined (inferred: it and 1 more are new in"
        " generation 1); waited 3.0 s for more members; 4 partitions newly assigned"
    ]
    watched.now += 60_000
    return watched


def test_a_member_whose_last_commit_is_new_has_left(watched: Watched) -> None:
    watched.commit(2)
    watched.now += 1_500
    watched.write(generation(2, member("a", 0, 1, 2, 3)))
    assert watched.news() == [
        "generation 1 → 2: member b (10.0.0.4) left (inferred: its last commit was 1.5 s before,"
        " and its session timeout is 10.0 s); 2 of 4 partitions moved; 2 partitions of b served by"
        " nobody for up to 1.5 s"
    ]


def test_a_member_that_has_not_committed_for_its_session_has_vanished(watched: Watched) -> None:
    watched.commit(0)
    watched.commit(2)
    watched.now += 12_000
    watched.write(generation(2, member("a", 0, 1, 2, 3)))
    assert watched.news() == [
        "generation 1 → 2: member b (10.0.0.4) sent no heartbeat within its session timeout"
        " (inferred: its last commit was 12.0 s before, and its session timeout is 10.0 s); 2 of 4"
        " partitions moved; 2 partitions of b served by nobody for up to 12.0 s"
    ]


def test_of_a_member_that_commits_seldom_it_is_not_known_how_it_went(watched: Watched) -> None:
    watched.commit(2)
    watched.now += 100_000
    watched.write(generation(2, member("a", 0, 1, 2, 3)))
    assert watched.news() == [
        "generation 1 → 2: member b (10.0.0.4) is gone (inferred: it left or its session ended; its"
        " last commit was 100.0 s before); 2 of 4 partitions moved; 2 partitions of b served by"
        " nobody for up to 100.0 s"
    ]


def test_what_another_member_committed_says_nothing_of_who_had_its_partition_last(
    watched: Watched,
) -> None:
    watched.commit(2)
    watched.now += 1_000
    watched.write(generation(2, member("a", 0, 1), member("b", 3), member("c", 2)))
    watched.news()
    watched.now += 2_000
    watched.write(generation(3, member("a", 0, 1), member("b", 2, 3)))
    (told,) = watched.news()
    assert told.startswith(
        "generation 2 → 3: member c (10.0.0.4) is gone (inferred: it left or its session ended; no"
        " commit of its own is known)"
    )


def test_what_a_member_committed_of_its_own_counts_though_it_gained_more_since(
    watched: Watched,
) -> None:
    watched.write(generation(2, member("a", 0), member("b", 2, 3), member("c", 1)))
    watched.now += 1_000
    watched.commit(1)
    watched.commit(2)
    watched.now += 1_000
    watched.write(generation(3, member("a", 0), member("b", 2, 3, 1)))
    watched.news()
    watched.now += 1_000
    watched.write(generation(4, member("a", 0, 1, 2, 3)))
    (told,) = watched.news()
    assert told.startswith(
        "generation 3 → 4: member b (10.0.0.4) left (inferred: its last commit was 2.0 s before,"
        " and its session timeout is 10.0 s)"
    )


def test_a_static_member_under_another_member_id_has_not_gained_what_it_had() -> None:
    watched = Watched()
    old, new = ({"instance": "i", "member_id": each} for each in ("old", "new"))
    watched.write(generation(1, member("a", 0), member("b", 1, **old), member("c")))
    watched.commit(1)
    watched.now += 1_000
    watched.commit(0)
    watched.write(generation(2, member("b", 1, 0, **new), member("c")))
    watched.news()
    watched.now += 1_000
    watched.write(generation(3, member("c", 0, 1)))
    (told,) = watched.news()
    assert "member i (10.0.0.4) left (inferred: its last commit was 2.0 s before" in told


@pytest.mark.parametrize("is_read", [False, True])
def test_of_an_assignment_that_cannot_be_read_nothing_is_known(
    watched: Watched, *, is_read: bool
) -> None:
    watched.commit(2)
    watched.now += 1_000
    unread = replace(member("b"), assignment=b"\xff")
    watched.write(generation(2, member("a", 0, 1), unread))
    if is_read:
        watched.write(generation(3, member("a", 0, 1), member("b", 2, 3)))
    watched.news()
    watched.now += 1_000
    watched.write(generation(3 + is_read, member("a", 0, 1, 2, 3)))
    (told,) = watched.news()
    known = "no commit of its own is known" if is_read else "it never committed an offset"
    assert f"is gone (inferred: it left or its session ended; {known})" in told


def test_the_last_member_is_gone(watched: Watched) -> None:
    watched.write(generation(2))
    (told,) = watched.news()
    assert told.endswith("; 1 more is gone); no members are left")


def test_a_member_that_came_as_another_went(watched: Watched) -> None:
    watched.write(generation(2, member("a", 0, 1), member("c", 2, 3)))
    assert watched.news() == [
        "generation 1 → 2: member c (10.0.0.4) joined (inferred: it is new in generation 2, 1 is"
        " gone); 2 of 4 partitions moved"
    ]


def test_the_wait_for_the_leader_is_in_the_records(watched: Watched) -> None:
    since = watched.now - 2_000
    watched.write(generation(2, member("a", 0), member("b", 1, 2), member("c", 3), since=since))
    assert watched.news() == [
        "generation 1 → 2: member c (10.0.0.4) joined (inferred: it is new in generation 2);"
        " waited 2.0 s for the assignment of a; 2 of 4 partitions moved"
    ]


def test_generations_that_the_log_does_not_have_are_counted(watched: Watched) -> None:
    watched.write(generation(4, member("a", 0, 1), member("b", 2, 3)))
    assert watched.news() == [
        "generation 1 → 4: it was rebalanced, and the records do not say why (inferred: the members"
        " and their subscriptions are those of the generation before; 2 generations between are"
        " not in the log); 0 of 4 partitions moved"
    ]


def test_a_static_member_that_comes_back_moves_nothing() -> None:
    watched = Watched()
    watched.write(generation(1, member("a", 0, 1, 2, 3, instance="i", member_id="old")))
    watched.news()
    watched.write(generation(1, member("a", 0, 1, 2, 3, instance="i", member_id="new")))
    assert watched.news() == [
        "member i (10.0.0.4) came back under a new member id; nothing else changed"
    ]
    watched.write(
        generation(2, member("a", 4, topics=("u",), instance="i", member_id="newest", topic="u"))
    )
    (told,) = watched.news()
    assert told.startswith(
        "generation 1 → 2: member i (10.0.0.4) came back with other protocols or topics (inferred:"
        " its instance id has another member id in generation 2)"
    )


def test_a_member_that_subscribes_to_other_topics(watched: Watched) -> None:
    watched.write(generation(2, member("a", 0, 1), member("b", 2, 3, topics=("t", "u"))))
    assert watched.news() == [
        "generation 1 → 2: member b (10.0.0.4) subscribes to other topics (inferred: its"
        " subscription is another one in generation 2); 0 of 4 partitions moved"
    ]


def test_what_a_cooperative_assignor_took_away_is_assigned_again(watched: Watched) -> None:
    a, b = member("a", 0, 1), member("b", 2, 3)
    watched.write(generation(2, a, b, protocol="cooperative-sticky"))
    watched.write(generation(3, a, member("b", 2), member("c"), protocol="cooperative-sticky"))
    watched.write(generation(4, a, member("b", 2), member("c", 3), protocol="cooperative-sticky"))
    assert watched.news() == [
        "generation 1 → 2: a member joined again (inferred: the assignor was range, and is"
        " cooperative-sticky from then on); 0 of 4 partitions moved",
        "generation 2 → 3: member c (10.0.0.4) joined (inferred: it is new in generation 3); 0 of 3"
        " partitions moved; 1 without an owner now",
        "generation 3 → 4: a member gave up partitions and joined again, as a cooperative assignor"
        " asks (inferred: 1 partition that had been taken away is assigned again); 1 partition"
        " newly assigned",
    ]


def test_partitions_that_nobody_had_are_those_of_a_larger_topic(watched: Watched) -> None:
    watched.write(generation(2, member("a", 0, 1, 4), member("b", 2, 3)))
    assert watched.news() == [
        "generation 1 → 2: its topics have changed (inferred: 1 partition is assigned that nobody"
        " had before); 1 partition newly assigned"
    ]


def test_members_of_a_protocol_of_their_own(watched: Watched) -> None:
    """Only they can read their assignments."""
    key, value = generation(2, member("a"), member("b"))
    other = type(value)(
        protocol_type="connect",
        generation=2,
        protocol="compatible",
        leader=value.leader,
        members=value.members,
    )
    watched.write((key, other))
    (told,) = watched.news()
    assert told.startswith("generation 1 → 2: a member joined again (inferred: the assignor was")


def test_a_group_that_is_deleted_and_one_that_has_its_id(watched: Watched) -> None:
    watched.write(generation(2))
    watched.write((GroupMetadataKey("g"), None))
    watched.news()
    assert "g" not in watched.watch.outlook.ctx.groups
    watched.write(generation(1, member("z", 0)))
    (told,) = watched.news()
    assert told.startswith("generation 0 → 1: member z (10.0.0.4) joined")
    assert watched.now > NOW


ENDS: dict[str, list[list[tuple[Any, Any]]]] = {
    "a classic group": [[generation(57, member("a", 0))], [generation(58)], [TOMBSTONE]],
    "one with members": [[generation(57, member("a", 0))], [TOMBSTONE]],
    "one of which the log has only that": [[TOMBSTONE]],
}
CONSUMER_TOMBSTONE = (ConsumerGroupMetadataKey("g"), None)
OTHER_ENDS: dict[str, list[list[tuple[Any, Any]]]] = {
    "a consumer group": [
        [joined("a"), epoch(2)],
        [*gone("a"), epoch(3)],
        [CONSUMER_TOMBSTONE],
    ],
    "a consumer group that became a classic one": [
        [joined("a"), epoch(2)],
        [*gone("a"), CONSUMER_TOMBSTONE],
    ],
    "one of which the log has only that": [[CONSUMER_TOMBSTONE]],
}


def after(ends: list[list[tuple[Any, Any]]]) -> Watched:
    """Watch a log to the end of a group, a minute from write to write."""
    watched = Watched()
    for each in ends:
        watched.write(*each)
        watched.now += 60_000
    watched.news()
    return watched


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS.keys())
def test_a_group_that_comes_after_one_that_was_deleted_is_new(
    ends: list[list[tuple[Any, Any]]],
) -> None:
    """Before Kafka 4 a group without an assignment is not written, so its second may be first."""
    watched = after(ends)
    watched.write(generation(2, member("z", 0)))
    assert watched.news() == [
        "generation 0 → 2: member z (10.0.0.4) joined (inferred: it is new in generation 2; 1"
        " generation between is not in the log); 1 partition newly assigned"
    ]


@pytest.mark.parametrize("ends", OTHER_ENDS.values(), ids=OTHER_ENDS.keys())
def test_what_compaction_left_after_a_group_of_another_type_is_not_told(
    ends: list[list[tuple[Any, Any]]],
) -> None:
    """A tombstone stays for a day, though all generations but the last have gone meanwhile."""
    watched = after(ends)
    watched.write(generation(57, member("z", 0), member("y", 1)))
    assert watched.news() == []
    watched.now += 60_000
    watched.write(generation(58, member("z", 0, 1)))
    (told,) = watched.news()
    assert told.startswith("generation 57 → 58: member y")


def test_of_very_many_groups_that_are_deleted_the_last_are_remembered() -> None:
    watched = Watched()
    for number in range(2 * DEPARTED_MAX):
        watched.write((GroupMetadataKey(f"g{number}"), None))
    key, value = generation(2, member("z", 0))
    for number in (0, 2 * DEPARTED_MAX - 1):
        watched.write((replace(key, group=f"g{number}"), value))
    (told,) = watched.news()
    assert told.startswith(f"group g{2 * DEPARTED_MAX - 1}: generation 0 → 2: member z")
    assert len(watched.watch.outlook.departed) < DEPARTED_MAX
