"""What a test may ask of its cluster, with the members of real clients."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from actors.testing.cluster import ClusterForTests, RollcallError
from tests.clients.confluent import Member
from tests.conftest import rollcall
from tests.waiting import WITHIN_S, until

PARTITIONS = 4


class Scene:
    """One group of one topic, and the members that a test adds to it."""

    def __init__(self, cluster: ClusterForTests, closing: Callable[..., object]) -> None:
        self.cluster, self._closing = cluster, closing
        self.topic, self.group = cluster.topic(PARTITIONS), cluster.group()
        self.members: list[Member] = []

    def add(self, **config: object) -> Member:
        member = Member(self.cluster.bootstrap, self.group, [self.topic], **config)
        self._closing(member.close)
        self.members.append(member)
        return member

    def another(self) -> "Scene":
        """Return one with a topic and a group of its own."""
        return Scene(self.cluster, self._closing)

    def poll(self) -> None:
        for member in self.members:
            member.poll()

    def settle(self) -> None:
        self.cluster.await_assigned(
            self.group,
            members=len(self.members),
            partitions=PARTITIONS,
            poll=self.poll,
            until=lambda: sum(len(each.assigned) for each in self.members) == PARTITIONS,
        )

    def until(self, condition: Callable[[], object], what: str) -> None:
        def look() -> object:
            self.poll()
            return condition()

        until(look, WITHIN_S, what)


@pytest.fixture
def scene(rollcall_cluster: ClusterForTests) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(rollcall_cluster, stack.callback)


# Both protocols: their sessions, ghosts and places are kept by different parts of the core.
PROTOCOLS = pytest.mark.parametrize(
    "settings", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"]
)


@PROTOCOLS
def test_a_member_that_expires_comes_back(scene: Scene, settings: dict[str, str]) -> None:
    scene.add(**settings)
    scene.settle()
    _, (member,) = scene.cluster.describe(scene.group)
    assert scene.cluster.expire(member) == member.member_id
    scene.until(lambda: scene.members[0].revoked, "it is told that it has lost them")
    scene.settle()
    told = scene.cluster.explain(scene.group)
    assert f"the test has ended the session of {member.member_id}" in told
    # A consumer group without members assigns nothing, so that is no rebalance of its own.
    assert settings or "sent no heartbeat within its session timeout; " in told


@PROTOCOLS
def test_a_fenced_instance_gets_a_fatal_error(scene: Scene, settings: dict[str, str]) -> None:
    member = scene.add(**settings, group_instance_id="an-instance")
    scene.settle()
    scene.cluster.fence("an-instance")
    fenced = KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL
    scene.until(lambda: {e.code() for e in member.errors} & {*fenced}, "it is fenced")


@PROTOCOLS
def test_a_forced_rebalance_has_its_reason_in_the_story(
    scene: Scene, settings: dict[str, str]
) -> None:
    scene.add(**settings)
    scene.settle()
    before = len(scene.cluster.explain(scene.group).splitlines())
    scene.cluster.force_rebalance(scene.group)
    scene.settle()
    told = "\n".join(scene.cluster.explain(scene.group).splitlines()[before:])
    assert "member rollcall-test (127.0.0.1)" in told
    assert settings or 'joined, "a test forces a rebalance"' in told


@PROTOCOLS
def test_a_group_is_explained_in_the_sentences_of_the_command(
    scene: Scene, settings: dict[str, str]
) -> None:
    for name in ("web-1", "web-2"):
        scene.add(**settings, client_id=name)
        scene.settle()
    lines = scene.cluster.explain(scene.group).splitlines()
    told = [each for each in lines if f"  group {scene.group}: " in each]
    command = ("explain", scene.group, "--bootstrap-server", scene.cluster.bootstrap, "--json")
    stories = json.loads(rollcall(*command).stdout)["rebalances"]
    sentences = [f"  group {scene.group}: {each['sentence']}" for each in stories]
    assert all(line.endswith(end) for line, end in zip(told, sentences, strict=True)), told
    assert "member web-2 (127.0.0.1) joined; " in sentences[-1]
    assert "2 of 4 partitions moved" in sentences[-1]


def test_a_rebalance_under_way_is_told_with_the_members_that_it_waits_for(scene: Scene) -> None:
    scene.add(client_id="awaited")
    scene.settle()
    scene.cluster.force_rebalance(scene.group)
    with pytest.raises(RollcallError, match=r"under way for .*; waits for awaited to join"):
        scene.cluster.await_assigned(scene.group, timeout_s=0)


@PROTOCOLS
def test_a_group_moves_and_its_member_stays(scene: Scene, settings: dict[str, str]) -> None:
    member = scene.add(**settings)
    scene.settle()
    before = scene.cluster.coordinator(scene.group)
    after = scene.cluster.move_coordinator(scene.group)
    assert scene.cluster.coordinator(scene.group) == after != before
    member.consumer.commit(offsets=[TopicPartition(scene.topic, 0, 7)], asynchronous=False)
    scene.settle()
    assert not member.revoked
    assert f"the test has moved it to coordinator {after}" in scene.cluster.explain(scene.group)
    with pytest.raises(RollcallError, match="the group can move to"):
        scene.cluster.move_coordinator(scene.group, to=after)


@PROTOCOLS
def test_a_coordinator_is_killed_and_its_group_survives_with_its_offsets(
    scene: Scene, settings: dict[str, str]
) -> None:
    member = scene.add(**settings)
    scene.settle()
    where = TopicPartition(scene.topic, 0, 7)
    member.consumer.commit(offsets=[where], asynchronous=False)
    killed = scene.cluster.kill_coordinator(scene.group)
    assert scene.cluster.coordinator(scene.group) != killed
    with pytest.raises(RollcallError, match="a majority must live: start the other"):
        scene.cluster.kill_coordinator(scene.group)
    (found,) = member.consumer.committed([where], WITHIN_S)
    assert found.offset == 7
    assert scene.cluster.start_coordinators() == [killed]
    scene.settle()
    assert not member.revoked


def test_a_killed_coordinator_is_back_for_the_next_test(scene: Scene) -> None:
    scene.add()
    scene.settle()
    assert scene.cluster.start_coordinators() == []
    assert scene.cluster.kill_coordinator(scene.group) in range(3)


def test_as_many_requests_as_asked_for_get_the_error(scene: Scene) -> None:
    member = scene.add()
    scene.settle()
    scene.cluster.fault("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", 2, group=scene.group)
    where = [TopicPartition(scene.topic, 0, 7)]
    for left in (1, 0):
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            member.consumer.commit(offsets=where, asynchronous=False)
        assert scene.cluster.faults_left() == left
    member.consumer.commit(offsets=where, asynchronous=False)


def test_a_fault_reaches_heartbeats_that_are_answered_from_memory(scene: Scene) -> None:
    scene.add()
    scene.settle()
    scene.cluster.fault("Heartbeat", "REBALANCE_IN_PROGRESS", group=scene.group)
    scene.until(lambda: not scene.cluster.faults_left(), "a heartbeat has got the error")
    scene.until(lambda: len(scene.members[0].given) == 2, "the member has joined again")


def test_an_assignor_is_late_by_as_much_as_asked_for(scene: Scene) -> None:
    scene.cluster.delay_assignor(60)
    scene.add(group_protocol="consumer")
    scene.until(lambda: scene.cluster.describe(scene.group)[1], "the member has joined")
    state, (member,) = scene.cluster.describe(scene.group)
    assert (state, member.partitions) == ("Assigning", ())
    with pytest.raises(RollcallError, match=r"is Assigning .* did not have 1 members"):
        scene.cluster.await_assigned(scene.group, timeout_s=0)


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        (lambda c: c.expire("nobody"), "no group has a member 'nobody'"),
        (lambda c: c.fence("nobody"), "no group has a member 'nobody'"),
        (lambda c: c.force_rebalance("no-group"), "no-group"),
        (lambda c: c.fault("Nonsense", "NOT_COORDINATOR"), "'Nonsense' is not served"),
        (lambda c: c.fault("Heartbeat", "NONSENSE"), "'NONSENSE' is not one of Kafka's errors"),
        (lambda c: c.fault("Heartbeat", "NOT_COORDINATOR", 0), "count must be from 1 to 1000000"),
        (lambda c: c.fault("Metadata", "NOT_CONTROLLER", 1, "g"), "Metadata names no group"),
        (lambda c: c.delay_assignor(-1), "the delay must be from 0 to 60000 ms"),
        (lambda c: c.topic(0), "must be"),
        (lambda c: c.await_assigned("no-group", timeout_s=0), "Group no-group does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence(
    rollcall_cluster: ClusterForTests, verb: Callable[[ClusterForTests], object], sentence: str
) -> None:
    with pytest.raises(RollcallError, match=sentence) as raised:
        verb(rollcall_cluster)
    assert "Traceback" not in str(raised.value)
