"""The classic member's conversation with its coordinator, answer by answer."""

import random

import pytest

from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.client import BrokerNode, State
from protocol.members.history import MemberHistoryKind
from protocol.wire.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)

E = ErrorCode
HEARTBEAT_MS = 3_000


class Conversation:
    """A member and the clock; ``hear`` answers the request that the member has in flight."""

    def __init__(self, **settings):
        config = MemberConfig(
            **{"group_id": "g", "topics": ("t",), "heartbeat_interval_ms": HEARTBEAT_MS, **settings}
        )
        self.member = ClassicMember(config, random.Random(1), {"t": 4})
        self.now = 1_000
        self.sent = None

    def says(self, request_type):
        """Expect the member to send this now."""
        (self.sent,) = self.member.poll(self.now)
        assert type(self.sent.message) is request_type
        return self.sent.message

    def says_nothing(self):
        assert self.member.poll(self.now) == []

    def hear(self, response):
        self.member.receive(self.sent, response, self.now)

    def lose(self):
        self.member.lost(self.sent, self.now)

    def wait(self):
        """Let the time come at which the member wants to be polled."""
        deadline = self.member.next_deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)

    def find_coordinator(self):
        self.says(FindCoordinatorRequest)
        assert self.sent.to is None
        self.hear(found())

    def become_stable(self, member_id="m1", generation=1, owned=(("t", 0),)):
        """Join as a follower."""
        self.find_coordinator()
        self.says(JoinGroupRequest)
        self.hear(joined(member_id, generation))
        self.says(SyncGroupRequest)
        self.hear(synced(owned))
        return self

    def kinds(self):
        return [event.kind for event in self.member.history]


def found(error=E.none):
    node = Coordinator(key="g", node_id=1, host="h", port=9, error_code=error, error_message=None)
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=(node,))


def joined(member_id, generation=1, leader="somebody", members=(), **fields):
    return JoinGroupResponse(
        **{
            "throttle_time": NO_THROTTLE,
            "error_code": E.none,
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "leader": leader,
            "member_id": member_id,
            "members": members,
            **fields,
        }
    )


def join_refused(error, member_id=""):
    return joined(member_id, -1, "", error_code=error, protocol_name=None)


def synced(owned=(), error=E.none):
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        protocol_type="consumer",
        protocol_name="range",
        assignment=encode_assignment(owned),
    )


def alive(error=E.none):
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)


def committed(error=E.none):
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    topic = OffsetCommitResponseTopic(name="t", topic_id=None, partitions=(partition,))
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=(topic,))


def test_a_dynamic_member_joins_again_with_the_member_id_it_is_told():
    """KIP-394."""
    talk = Conversation()
    talk.find_coordinator()
    first = talk.says(JoinGroupRequest)
    assert (first.member_id, first.group_instance_id) == ("", None)
    talk.hear(join_refused(E.member_id_required, "m1"))
    assert talk.says(JoinGroupRequest).member_id == "m1"
    assert talk.sent.to == BrokerNode(1, "h", 9)


def test_a_member_that_has_joined_and_synced_holds_its_partitions():
    talk = Conversation().become_stable(generation=7, owned=(("t", 2), ("t", 1)))
    assert talk.member.state is State.STABLE
    assert talk.member.generation == 7
    assert talk.member.partitions == (("t", 1), ("t", 2))
    assert talk.kinds() == [MemberHistoryKind.JOINED, MemberHistoryKind.ASSIGNED]


def test_the_leader_assigns_to_all_members_and_a_follower_to_nobody():
    talk = Conversation()
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    members = tuple(
        JoinGroupResponseMember(
            member_id=name, group_instance_id=instance, metadata=encode_subscription(("t",))
        )
        for name, instance in (("m1", None), ("m2", "i"))
    )
    talk.hear(joined("m1", leader="m1", members=members))
    shares = {each.member_id: each.assignment for each in talk.says(SyncGroupRequest).assignments}
    assert decode_assignment(shares["m2"]) == (("t", 0), ("t", 1))
    assert decode_assignment(shares["m1"]) == (("t", 2), ("t", 3))

    follower = Conversation()
    follower.find_coordinator()
    follower.says(JoinGroupRequest)
    follower.hear(joined("m2", leader="m1"))
    assert follower.says(SyncGroupRequest).assignments == ()


