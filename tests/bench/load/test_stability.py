"""What the members of a group hold, added up."""

from types import SimpleNamespace

from bench.load.stability import GroupShare, share_of
from protocol.members.client import State


def member(state: State, *partitions: int) -> SimpleNamespace:
    return SimpleNamespace(
        state=state, coordinator=("h", 1), generation=3, partitions=[("t", n) for n in partitions]
    )


def test_members_without_a_partition_have_joined_all_the_same() -> None:
    share = share_of(
        [
            member(State.STABLE, 0, 1),
            member(State.STABLE),
            member(State.COMPLETING_REBALANCE),
            member(State.PREPARING_REBALANCE),
            member(State.UNJOINED),
        ]
    )
    assert share == GroupShare(members=5, joined=3, ready=1, generations=[3], owned=2)
    assert share + share == GroupShare(members=10, joined=6, ready=2, generations=[3], owned=4)
