"""What classic members tell the leader of what they own: a row for each assignor."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.members.assignor import Subscriber, round_robin_assign
from protocol.members.assignors import (
    ASSIGNORS,
    ClassicAssignor,
    LastAssigned,
    read_sticky_user_data,
    sticky_user_data,
)
from protocol.wire.embedded import (
    EmbeddedSubscription,
    decode_subscription,
    encode_subscription,
)

OWNED = (("t", 0), ("t", 2), ("ü", 1))


def test_every_assignor_has_a_row():
    assert set(ASSIGNORS) == set(ClassicAssignor)


@pytest.mark.parametrize("assignor", ClassicAssignor)
def test_a_leader_reads_what_a_member_tells(assignor):
    row = ASSIGNORS[assignor]
    member = SimpleNamespace(partitions=OWNED, last_assigned=LastAssigned(OWNED, 7))
    told = decode_subscription(encode_subscription(row.tells(("t", "ü"), member)))
    assert told.topics == ("t", "ü")
    says = assignor in (ClassicAssignor.STICKY, ClassicAssignor.COOPERATIVE_STICKY)
    assert row.told(told) == (LastAssigned(OWNED, 7) if says else LastAssigned())


def test_the_user_data_of_the_sticky_assignor_is_kafkas():
    """StickyAssignor's STICKY_ASSIGNOR_USER_DATA_V1."""
    last = LastAssigned((("t", 0), ("t", 2)), 7)
    data = bytes.fromhex("00000001 0001 74 00000002 00000000 00000002 00000007")
    assert sticky_user_data(last) == data
    assert read_sticky_user_data(data) == last
    assert read_sticky_user_data(data[:-4]) == LastAssigned(last.partitions)
    assert sticky_user_data(LastAssigned()) is None


@given(st.binary(max_size=60))
def test_other_user_data_tells_nothing_and_is_read_within_its_length(data):
    read_sticky_user_data(data)
    assert read_sticky_user_data(bytes.fromhex("7fffffff fffa 00000000") + data) == LastAssigned()


def test_a_cooperative_member_may_tell_its_generation_in_its_user_data_only():
    """A subscription of version 1 has no generation; librdkafka's has user data of both kinds."""
    told = ASSIGNORS[ClassicAssignor.COOPERATIVE_STICKY].told
    row = EmbeddedSubscription(topics=("t",), owned_partitions=OWNED, user_data=b"\0\0\0\x07")
    assert told(row) == LastAssigned(OWNED, 7)
    both = sticky_user_data(LastAssigned(OWNED, 8))
    row = EmbeddedSubscription(topics=("t",), owned_partitions=OWNED, user_data=both)
    assert told(row) == LastAssigned(OWNED, 8)


def test_round_robin_deals_partitions_out_to_those_who_subscribed():
    """RoundRobinAssignor: t0, t1 to the next member in turn, u only to its subscribers."""
    members = [
        Subscriber("a", None, ("t", "u")),
        Subscriber("b", None, ("t",)),
        Subscriber("c", "1", ("u",)),
    ]
    assert round_robin_assign(members, {"t": 3, "u": 2}) == {
        "c": [("u", 0)],
        "a": [("t", 0), ("t", 2), ("u", 1)],
        "b": [("t", 1)],
    }
    assert round_robin_assign([], {"t": 3}) == {}