def test_a_member_with_unreadable_metadata_is_given_nothing():
    talk = Conversation()
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    stranger = JoinGroupResponseMember(member_id="m0", metadata=b"\xff")
    talk.hear(joined("m1", leader="m1", members=(stranger,)))
    (share,) = talk.says(SyncGroupRequest).assignments
    assert decode_assignment(share.assignment) == ()


def lead(**fields):
    """Return a conversation with the leader of a group whose other member reads another topic."""
    talk = Conversation()
    talk.member.partitions_of = {"t": 4, "u": 1, "strange": 1}
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    members = tuple(
        JoinGroupResponseMember(
            member_id=name, group_instance_id=None, metadata=encode_subscription(topics)
        )
        for name, topics in (("m1", ("t", "new")), ("m2", ("u",)))
    )
    talk.hear(joined("m1", leader="m1", members=members, **fields))
    talk.says(SyncGroupRequest)
    talk.hear(synced((("t", 0),)))
    return talk


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(
    "after",
    [
        {"t": 4, "strange": 1},
        {"t": 5, "u": 1, "strange": 1},
        {"t": 4, "u": 1, "new": 2, "strange": 1},
    ],
    ids=["deleted", "grown", "created"],
)
def test_a_leader_joins_again_when_a_topic_of_its_group_has_changed(after, skips):
    talk = lead(skip_assignment=skips)
    talk.member.partitions_of = after
    talk.says_nothing()  # it looks at its topics when it heartbeats
    talk.wait()
    assert talk.says(JoinGroupRequest).member_id == "m1"


def test_a_leader_notes_the_topics_by_which_it_assigned_though_they_change_in_place():
    talk = lead()
    del talk.member.partitions_of["u"]
    talk.wait()
    talk.says(JoinGroupRequest)


def test_a_leader_heartbeats_while_only_topics_of_others_change():
    talk = lead()
    talk.member.partitions_of = {"t": 4, "u": 1, "stranger": 2}
    talk.wait()
    talk.says(HeartbeatRequest)


def test_a_follower_leaves_changes_of_topics_to_the_leader():
    talk = Conversation().become_stable()
    talk.member.partitions_of = {}
    talk.wait()
    talk.says(HeartbeatRequest)


def test_a_leader_that_became_a_follower_no_longer_looks_at_topics():
    talk = lead()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    talk.says(JoinGroupRequest)
    talk.hear(joined("m1", 2, leader="m2"))
    talk.says(SyncGroupRequest)
    talk.hear(synced())
    talk.member.partitions_of = {}
    talk.wait()
    talk.says(HeartbeatRequest)


def test_a_returning_leader_that_is_told_to_skip_assigns_nothing():
    """KIP-814."""
    talk = Conversation(instance_id="i")
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    member = JoinGroupResponseMember(member_id="m1", metadata=encode_subscription(("t",)))
    talk.hear(joined("m1", leader="m1", members=(member,), skip_assignment=True))
    assert talk.says(SyncGroupRequest).assignments == ()


def test_heartbeats_follow_each_other_by_the_interval_and_not_sooner():
    talk = Conversation().become_stable()
    talk.now += HEARTBEAT_MS - 1
    talk.says_nothing()
    talk.now += 1
    heartbeat = talk.says(HeartbeatRequest)
    assert (heartbeat.member_id, heartbeat.generation_id) == ("m1", 1)
    talk.hear(alive())
    assert talk.member.next_deadline() == talk.now + HEARTBEAT_MS
    assert talk.kinds()[-1] is MemberHistoryKind.HEARTBEAT


