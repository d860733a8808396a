"""kafka-python: its consumer with dynamic and static members, and its admin client."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, Queue

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, MemberToRemove
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import FencedInstanceIdError, KafkaError, NoError, RebalanceInProgressError
from kafka.net.inet import KafkaNetSocket
from kafka.structs import OffsetAndMetadata

from tests.clients import wire
from tests.clients.kafka_python import BOOTSTRAP_MS, CLOSE_MS, poll
from tests.waiting import LONG_SESSION_MS, SESSION_MS, WITHIN_S, until

Closing = Callable[[Callable[[], object]], object]


@pytest.fixture(autouse=True)
def forgotten_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what kafka-python forgets: a socket that is connecting while its client is closed."""
    made: list[socket.socket] = []
    make = KafkaNetSocket.socket

    def remembered(self: KafkaNetSocket, *arguments: int) -> socket.socket:
        made.append(make(self, *arguments))
        return made[-1]

    monkeypatch.setattr(KafkaNetSocket, "socket", remembered)
    yield
    for each in made:
        each.close()


class Story(ConsumerRebalanceListener):
    """What a member was given and told to give up, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, frozenset[int]]] = []

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(p.partition for p in revoked)))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(p.partition for p in assigned)))


class Member:
    """One consumer of the test's group, polled by a thread of its own as in an application.

    Joining takes several rounds of polling; two members polled in turn by one thread make each
    other wait, and kafka-python then starts again.
    """

    def __init__(
        self, bootstrap: str, name: str, story: Story | None = None, **config: object
    ) -> None:
        settings: dict[str, object] = {
            "bootstrap_servers": bootstrap.split(","),
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "group_id": name,
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": LONG_SESSION_MS if "group_instance_id" in config else SESSION_MS,
            "auto_offset_reset": "earliest",
            **config,
        }
        self._consumer = KafkaConsumer(**settings)
        # A leader that joins before its first metadata has come may assign nothing for good.
        until(lambda: self._consumer.partitions_for_topic(name), 20, f"metadata of {name}")
        self._consumer.subscribe([name], listener=story)
        self._asked: Queue[tuple[Callable[[KafkaConsumer], object], Future[object]]] = Queue()
        self.errors: list[KafkaError] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._closing.is_set():
            try:
                poll(self._consumer, 100)
            except KafkaError as error:
                self.errors.append(error)
            with suppress(Empty):
                question, answer = self._asked.get_nowait()
                try:
                    answer.set_result(question(self._consumer))
                except KafkaError as error:
                    answer.set_exception(error)
        self._consumer.close(timeout_ms=CLOSE_MS)

    def ask(self, question: Callable[[KafkaConsumer], object]) -> object:
        """Do something with the consumer in its own thread."""
        answer: Future[object] = Future()
        self._asked.put((question, answer))
        return answer.result(WITHIN_S)

    def owned(self) -> set[int]:
        """Partition numbers that it has now."""
        return {p.partition for p in self._consumer.assignment()}

    def leads_for_good(self, topic: str) -> bool:
        """Whether it leads and has assigned by the metadata that it has now.

        A leader whose metadata came while it joined will join once more.
        """

        def ask(consumer: KafkaConsumer) -> bool:
            coordinator = consumer._coordinator
            used, known = coordinator._assignment_snapshot, coordinator._metadata_snapshot
            return used == known and topic in (used or ()) and not coordinator.need_rejoin()

        return bool(self.ask(ask))

    def close(self) -> None:
        """Close; a dynamic member leaves its group, a static one does not."""
        self._closing.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


def member_of(
    bootstrap: str, name: str, closing: Closing, story: Story | None = None, **config: object
) -> Member:
    """Give a member that is closed when the test ends."""
    made = Member(bootstrap, name, story, **config)
    closing(made.close)
    return made


@pytest.fixture
def admin(bootstrap: str, closing: Closing) -> KafkaAdminClient:
    client = KafkaAdminClient(
        bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=BOOTSTRAP_MS
    )
    closing(client.close)
    return client


def create(admin: KafkaAdminClient, name: str, partitions: int) -> None:
    admin.create_topics(
        {name: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True
    )


def test_members_share_a_topic_and_the_last_one_has_all(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 4)
    first = member_of(bootstrap, name, closing)
    until(lambda: len(first.owned()) == 4, 30, "the first member has all")
    second = member_of(bootstrap, name, closing)
    until(lambda: [len(m.owned()) for m in (first, second)] == [2, 2], 30, "two for each")
    assert first.owned() | second.owned() == {0, 1, 2, 3}
    second.close()
    until(lambda: len(first.owned()) == 4, 30, "the first member has all again")


def test_subscribing_creates_the_topic(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    member = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=BOOTSTRAP_MS, group_id=name
    )
    closing(lambda: member.close(timeout_ms=CLOSE_MS))
    member.subscribe([name])

    def is_there() -> bool:
        member.poll(timeout_ms=100)
        return name in admin.list_topics()

    until(is_there, 30, "the topic is there")
    # num.partitions of the server under test
    assert len(admin.describe_topics([name])[0]["partitions"]) == 2


def test_commits_are_found_again(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 2)
    member = member_of(bootstrap, name, closing)
    until(lambda: len(member.owned()) == 2 and member.leads_for_good(name), 30, "all is assigned")
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    member.ask(lambda c: c.commit({zero: OffsetAndMetadata(7, "note", 3)}))
    answers: list[object] = []
    member.ask(
        lambda c: c.commit_async(
            {one: OffsetAndMetadata(8, "", -1)}, callback=lambda _, answer: answers.append(answer)
        )
    )
    until(lambda: answers, WITHIN_S, "the callback ran")
    assert not isinstance(answers[0], KafkaError)
    member.close()
    again = member_of(bootstrap, name, closing)
    found = again.ask(lambda c: c.committed(zero, metadata=True))
    assert (found.offset, found.metadata, found.leader_epoch) == (7, "note", 3)
    assert again.ask(lambda c: c.committed(one)) == 8


def test_a_static_restart_disturbs_nobody(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 4)
    story = Story()
    stays = member_of(bootstrap, name, closing, story, group_instance_id="stays")
    # It leads: a leader of kafka-python joins twice when it comes back, with Kafka as well.
    until(
        lambda: len(stays.owned()) == 4 and stays.leads_for_good(name), 30, "the first member leads"
    )
    restarts = member_of(bootstrap, name, closing, group_instance_id="restarts")
    until(
        lambda: (
            [len(m.owned()) for m in (stays, restarts)] == [2, 2]
            and story.events[-1] == ("assigned", frozenset(stays.owned()))
        ),
        30,
        "two for each",
    )
    before, told = restarts.owned(), list(story.events)
    generation = wire.generation_of(bootstrap, name)
    restarts.close()
    again = member_of(bootstrap, name, closing, group_instance_id="restarts")
    until(lambda: again.owned() == before, 30, "the same partitions as before")
    assert wire.generation_of(bootstrap, name) == generation
    assert story.events == told


def test_the_older_of_two_with_one_instance_id_is_fenced(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 1)
    older = member_of(bootstrap, name, closing, group_instance_id="same")
    until(
        lambda: older.owned() and older.leads_for_good(name),
        30,
        "the first member owns the partition",
    )
    newer = member_of(bootstrap, name, closing, group_instance_id="same")
    until(newer.owned, 30, "the newcomer owns the partition")
    offsets = {TopicPartition(name, 0): OffsetAndMetadata(1, "", -1)}

    def is_fenced() -> bool:
        with pytest.raises((FencedInstanceIdError, RebalanceInProgressError)) as refused:
            older.ask(lambda c: c.commit(offsets))
        # The latter is its own: it was told to join again first, and hears then that it is fenced.
        return any(isinstance(e, FencedInstanceIdError) for e in (refused.value, *older.errors))

    until(is_fenced, 30, "the older one is fenced")


def test_groups_are_listed_described_and_deleted(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 2)
    member = member_of(bootstrap, name, closing, group_instance_id="one", client_id="a-client")
    until(lambda: len(member.owned()) == 2, 30, "all is assigned")
    assert name in {g["group_id"] for g in admin.list_groups(states_filter=["Stable"])}
    assert name not in {g["group_id"] for g in admin.list_groups(states_filter=["Empty"])}
    described = admin.describe_groups([name])[name]
    assert described["group_state"] == "Stable"
    (only,) = described["members"]
    assert (only["client_id"], only["group_instance_id"]) == ("a-client", "one")

    # A member that is removed while it lives joins again by itself.
    member.close()
    removed = admin.remove_group_members(
        name, [MemberToRemove(group_instance_id="one", reason="maintenance")]
    )
    assert set(removed.values()) == {NoError}
    until(lambda: not admin.describe_groups([name])[name]["members"], 20, "it is empty")
    assert admin.delete_groups([name]) == {name: "OK"}
    assert name not in {g["group_id"] for g in admin.list_groups()}


def test_offsets_are_set_listed_and_deleted_from_outside(
    name: str, admin: KafkaAdminClient
) -> None:
    create(admin, name, 2)
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    done = admin.alter_group_offsets(
        name, {zero: OffsetAndMetadata(5, "", -1), one: OffsetAndMetadata(6, "", -1)}
    )
    assert set(done.values()) == {NoError}
    listed = admin.list_group_offsets(name)[name]
    assert {p.partition: o.offset for p, o in listed.items()} == {0: 5, 1: 6}
    assert admin.delete_group_offsets(name, [zero]) == {zero: NoError}
    assert {p.partition for p in admin.list_group_offsets(name)[name]} == {1}


def test_topics_and_configs_are_administered(name: str, admin: KafkaAdminClient) -> None:
    create(admin, name, 2)
    admin.create_partitions({name: 3})
    until(
        lambda: len(admin.describe_topics([name])[0]["partitions"]) == 3,
        WITHIN_S,
        "three partitions",
    )
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "1000"})])

    def shown() -> str:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return str(found)

    until(lambda: "'1000'" in shown(), WITHIN_S, "retention.ms is 1000")
    admin.delete_topics([name])
    until(lambda: name not in admin.list_topics(), WITHIN_S, "the topic is gone")


def test_the_cluster_is_described(bootstrap: str, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    found = {f"{b['host']}:{b['port']}" for b in described["brokers"]}
    assert found == set(bootstrap.split(","))
