"""Classic members with each assignor: what they keep in a rebalance, and what they join again for.

The fleets look at every step whether two members own a partition (KIP-429).
"""

import pytest

from protocol.members.assignors import ASSIGNORS, ClassicAssignor
from protocol.members.classic import MemberConfig
from protocol.members.client import State
from protocol.members.history import MemberHistoryKind
from protocol.wire.embedded import decode_subscription
from protocol.wire.errors import ErrorCode as E
from protocol.wire.messages import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from tests.protocol.members.fleet import Fleet
from tests.protocol.members.test_classic import Conversation, alive, joined, synced

COOPERATIVE = ClassicAssignor.COOPERATIVE_STICKY
TOPICS = {"a": 8, "b": 4}
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
REVOKES_MS = 1_200


def told(join):
    """Return what a member says that it owns, and since when."""
    subscription = decode_subscription(join.protocols[0].metadata)
    return subscription.owned_partitions, subscription.generation_id


class Talk(Conversation):
    """The conversation of a cooperative member."""

    def __init__(self, **settings):
        super().__init__(assignor=COOPERATIVE, **settings)

    def rebalance(self, generation, owned):
        """Be asked to join, and be given this; return what the member said that it owns."""
        self.wait()
        self.says(HeartbeatRequest)
        self.hear(alive(E.rebalance_in_progress))
        join = self.says(JoinGroupRequest)
        self.hear(joined("m1", generation, protocol_name=COOPERATIVE))
        self.says(SyncGroupRequest)
        self.hear(synced(owned))
        return told(join)


def test_a_cooperative_member_keeps_its_partitions_while_it_joins():
    talk = Talk().become_stable(owned=(T0, T1))
    assert talk.rebalance(2, (T0, T1, T2)) == ((T0, T1), 1)
    assert talk.member.partitions == (T0, T1, T2)
    assert all(event.partitions for event in talk.member.history[1:])
    talk.wait()
    talk.says(HeartbeatRequest)


def test_it_gives_up_what_it_loses_and_joins_again_at_once():
    talk = Talk().become_stable(owned=(T0, T1))
    talk.rebalance(2, (T0,))
    assert talk.member.partitions == (T0,)
    join = talk.says(JoinGroupRequest)
    assert (told(join), join.member_id) == (((T0,), 2), "m1")


def test_it_heartbeats_while_its_application_gives_partitions_up():
    talk = Talk(revocation_ms=4_000).become_stable(owned=(T0, T1))
    talk.rebalance(2, (T0, T2))
    assert talk.member.partitions == (T0, T1)
    began = talk.now
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    talk.member.rejoin()
    talk.says_nothing()
    talk.wait()
    assert talk.now == began + 4_000
    assert told(talk.says(JoinGroupRequest)) == ((T0, T2), 2)
    assert talk.kinds()[-1] is MemberHistoryKind.ASSIGNED


def test_a_member_that_could_not_sync_tells_since_when_it_really_owns():
    """KAFKA-13891: it has joined a generation, but does not know that assignment."""
    talk = Talk().become_stable(owned=(T0, T1))
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    talk.says(JoinGroupRequest)
    talk.hear(joined("m1", 2, protocol_name=COOPERATIVE))
    talk.says(SyncGroupRequest)
    talk.hear(synced(error=E.rebalance_in_progress))
    assert told(talk.says(JoinGroupRequest)) == ((T0, T1), 1)


@pytest.mark.parametrize("error", [E.unknown_member_id, E.illegal_generation])
def test_a_cooperative_member_that_is_forgotten_has_lost_its_partitions(error):
    talk = Talk(revocation_ms=4_000).become_stable(owned=(T0, T1))
    talk.rebalance(2, (T0,))
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(error))
    assert talk.member.partitions == ()
    assert told(talk.says(JoinGroupRequest))[0] == ()


def test_it_gives_up_topics_that_it_no_longer_subscribes_to_before_it_joins():
    talk = Talk().become_stable(owned=(T0, ("u", 1)))
    talk.member.subscribe(("t",))
    assert told(talk.says(JoinGroupRequest)) == ((T0,), 1)


