"""Members have connections of their own, or share some for what is answered at once."""

import pytest

from bench.client import member_connections
from bench.client.member_connections import MemberConnections
from protocol.members.requests import HEARTBEAT, JOIN_GROUP, SYNC_GROUP

NODE, OTHER = ("a", 9), ("b", 9)


class OpenStream:
    """A connection that notes what is sent over it."""

    all: list["OpenStream"]

    def __init__(self, address, client_id, answered, broken, _versions):
        self.address, self.client_id = address, client_id
        self.answered, self.broken = answered, broken
        self.sent, self.is_closed = [], False
        OpenStream.all.append(self)

    def send(self, message, token, client_id=None):
        self.sent.append((message, token, client_id or self.client_id))

    def close(self):
        self.is_closed = True


class Member:
    """One member's view of its connection."""

    def __init__(self, connections, name, api_key=HEARTBEAT, address=NODE):
        self.answers, self.ends = [], 0
        self.connection = connections.open(
            address, name, api_key, lambda *each: self.answers.append(each), self.ended
        )

    def ended(self):
        self.ends += 1


@pytest.fixture(autouse=True)
def streams(monkeypatch):
    OpenStream.all = []
    monkeypatch.setattr(member_connections, "Stream", OpenStream)
    monkeypatch.setattr(
        member_connections,
        "_Own",
        lambda address, client_id, answered, broken, versions: OpenStream(
            address, client_id, answered, lambda _tokens: broken(), versions
        ),
    )
    return OpenStream.all


def test_without_sharing_each_member_has_its_own_connection(streams):
    connections = MemberConnections()
    members = [Member(connections, name) for name in "xyz"]
    assert len(streams) == 3
    streams[1].broken(())
    assert [member.ends for member in members] == [0, 1, 0]


def test_some_members_share_a_connection_to_their_node(streams):
    connections = MemberConnections(3)
    members = [Member(connections, f"m{n}") for n in range(7)]
    Member(connections, "elsewhere", address=OTHER)
    assert [stream.address for stream in streams] == [NODE, NODE, NODE, OTHER]
    members[1].connection.send("heartbeat", "mine")
    [(message, token, client_id)] = streams[0].sent
    assert (message, client_id) == ("heartbeat", "m1")
    streams[0].answered(token, "fine")
    assert [member.answers for member in members[:3]] == [[], [("mine", "fine")], []]


@pytest.mark.parametrize("api_key", [JOIN_GROUP, SYNC_GROUP])
def test_a_member_that_waits_for_others_has_a_connection_of_its_own(streams, api_key):
    connections = MemberConnections(3)
    for name in "xyz":
        Member(connections, name, api_key)
    assert len(streams) == 3


def test_each_member_is_told_once_that_a_shared_connection_has_ended(streams):
    connections = MemberConnections(3)
    members = [Member(connections, name) for name in "xyz"]
    members[0].connection.close()
    streams[0].broken(())
    assert [member.ends for member in members] == [0, 1, 1]
    for member in members[1:]:
        member.connection.close()  # which changes nothing
    Member(connections, "x")
    assert len(streams) == 2


def test_a_shared_connection_is_closed_with_its_last_member_who_gets_no_more_answers(streams):
    connections = MemberConnections(3)
    members = [Member(connections, name) for name in "xy"]
    members[0].connection.send("heartbeat", "mine")
    members[0].connection.close()
    assert not streams[0].is_closed
    streams[0].answered(streams[0].sent[0][1], "late")
    assert members[0].answers == []
    members[1].connection.close()
    assert streams[0].is_closed


def test_nobody_gets_a_connection_that_another_has_given_up(streams):
    connections = MemberConnections(3)
    members = [Member(connections, name) for name in "xy"]
    members[0].connection.give_up()
    Member(connections, "x")
    assert len(streams) == 2
    assert not streams[0].is_closed