def test_the_next_heartbeat_is_due_an_interval_after_the_last_one_was_sent():
    """So do Kafka's clients: a slow answer does not move the heartbeats after it."""
    talk = Conversation().become_stable()
    talk.wait()
    sent_at = talk.now
    talk.says(HeartbeatRequest)
    talk.now += HEARTBEAT_MS // 2
    talk.hear(alive())
    assert talk.member.next_deadline() == sent_at + HEARTBEAT_MS


def test_a_member_joins_again_when_the_group_rebalances():
    talk = Conversation().become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    join = talk.says(JoinGroupRequest)
    assert (join.member_id, join.reason) == ("m1", "the group rebalances")


@pytest.mark.parametrize("lost_at", [HeartbeatRequest, SyncGroupRequest])
def test_a_forgotten_member_joins_as_a_new_one_and_lets_its_partitions_go(lost_at):
    talk = Conversation().become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    if lost_at is HeartbeatRequest:
        talk.hear(alive(E.unknown_member_id))
    else:
        talk.hear(alive(E.rebalance_in_progress))
        talk.says(JoinGroupRequest)
        talk.hear(joined("m1", 2))
        talk.says(SyncGroupRequest)
        talk.hear(synced(error=E.unknown_member_id))
    assert talk.member.partitions == ()
    join = talk.says(JoinGroupRequest)
    assert (join.member_id, join.reason) == ("", "the coordinator does not know the member id")


def told_topics(join):
    return tuple(decode_subscription(join.protocols[0].metadata).topics)


def test_a_member_that_changes_its_topics_joins_again_with_them():
    it = Conversation().become_stable()
    it.member.subscribe(("t", "u"))
    join = it.says(JoinGroupRequest)
    assert (told_topics(join), join.member_id) == (("t", "u"), "m1")


def test_topics_that_change_during_a_rebalance_are_told_after_it():
    it = Conversation()
    it.find_coordinator()
    assert told_topics(it.says(JoinGroupRequest)) == ("t",)
    it.member.subscribe(("u",))
    it.says_nothing()
    it.hear(joined("m1", 1))
    it.says(SyncGroupRequest)
    it.hear(synced((("t", 0),)))
    assert told_topics(it.says(JoinGroupRequest)) == ("u",)
    it.hear(joined("m1", 2))
    it.says(SyncGroupRequest)
    it.hear(synced((("u", 0),)))
    it.says_nothing()


def test_a_member_of_an_old_generation_joins_again_under_its_member_id():
    talk = Conversation().become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.illegal_generation))
    assert talk.member.partitions == ()
    assert talk.says(JoinGroupRequest).member_id == "m1"


@pytest.mark.parametrize("fenced_at", [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest])
def test_a_fenced_static_member_gives_up_for_good(fenced_at):
    """KIP-345: FENCED_INSTANCE_ID is fatal."""
    talk = Conversation(instance_id="i")
    talk.find_coordinator()
    answers = {
        JoinGroupRequest: (joined("m1"), join_refused(E.fenced_instance_id)),
        SyncGroupRequest: (synced(), synced(error=E.fenced_instance_id)),
        HeartbeatRequest: (alive(), alive(E.fenced_instance_id)),
    }
    for request_type, (fine, fenced) in answers.items():
        talk.wait()
        talk.says(request_type)
        talk.hear(fenced if request_type is fenced_at else fine)
        if request_type is fenced_at:
            break
    assert talk.member.state is State.FAILED
    assert talk.member.history[-1].error == "fenced_instance_id"
    assert talk.member.next_deadline() is None
    talk.says_nothing()


def test_a_loading_coordinator_is_asked_again_after_a_back_off():
    talk = Conversation().become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.coordinator_load_in_progress))
    talk.says_nothing()
    talk.wait()
    talk.says(HeartbeatRequest)
    assert talk.sent.to == BrokerNode(1, "h", 9)


