"""The verbs of tests/actors/testing/test_verbs.py in share and streams groups."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from actors.testing.cluster import ClusterForTests, RollcallError
from tests.clients.modern_members import Member, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, until

UNKNOWN_MEMBER_ID = 25
PARTITIONS = 4
OWNED = {ShareMember: PARTITIONS, StreamsMember: 2 * PARTITIONS}
"""What the members of a group have: partitions, or the tasks of two subtopologies."""


class Scene:
    """Groups of one type, and the members that a test adds to them."""

    def __init__(self, cluster: ClusterForTests, kind: type[ShareMember | StreamsMember]) -> None:
        self.cluster, self._kind = cluster, kind
        self.members: list[Member] = []

    def add(self, group: str, name: str = "m-1") -> Member:
        member = self._kind(self.cluster.bootstrap, group, name, self.cluster.topic(PARTITIONS))
        self.members.append(member)
        return member

    def settle(self, *members: Member) -> None:
        """Heartbeat until these, all of one group, have what there is, and each knows its own."""

        def knows_its_own() -> bool:
            return all(each.is_settled() and each.assigned for each in members)

        self.cluster.await_assigned(
            members[0].group_id,
            members=len(members),
            partitions=OWNED[self._kind],
            poll=lambda: [each.beat() for each in members],
            until=knows_its_own,
            timeout_s=WITHIN_S,
        )


@pytest.fixture(params=OWNED, ids=["share", "streams"])
def scene(request: pytest.FixtureRequest, rollcall_cluster: ClusterForTests) -> Iterator[Scene]:
    made = Scene(rollcall_cluster, request.param)
    yield made
    for member in made.members:
        with suppress(AssertionError):
            member.leave()


def test_members_are_waited_for_until_each_has_its_share(scene: Scene) -> None:
    group = scene.cluster.group()
    first, second = scene.add(group), scene.add(group, "m-2")
    second.subscribe(*first.topics)
    scene.settle(first, second)
    _, found = scene.cluster.describe(group)
    assert {each.member_id: len(each.partitions) for each in found} == {
        each.member_id: len(each.assigned) for each in (first, second)
    }
    with pytest.raises(RollcallError, match="did not have 3 members"):
        scene.cluster.await_assigned(group, members=3, timeout_s=0)


def test_a_member_that_expires_comes_back(scene: Scene) -> None:
    member = scene.add(scene.cluster.group())
    scene.settle(member)
    _, (found,) = scene.cluster.describe(member.group_id)
    assert scene.cluster.expire(found) == found.member_id == member.member_id
    until(lambda: member.refused() == UNKNOWN_MEMBER_ID, WITHIN_S, "its session has ended")
    assert scene.cluster.describe(member.group_id)[1] == []
    member.epoch, member.assigned = 0, frozenset()
    scene.settle(member)
    told = scene.cluster.explain(member.group_id)
    assert f"the test has ended the session of {member.member_id}" in told


def moved(cluster: ClusterForTests, group: str) -> int:
    return cluster.move_coordinator(group)


def killed(cluster: ClusterForTests, group: str) -> int:
    dead = cluster.kill_coordinator(group)
    after = cluster.coordinator(group)
    assert after != dead
    return after


@pytest.mark.parametrize("change", [moved, killed])
def test_a_group_has_another_coordinator_and_its_member_stays(
    scene: Scene, change: Callable[[ClusterForTests, str], int]
) -> None:
    member = scene.add(scene.cluster.group())
    scene.settle(member)
    epoch, had = member.epoch, member.assigned
    before = scene.cluster.coordinator(member.group_id)
    after = change(scene.cluster, member.group_id)
    assert scene.cluster.coordinator(member.group_id) == after != before
    scene.settle(member)
    assert (member.epoch, member.assigned) == (epoch, had)


def test_an_assignor_is_late_by_as_much_as_asked_for(scene: Scene) -> None:
    late, prompt = scene.add(scene.cluster.group()), scene.add(scene.cluster.group())
    scene.cluster.delay_assignor(60)
    late.beat()
    until(lambda: late.describe().group_epoch, WITHIN_S, "the member has joined")
    scene.cluster.delay_assignor(0)
    scene.settle(prompt)
    late.beat()
    described = late.describe()
    assert described.assignment_epoch < described.group_epoch, "its target is not there yet"
    assert not late.assigned
    _, (found,) = scene.cluster.describe(late.group_id)
    assert found.partitions == ()
    scene.cluster.delay_assignor(0.2)
    slow = scene.add(scene.cluster.group())
    scene.settle(slow)
