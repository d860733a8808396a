"""The range assignor of a classic group's leader."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.members.assignor import Subscriber, range_assign


def test_each_member_gets_a_run_of_neighbouring_partitions_the_first_ones_one_more():
    members = [Subscriber(name, None, ("t",)) for name in ("c", "a", "b")]
    assert range_assign(members, {"t": 7}) == {
        "a": [("t", 0), ("t", 1), ("t", 2)],
        "b": [("t", 3), ("t", 4)],
        "c": [("t", 5), ("t", 6)],
    }


def test_topics_are_shared_out_one_by_one_among_those_who_subscribed():
    members = [Subscriber("a", None, ("t", "u")), Subscriber("b", None, ("u",))]
    assert range_assign(members, {"t": 2, "u": 2}) == {
        "a": [("t", 0), ("t", 1), ("u", 0)],
        "b": [("u", 1)],
    }


def test_static_members_come_first_by_instance_id():
    """KIP-345, "Client Behavior Changes"."""
    members = [
        Subscriber("a", None, ("t",)),
        Subscriber("z", "instance-1", ("t",)),
        Subscriber("y", "instance-2", ("t",)),
    ]
    assert range_assign(members, {"t": 3}) == {
        "z": [("t", 0)],
        "y": [("t", 1)],
        "a": [("t", 2)],
    }


def test_a_static_member_keeps_its_partitions_under_a_new_member_id():
    """KIP-345, "Client Behavior Changes"."""

    def owned_by_second(member_id: str) -> list[tuple[str, int]]:
        members = [Subscriber("m", "i1", ("t",)), Subscriber(member_id, "i2", ("t",))]
        return range_assign(members, {"t": 10})[member_id]

    assert owned_by_second("a") == owned_by_second("z")


def test_members_without_a_partition_and_unknown_topics_are_no_obstacle():
    members = [Subscriber("a", None, ("t", "nowhere")), Subscriber("b", None, ("t",))]
    assert range_assign(members, {"t": 1}) == {"a": [("t", 0)], "b": []}


@given(
    st.dictionaries(st.sampled_from("tuv"), st.integers(0, 20)),
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=3),
        st.tuples(
            st.none() | st.text("xyz", min_size=1, max_size=3),
            st.sets(st.sampled_from("tuv")).map(lambda topics: tuple(sorted(topics))),
        ),
    ),
    st.randoms(use_true_random=False),
)
def test_every_partition_has_one_owner_who_subscribed_whatever_order_members_come_in(
    partitions, members, rng
):
    subscribers = [Subscriber(name, *rest) for name, rest in members.items()]
    assignment = range_assign(subscribers, partitions)
    rng.shuffle(subscribers)
    assert range_assign(subscribers, partitions) == assignment
    wanted = {topic for subscriber in subscribers for topic in subscriber.topics}
    owned = [partition for share in assignment.values() for partition in share]
    assert sorted(owned) == [
        (topic, index) for topic in sorted(wanted) for index in range(partitions.get(topic, 0))
    ]
    for subscriber in subscribers:
        assert {topic for topic, _ in assignment[subscriber.member_id]} <= set(subscriber.topics)