@pytest.mark.parametrize("error", [E.not_coordinator, E.coordinator_not_available])
def test_a_member_looks_for_its_coordinator_when_the_node_it_asked_is_not_it(error):
    talk = Conversation().become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(error))
    talk.says_nothing()
    talk.wait()
    talk.find_coordinator()
    talk.says(HeartbeatRequest)
    assert talk.member.partitions == (("t", 0),)


def test_a_member_asks_on_while_no_coordinator_is_known_waiting_longer_each_time():
    talk = Conversation()
    waits = []
    for _ in range(8):
        talk.says(FindCoordinatorRequest)
        talk.hear(found(E.coordinator_not_available))
        before = talk.now
        talk.wait()
        waits.append(talk.now - before)
    assert all(80 <= wait <= 1_200 for wait in waits)
    assert waits[0] <= 120
    assert waits[-1] >= 800


def test_a_member_whose_coordinator_dies_keeps_what_it_holds_and_heartbeats_elsewhere():
    talk = Conversation(instance_id="i").become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.lose()
    talk.wait()
    talk.find_coordinator()
    heartbeat = talk.says(HeartbeatRequest)
    assert (heartbeat.member_id, heartbeat.generation_id) == ("m1", 1)
    talk.hear(alive())
    assert talk.member.partitions == (("t", 0),)
    assert talk.kinds() == [
        MemberHistoryKind.JOINED,
        MemberHistoryKind.ASSIGNED,
        MemberHistoryKind.DISCONNECTED,
        MemberHistoryKind.HEARTBEAT,
    ]


@pytest.mark.parametrize("at", [JoinGroupRequest, SyncGroupRequest])
def test_a_member_whose_join_or_sync_is_lost_joins_again(at):
    talk = Conversation()
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    if at is SyncGroupRequest:
        talk.hear(joined("m1"))
        talk.says(SyncGroupRequest)
    talk.lose()
    talk.wait()
    talk.find_coordinator()
    talk.says(JoinGroupRequest)


def test_a_refused_join_is_tried_again_after_a_back_off():
    talk = Conversation()
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    talk.hear(join_refused(E.rebalance_in_progress))
    talk.says_nothing()
    talk.wait()
    talk.says(JoinGroupRequest)


def test_an_unanswered_request_is_given_up_and_its_late_answer_ignored():
    talk = Conversation(request_timeout_ms=5_000).become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    late = talk.sent
    talk.now += 4_999
    talk.says_nothing()
    talk.now += 1
    talk.says_nothing()
    assert talk.kinds()[-1] is MemberHistoryKind.DISCONNECTED
    talk.member.receive(late, alive(E.unknown_member_id), talk.now)
    assert talk.member.member_id == "m1"


def test_a_parked_join_is_waited_for_as_long_as_the_rebalance_may_take():
    talk = Conversation(rebalance_timeout_ms=60_000, request_timeout_ms=5_000)
    talk.find_coordinator()
    talk.says(JoinGroupRequest)
    assert talk.member.next_deadline() == talk.now + 65_000


def test_offsets_of_owned_partitions_are_committed_and_others_are_not():
    talk = Conversation().become_stable(owned=(("t", 0),))
    talk.member.commit({("t", 0): 41, ("t", 3): 5})
    commit = talk.says(OffsetCommitRequest)
    (topic,) = commit.topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 41)]
    talk.hear(committed())
    assert talk.kinds()[-1] is MemberHistoryKind.COMMITTED
    assert talk.member.history[-1].offsets == (("t", 0, 41),)
    talk.says_nothing()


def test_a_rebalance_that_a_commit_hears_of_makes_the_member_join_again():
    talk = Conversation().become_stable()
    talk.member.commit({("t", 0): 41})
    talk.says(OffsetCommitRequest)
    talk.hear(committed(E.rebalance_in_progress))
    assert MemberHistoryKind.COMMIT_FAILED in talk.kinds()
    talk.says(JoinGroupRequest)