class Classic(Fleet):
    """A fleet of classic members with one assignor."""

    assignor = ClassicAssignor.RANGE

    def classic(self, name, **settings):
        config = MemberConfig(
            group_id="g",
            topics=("a", "b"),
            heartbeat_interval_ms=500,
            assignor=self.assignor,
            **settings,
        )
        return self.add(name, config)

    def expect_shares(self, members):
        """Expect that so many members have everything; even shares, but from ``range``."""
        shares = self.shares()
        assert (len(shares), sum(shares)) == (members, sum(TOPICS.values()))
        assert self.assignor is ClassicAssignor.RANGE or len(set(shares)) == 1

    def generation(self):
        return max(member.generation for member in self.members.values())


def fleet_of(assignor, members, **settings):
    fleet = Classic(topics=TOPICS, is_prompt=True)
    fleet.assignor = assignor
    for number in range(members):
        fleet.classic(f"m{number}", **settings)
    fleet.run(8)
    return fleet


@pytest.mark.parametrize("revokes_ms", [0, REVOKES_MS])
@pytest.mark.parametrize("assignor", ClassicAssignor)
def test_members_come_and_go_and_share_everything(assignor, revokes_ms):
    fleet = fleet_of(assignor, 3, revocation_ms=revokes_ms)
    fleet.expect_shares(3)
    fleet.classic("m3", revocation_ms=revokes_ms)
    fleet.run(12)
    fleet.expect_shares(4)
    fleet.members["m0"].leave("it is over")
    fleet.run(12)
    fleet.expect_shares(3)
    assert {each.state for each in fleet.members.values()} == {State.STABLE, State.LEFT}


@pytest.mark.parametrize("assignor", ClassicAssignor)
def test_who_keeps_what_when_a_member_joins(assignor):
    """Sticky: the others lose one partition each; cooperative: and never have less than that."""
    fleet = fleet_of(assignor, 3)
    before = {name: set(member.partitions) for name, member in fleet.members.items()}
    fewest = dict.fromkeys(before, 4)
    fleet.classic("m3")
    for _ in range(100):
        fleet.run(0.05)
        for name, least in fewest.items():
            fewest[name] = min(least, len(fleet.members[name].partitions))
    kept = [len(each & set(fleet.members[name].partitions)) for name, each in before.items()]
    is_sticky = assignor in (ClassicAssignor.STICKY, COOPERATIVE)
    assert (kept == [3, 3, 3]) is is_sticky
    assert set(fewest.values()) == ({3} if ASSIGNORS[assignor].is_cooperative else {0})


def test_a_cooperative_group_needs_one_more_generation_when_partitions_move():
    eager, cooperative = fleet_of(ClassicAssignor.STICKY, 3), fleet_of(COOPERATIVE, 3)
    needed = []
    for fleet in (eager, cooperative):
        before = fleet.generation()
        fleet.classic("m3")
        fleet.run(8)
        needed.append(fleet.generation() - before)
    assert needed == [1, 2]


def test_a_static_cooperative_member_has_its_partitions_again_without_a_rebalance():
    """KIP-345, though what it says that it owns is not what its predecessor said."""
    fleet = fleet_of(COOPERATIVE, 2)
    fleet.classic("m2", instance_id="i")
    fleet.run(8)
    owned, generation = fleet.members["m2"].partitions, fleet.generation()
    del fleet.members["m2"]
    fleet.classic("m2", instance_id="i")
    fleet.run(8)
    assert (fleet.members["m2"].partitions, fleet.generation()) == (owned, generation)


@pytest.mark.parametrize("revokes_ms", [0, REVOKES_MS])
def test_cooperative_members_share_a_group_with_those_of_the_consumer_protocol(revokes_ms):
    """KIP-848: the coordinator assigns, and they give up what it takes as they always do."""
    fleet = fleet_of(COOPERATIVE, 2, revocation_ms=revokes_ms)
    fleet.consumer("c0")
    fleet.run(15)
    assert fleet.is_consumer_group
    assert fleet.shares() == [4, 4, 4]
    fleet.members["m0"].leave("it is over")
    fleet.run(15)
    assert fleet.shares() == [6, 6]
    fleet.members["c0"].leave()
    fleet.run(15)
    assert fleet.shares() == [12]
