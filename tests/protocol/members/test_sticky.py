"""The sticky assignors of a classic group's leader: what must hold whatever members own."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.members.assignor import Subscriber
from protocol.members.sticky import cooperative_assign, sticky_assign

TOPICS = "tuv"
NAMES = st.text("abcdef", min_size=1, max_size=2)
PARTITIONS = st.tuples(st.sampled_from("tuvw"), st.integers(0, 9))
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8))
"""Some topics that members subscribe to may not exist."""
OWNED = st.tuples(st.lists(PARTITIONS, max_size=8).map(tuple), st.integers(-1, 3))
SUBSCRIPTIONS = st.sets(st.sampled_from(TOPICS)).map(lambda topics: tuple(sorted(topics)))
INSTANCES = st.none() | st.text("xyz", min_size=1, max_size=2)


def groups(topics=SUBSCRIPTIONS):
    """Draw members that own anything, also the same and what does not exist."""
    rows = st.dictionaries(NAMES, st.tuples(INSTANCES, topics, OWNED), max_size=8)
    return rows.map(
        lambda found: [
            Subscriber(name, instance, topics, *owned)
            for name, (instance, topics, owned) in found.items()
        ]
    )


SAME = st.just(tuple(TOPICS))


def loads(assignment):
    return {name: len(owned) for name, owned in assignment.items()}


def settled(subscribers, assignment, generation=5):
    """Return the members as they join again after they were told this assignment."""
    return [
        Subscriber(
            each.member_id,
            each.instance_id,
            each.topics,
            tuple(assignment[each.member_id]),
            generation,
        )
        for each in subscribers
    ]


@given(groups(), COUNTS, st.randoms(use_true_random=False))
def test_every_partition_has_one_owner_who_subscribed_whatever_order_members_come_in(
    subscribers, partitions, rng
):
    assignment = sticky_assign(subscribers, partitions)
    rng.shuffle(subscribers)
    assert sticky_assign(subscribers, partitions) == assignment
    wanted = {topic for each in subscribers for topic in each.topics}
    assert sorted(place for owned in assignment.values() for place in owned) == [
        (topic, index) for topic in sorted(wanted) for index in range(partitions.get(topic, 0))
    ]
    for each in subscribers:
        assert {topic for topic, _ in assignment[each.member_id]} <= set(each.topics)


@given(groups(SAME), COUNTS)
def test_members_with_the_same_topics_differ_by_one_partition_at_most(subscribers, partitions):
    found = loads(sticky_assign(subscribers, partitions)).values()
    assert max(found, default=0) - min(found, default=0) <= 1


@given(groups(), COUNTS)
def test_no_partition_could_move_to_a_member_with_two_fewer(subscribers, partitions):
    assignment = sticky_assign(subscribers, partitions)
    found = loads(assignment)
    for name, owned in assignment.items():
        for topic, _ in owned:
            others = [found[each.member_id] for each in subscribers if topic in each.topics]
            assert found[name] - min(others) < 2


@given(groups(SAME), COUNTS)
def test_members_with_the_same_topics_keep_as_much_as_an_even_share_allows(subscribers, partitions):
    """KIP-54: as many partitions as possible stay where they are."""
    claims = Counter(
        (place, each.generation) for each in subscribers for place in dict.fromkeys(each.owned)
    )
    newest = {}
    for place, generation in claims:
        newest[place] = max(newest.get(place, generation), generation)
    had = {
        each.member_id: [
            place
            for place in dict.fromkeys(each.owned)
            if newest[place] == each.generation
            and claims[place, each.generation] == 1
            and place[1] < partitions.get(place[0], 0)
        ]
        for each in subscribers
    }
    assignment = sticky_assign(subscribers, partitions)
    kept = sum(len(set(had[name]) & set(owned)) for name, owned in assignment.items())
    total = sum(map(len, assignment.values()))
    quota, extras = divmod(total, max(len(subscribers), 1))
    more = sum(len(owned) > quota for owned in had.values())
    assert kept == sum(min(len(owned), quota) for owned in had.values()) + min(more, extras)


@given(groups(), COUNTS)
def test_a_group_that_does_not_change_keeps_everything(subscribers, partitions):
    assignment = sticky_assign(subscribers, partitions)
    again = settled(subscribers, assignment)
    assert sticky_assign(again, partitions) == assignment
    assert cooperative_assign(again, partitions) == assignment


def test_the_newer_of_two_claims_counts_and_of_two_alike_none():
    members = [
        Subscriber("a", None, ("t",), (("t", 0), ("t", 1)), 3),
        Subscriber("b", None, ("t",), (("t", 0), ("t", 1)), 4),
    ]
    assert sticky_assign(members, {"t": 4})["b"] == [("t", 0), ("t", 1)]
    alike = [Subscriber(each.member_id, None, ("t",), each.owned, 4) for each in members]
    assert sticky_assign(alike, {"t": 4}) == sticky_assign(
        [Subscriber(name, None, ("t",)) for name in "ab"], {"t": 4}
    )
    assert cooperative_assign(alike, {"t": 4}) == {"a": [], "b": [("t", 2), ("t", 3)]}


@given(groups(), COUNTS)
def test_nobody_is_given_what_another_member_has_not_given_up(subscribers, partitions):
    """KIP-429."""
    assignment = cooperative_assign(subscribers, partitions)
    for each in subscribers:
        for other in subscribers:
            if other is not each:
                assert not set(assignment[other.member_id]) & set(each.owned)


@given(groups(), COUNTS)
def test_a_cooperative_group_has_its_assignment_after_one_more_generation(subscribers, partitions):
    """KIP-429: those that lose partitions give them up, and then the others are given them."""
    first = cooperative_assign(subscribers, partitions)
    kept = [
        Subscriber(each.member_id, each.instance_id, each.topics, tuple(first[each.member_id]), 9)
        for each in subscribers
    ]
    second = cooperative_assign(kept, partitions)
    assert second == sticky_assign(kept, partitions)
    for each in kept:
        same = {each.topics for each in subscribers}
        assert len(same) > 1 or set(each.owned) <= set(second[each.member_id])
