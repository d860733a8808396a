"""The verbs that need a member of their own, in share and streams groups."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from actors.testing.cluster import ClusterForTests, RollcallError
from tests.clients.modern_members import Member, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, until

UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID = 25, 82
INSTANCE = "an-instance"


def streams_member(cluster: ClusterForTests, *, instance_id: str | None = None) -> StreamsMember:
    member = StreamsMember(cluster.bootstrap, cluster.group(), "m-1", cluster.topic(4))
    member.instance_id = instance_id
    return member


def share_member(cluster: ClusterForTests) -> ShareMember:
    return ShareMember(cluster.bootstrap, cluster.group(), "m-1", cluster.topic(4))


@pytest.fixture
def member(request: pytest.FixtureRequest, rollcall_cluster: ClusterForTests) -> Iterator[Member]:
    found: Member = request.param(rollcall_cluster)
    yield found
    with suppress(AssertionError):
        found.leave()


def settle(member: Member) -> None:
    def look() -> bool:
        member.beat()
        return member.is_settled()

    until(look, WITHIN_S, "the member has its share")


@pytest.mark.parametrize("member", [share_member, streams_member], indirect=True)
def test_a_forced_rebalance_is_told(member: Member, rollcall_cluster: ClusterForTests) -> None:
    settle(member)
    epoch = member.epoch
    rollcall_cluster.force_rebalance(member.group_id)
    settle(member)
    assert member.epoch == epoch + 2, "somebody joined, and left"
    assert "member rollcall-test (127.0.0.1) left" in rollcall_cluster.explain(member.group_id)


def test_a_fenced_streams_instance_is_refused(rollcall_cluster: ClusterForTests) -> None:
    member = streams_member(rollcall_cluster, instance_id=INSTANCE)
    settle(member)
    took_over = rollcall_cluster.fence(INSTANCE)
    assert member.refused() in {UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID}
    _, (now,) = rollcall_cluster.describe(member.group_id)
    assert (now.member_id, now.instance_id) == (took_over, INSTANCE)


def test_members_of_share_groups_are_never_static(rollcall_cluster: ClusterForTests) -> None:
    member = share_member(rollcall_cluster)
    settle(member)
    with pytest.raises(RollcallError, match="member m-1 is not static"):
        rollcall_cluster.fence("m-1")
    member.leave()
