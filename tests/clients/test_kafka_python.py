"""kafka-python: its consumer with dynamic and static members, and its admin client."""

from collections.abc import Callable, Iterable, Sequence

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, MemberToRemove
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import FencedInstanceIdError, KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from tests.clients import wire
from tests.waiting import until

Closing = Callable[[Callable[[], object]], object]


class Story(ConsumerRebalanceListener):
    """What a member was given and told to give up, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, frozenset[int]]] = []

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(p.partition for p in revoked)))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(p.partition for p in assigned)))


def consumer(
    bootstrap: str, name: str, closing: Closing, story: Story | None = None, **config: object
) -> KafkaConsumer:
    """Give a subscribed member of the test's group."""
    settings: dict[str, object] = {
        "bootstrap_servers": bootstrap.split(","),
        "group_id": name,
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 10000,
        "metadata_max_age_ms": 1000,
        "auto_offset_reset": "earliest",
        **config,
    }
    made = KafkaConsumer(**settings)
    closing(lambda: made.close(timeout_ms=2000))
    # A leader that joins before its first metadata has come may assign nothing for good.
    until(lambda: made.partitions_for_topic(name), 20, f"metadata of {name}")
    made.subscribe([name], listener=story)
    return made


def poll_until(
    consumers: Sequence[KafkaConsumer], condition: Callable[[], object], what: str
) -> None:
    """Keep all members polling until the condition holds."""

    def ask() -> object:
        for one in consumers:
            one.poll(timeout_ms=20)
        return condition()

    until(ask, 30, what)


def owned(one: KafkaConsumer) -> set[int]:
    """Partition numbers of a member."""
    return {p.partition for p in one.assignment()}


@pytest.fixture
def admin(bootstrap: str, closing: Closing) -> KafkaAdminClient:
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
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
    first = consumer(bootstrap, name, closing)
    poll_until([first], lambda: len(owned(first)) == 4, "the first member has all")
    second = consumer(bootstrap, name, closing)
    both = [first, second]
    poll_until(both, lambda: [len(owned(c)) for c in both] == [2, 2], "two for each")
    assert owned(first) | owned(second) == {0, 1, 2, 3}
    second.close()
    poll_until([first], lambda: len(owned(first)) == 4, "the first member has all again")


def test_subscribing_creates_the_topic(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    member = KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=name)
    closing(lambda: member.close(timeout_ms=2000))
    member.subscribe([name])
    poll_until([member], lambda: name in admin.list_topics(), "the topic is there")
    # num.partitions of the server under test
    assert len(admin.describe_topics([name])[0]["partitions"]) == 2


def test_commits_are_found_again(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 2)
    member = consumer(bootstrap, name, closing)
    poll_until([member], lambda: len(owned(member)) == 2, "all is assigned")
    zero, one = TopicPartition(name, 0), TopicPartition(name, 1)
    member.commit({zero: OffsetAndMetadata(7, "note", 3)})
    answers: list[object] = []
    member.commit_async(
        {one: OffsetAndMetadata(8, "", -1)}, callback=lambda _, answer: answers.append(answer)
    )
    poll_until([member], lambda: answers, "the callback ran")
    assert not isinstance(answers[0], KafkaError)
    member.close()
    again = consumer(bootstrap, name, closing)
    found = again.committed(zero, metadata=True)
    assert (found.offset, found.metadata, found.leader_epoch) == (7, "note", 3)
    assert again.committed(one) == 8


def test_a_static_restart_disturbs_nobody(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 4)
    story = Story()
    stays = consumer(bootstrap, name, closing, story, group_instance_id="stays")
    restarts = consumer(bootstrap, name, closing, group_instance_id="restarts")
    both = [stays, restarts]
    poll_until(both, lambda: [len(owned(c)) for c in both] == [2, 2], "two for each")
    before, told = owned(restarts), list(story.events)
    generation = wire.generation_of(bootstrap, name)
    restarts.close()
    again = consumer(bootstrap, name, closing, group_instance_id="restarts")
    poll_until([stays, again], lambda: owned(again) == before, "the same partitions as before")
    assert wire.generation_of(bootstrap, name) == generation
    assert story.events == told


def test_the_older_of_two_with_one_instance_id_is_fenced(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 1)
    older = consumer(bootstrap, name, closing, group_instance_id="same")
    poll_until([older], lambda: owned(older), "the first member owns the partition")
    newer = consumer(bootstrap, name, closing, group_instance_id="same")
    poll_until([newer], lambda: owned(newer), "the newcomer owns the partition")
    with pytest.raises(FencedInstanceIdError):
        older.commit({TopicPartition(name, 0): OffsetAndMetadata(1, "", -1)})


def test_groups_are_listed_described_and_deleted(
    bootstrap: str, name: str, closing: Closing, admin: KafkaAdminClient
) -> None:
    create(admin, name, 2)
    member = consumer(bootstrap, name, closing, group_instance_id="one", client_id="a-client")
    poll_until([member], lambda: len(owned(member)) == 2, "all is assigned")
    assert name in {g["group_id"] for g in admin.list_groups(states_filter=["Stable"])}
    assert name not in {g["group_id"] for g in admin.list_groups(states_filter=["Empty"])}
    described = admin.describe_groups([name])[name]
    assert described["group_state"] == "Stable"
    (only,) = described["members"]
    assert (only["client_id"], only["group_instance_id"]) == ("a-client", "one")

    removed = admin.remove_group_members(
        name, [MemberToRemove(group_instance_id="one", reason="maintenance")]
    )
    assert set(removed.values()) == {NoError}
    # The member joins again by itself unless it is closed first.
    member.close()
    until(lambda: not admin.describe_groups([name])[name]["members"] or None, 20, "it is empty")
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
    until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 3, 10, "three partitions")
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "1000"})])

    def shown() -> str:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return str(found)

    until(lambda: "'1000'" in shown(), 10, "retention.ms is 1000")
    admin.delete_topics([name])
    until(lambda: name not in admin.list_topics(), 10, "the topic is gone")


def test_the_cluster_is_described(bootstrap: str, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    found = {f"{b['host']}:{b['port']}" for b in described["brokers"]}
    assert found == set(bootstrap.split(","))