def test_a_refused_offset_does_not_stop_the_member():
    talk = Conversation().become_stable()
    talk.member.commit({("t", 0): 41})
    talk.says(OffsetCommitRequest)
    talk.hear(committed(E.offset_metadata_too_large))
    assert talk.member.state is State.STABLE


def test_a_commit_whose_answer_is_lost_counts_as_failed():
    talk = Conversation().become_stable()
    talk.member.commit({("t", 0): 41})
    talk.says(OffsetCommitRequest)
    talk.lose()
    assert talk.kinds()[-2:] == [MemberHistoryKind.DISCONNECTED, MemberHistoryKind.COMMIT_FAILED]


def test_a_dynamic_member_leaves_with_its_reason():
    """KIP-800."""
    talk = Conversation().become_stable()
    talk.member.leave("closing down")
    leave = talk.says(LeaveGroupRequest)
    assert [(each.member_id, each.reason) for each in leave.members] == [("m1", "closing down")]
    talk.hear(LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=E.none, members=()))
    assert talk.member.state is State.LEFT
    assert talk.member.next_deadline() is None


def test_a_static_member_just_stops():
    """KIP-345: a static member sends no LeaveGroup."""
    talk = Conversation(instance_id="i").become_stable()
    talk.member.leave("closing down")
    talk.says_nothing()
    assert talk.member.state is State.LEFT


def test_a_member_that_leaves_commits_first():
    talk = Conversation().become_stable()
    talk.member.commit({("t", 0): 41})
    talk.member.leave("closing down")
    talk.says(OffsetCommitRequest)
    talk.hear(committed())
    talk.says(LeaveGroupRequest)


def test_the_same_randomness_makes_the_same_conversation():
    def waits(seed):
        member = ClassicMember(MemberConfig(group_id="g", topics=()), random.Random(seed), {})
        now, deadlines = 0, []
        for _ in range(20):
            (sent,) = member.poll(now)
            member.lost(sent, now)
            now = member.next_deadline()
            deadlines.append(now)
        return deadlines

    assert waits(5) == waits(5) != waits(6)


def test_a_member_whose_idle_connection_breaks_looks_for_its_coordinator_at_once():
    talk = Conversation().become_stable()
    before = talk.member.next_deadline()
    talk.member.disconnected(talk.now)
    assert talk.member.next_deadline() <= talk.now < before
    assert talk.member.history[-1].kind is MemberHistoryKind.DISCONNECTED
    talk.says(FindCoordinatorRequest)
    talk.member.disconnected(talk.now)  # nothing is idle now
    talk.hear(found())
    talk.says(HeartbeatRequest)


def test_a_member_that_revokes_slowly_heartbeats_until_it_joins_again():
    """Kafka's consumer runs ``onPartitionsRevoked`` before it sends JoinGroup."""
    talk = Conversation(revocation_ms=5_000).become_stable()
    talk.wait()
    began = talk.now
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    talk.says_nothing()
    assert talk.member.partitions == (("t", 0),)
    talk.wait()
    talk.says(HeartbeatRequest)
    assert talk.now == began + HEARTBEAT_MS
    talk.hear(alive(E.rebalance_in_progress))
    talk.says_nothing()
    talk.wait()
    assert talk.now == began + 5_000
    talk.says(JoinGroupRequest)
    assert talk.member.partitions == ()
    assert talk.kinds().count(MemberHistoryKind.REBALANCING) == 1


def test_a_member_that_is_expelled_while_it_revokes_joins_at_once():
    talk = Conversation(revocation_ms=5_000).become_stable()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.rebalance_in_progress))
    talk.says_nothing()
    talk.wait()
    talk.says(HeartbeatRequest)
    talk.hear(alive(E.unknown_member_id))
    assert talk.says(JoinGroupRequest).member_id == ""
