"""confluent-kafka's AdminClient: topics, groups, offsets, configs, the cluster."""

from collections.abc import Callable

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.confluent import ADMIN_S, Member, admin, create_topics, poll_until
from tests.waiting import WITHIN_S, until

Closing = Callable[[Callable[[], object]], object]


@pytest.fixture
def client(bootstrap: str) -> AdminClient:
    return admin(bootstrap)


def member_of(bootstrap: str, name: str, closing: Closing) -> Member:
    """Give the one member of the test's group, with the two partitions of the test's topic."""
    create_topics(bootstrap, [name], 2)
    member = Member(bootstrap, name, [name], client_id="one-client", group_instance_id="one")
    closing(member.close)
    poll_until([member], lambda: len(member.assigned) == 2, 30, "all partitions are assigned")
    return member


def commit(client: AdminClient, group_id: str, topic: str, *offsets: int) -> None:
    """Set a group's offsets, partition 0 first, from outside."""
    partitions = [TopicPartition(topic, p, offset) for p, offset in enumerate(offsets)]
    request = [ConsumerGroupTopicPartitions(group_id, partitions)]
    client.alter_consumer_group_offsets(request)[group_id].result(ADMIN_S)


def offsets(client: AdminClient, group_id: str) -> dict[tuple[str, int], int]:
    """All offsets that a group has committed."""
    request = [ConsumerGroupTopicPartitions(group_id)]
    found = client.list_consumer_group_offsets(request)[group_id].result(ADMIN_S)
    return {(p.topic, p.partition): p.offset for p in found.topic_partitions}


def error_of(future: object) -> int:
    """Code of the error that the future ends with."""
    with pytest.raises(KafkaException) as raised:
        future.result(ADMIN_S)
    return raised.value.args[0].code()


def test_topics_are_created_and_deleted(client: AdminClient, name: str) -> None:
    client.create_topics([NewTopic(name, 3, 1)])[name].result(ADMIN_S)
    until(
        lambda: name in client.list_topics(timeout=ADMIN_S).topics, WITHIN_S, "the topic is listed"
    )
    described = client.describe_topics(TopicCollection([name]))[name].result(ADMIN_S)
    assert described.name == name
    assert not described.is_internal
    assert str(described.topic_id)
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert all(p.leader is not None for p in described.partitions)

    again = client.create_topics([NewTopic(name, 3, 1)])[name]
    assert error_of(again) == KafkaError.TOPIC_ALREADY_EXISTS
    client.delete_topics([name])[name].result(ADMIN_S)
    until(
        lambda: name not in client.list_topics(timeout=ADMIN_S).topics,
        WITHIN_S,
        "the topic is gone",
    )
    assert error_of(client.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("topic", "partitions", "code"),
    [
        ("not/a/name", 1, KafkaError.TOPIC_EXCEPTION),
        ("..", 1, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, KafkaError.TOPIC_EXCEPTION),
        ("no-partitions", 0, KafkaError.INVALID_PARTITIONS),
    ],
)
def test_impossible_topics_are_refused(
    client: AdminClient, topic: str, partitions: int, code: int
) -> None:
    assert error_of(client.create_topics([NewTopic(topic, partitions, 1)])[topic]) == code


def test_more_replicas_than_servers_are_refused(client: AdminClient, name: str) -> None:
    future = client.create_topics([NewTopic(name, 1, 30)])[name]
    assert error_of(future) == KafkaError.INVALID_REPLICATION_FACTOR


def test_validation_only_creates_nothing(client: AdminClient, name: str) -> None:
    client.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(ADMIN_S)
    assert name not in client.list_topics(timeout=ADMIN_S).topics


def test_partitions_are_added_and_never_removed(
    client: AdminClient, bootstrap: str, name: str
) -> None:
    create_topics(bootstrap, [name], 2)
    client.create_partitions([NewPartitions(name, 4)])[name].result(ADMIN_S)
    until(
        lambda: len(client.list_topics(timeout=ADMIN_S).topics[name].partitions) == 4,
        WITHIN_S,
        "four partitions are listed",
    )
    fewer = client.create_partitions([NewPartitions(name, 3)])[name]
    assert error_of(fewer) == KafkaError.INVALID_PARTITIONS


def test_the_cluster_is_described(client: AdminClient, bootstrap: str) -> None:
    described = client.describe_cluster().result(ADMIN_S)
    addresses = {f"{node.host}:{node.port}" for node in described.nodes}
    assert addresses == set(bootstrap.split(","))
    assert described.controller.id in {node.id for node in described.nodes}
    assert described.cluster_id == client.list_topics(timeout=ADMIN_S).cluster_id


def test_the_offsets_topic_is_internal_and_led_by_the_coordinators(
    client: AdminClient, bootstrap: str, name: str
) -> None:
    commit_topic = name
    create_topics(bootstrap, [commit_topic], 1)
    commit(client, name, commit_topic, 1)
    described = client.describe_topics(TopicCollection(["__consumer_offsets"]))
    topic = described["__consumer_offsets"].result(ADMIN_S)
    assert topic.is_internal
    nodes = client.describe_cluster().result(ADMIN_S).nodes
    assert {p.leader.id for p in topic.partitions} <= {node.id for node in nodes}
    assert len(topic.partitions) == len(bootstrap.split(","))


def test_groups_are_listed_by_state_and_type(
    client: AdminClient, bootstrap: str, name: str, closing: Closing
) -> None:
    member = member_of(bootstrap, name, closing)

    def listed(**filters: object) -> dict[str, object]:
        found = client.list_consumer_groups(**filters).result(ADMIN_S)
        assert not found.errors
        return {g.group_id: g for g in found.valid}

    group = listed()[name]
    assert (group.state, group.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    assert not group.is_simple_consumer_group
    assert name in listed(states={ConsumerGroupState.STABLE})
    assert name not in listed(states={ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
    assert name in listed(types={ConsumerGroupType.CLASSIC})
    assert name not in listed(types={ConsumerGroupType.CONSUMER})
    member.poll()


def test_a_group_is_described(
    client: AdminClient, bootstrap: str, name: str, closing: Closing
) -> None:
    member = member_of(bootstrap, name, closing)
    described = client.describe_consumer_groups([name])[name].result(ADMIN_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.type == ConsumerGroupType.CLASSIC
    assert described.partition_assignor == "range"
    assert f"{described.coordinator.host}:{described.coordinator.port}" in bootstrap.split(",")
    (only,) = described.members
    assert (only.client_id, only.group_instance_id) == ("one-client", "one")
    assert only.member_id.startswith("one-")
    assert only.host == "/127.0.0.1"
    owned = {(p.topic, p.partition) for p in only.assignment.topic_partitions}
    assert owned == member.assigned


def test_an_unknown_group_is_dead(client: AdminClient, name: str) -> None:
    described = client.describe_consumer_groups([name])[name]
    # KIP-1043: DescribeGroups v6 answers GROUP_ID_NOT_FOUND, older versions a Dead group.
    try:
        assert described.result(ADMIN_S).state == ConsumerGroupState.DEAD
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_offsets_are_set_and_listed_from_outside(
    client: AdminClient, bootstrap: str, name: str
) -> None:
    create_topics(bootstrap, [name], 3)
    commit(client, name, name, 5, 6, 7)
    assert offsets(client, name) == {(name, 0): 5, (name, 1): 6, (name, 2): 7}
    commit(client, name, name, 4)
    assert offsets(client, name)[name, 0] == 4


def test_offsets_of_a_group_with_members_are_not_set_from_outside(
    client: AdminClient, bootstrap: str, name: str, closing: Closing
) -> None:
    member_of(bootstrap, name, closing)
    request = [ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 9)])]
    future = client.alter_consumer_group_offsets(request)[name]
    result = future.result(ADMIN_S)
    assert result.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID


def test_offsets_of_a_deleted_topic_are_deleted(
    client: AdminClient, bootstrap: str, name: str
) -> None:
    kept = f"{name}-kept"
    create_topics(bootstrap, [name, kept], 1)
    commit(client, name, name, 5)
    commit(client, name, kept, 6)
    client.delete_topics([name])[name].result(ADMIN_S)
    until(lambda: offsets(client, name) == {(kept, 0): 6}, 20, "only the other topic's are left")


def test_an_empty_group_is_deleted_and_a_full_one_is_not(
    client: AdminClient, bootstrap: str, name: str, closing: Closing
) -> None:
    member_of(bootstrap, name, closing)
    full = client.delete_consumer_groups([name])[name]
    assert error_of(full) == KafkaError.NON_EMPTY_GROUP

    simple = f"{name}-simple"
    commit(client, simple, name, 5)
    client.delete_consumer_groups([simple])[simple].result(ADMIN_S)
    assert offsets(client, simple) == {}
    gone = client.delete_consumer_groups([simple])[simple]
    assert error_of(gone) == KafkaError.GROUP_ID_NOT_FOUND


def test_ends_of_partitions_are_listed(client: AdminClient, bootstrap: str, name: str) -> None:
    create_topics(bootstrap, [name], 1)
    partition = TopicPartition(name, 0)
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        found = client.list_offsets({partition: spec})[partition].result(ADMIN_S)
        assert found.offset == 0
    nowhere = TopicPartition(f"{name}-unknown", 0)
    unknown = client.list_offsets({nowhere: OffsetSpec.latest()})[nowhere]
    # librdkafka finds no leader in the metadata, and asks nobody.
    assert error_of(unknown) == KafkaError._NOENT


def described_config(client: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """All configs of one resource."""
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = client.describe_configs([resource])[resource].result(ADMIN_S)
    return found


def alter(
    client: AdminClient, kind: ResourceType, name: str, config: str, value: str | None
) -> object:
    """Set one config, or remove it when ``value`` is None; returns the future."""
    operation = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    entry = ConfigEntry(config, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    return client.incremental_alter_configs([resource])[resource]


def resource_of(client: AdminClient, bootstrap: str, kind: ResourceType, name: str) -> str:
    """Name of a resource of that kind that exists."""
    if kind == ResourceType.TOPIC:
        create_topics(bootstrap, [name], 1)
    if kind == ResourceType.BROKER:
        return str(client.describe_cluster().result(ADMIN_S).nodes[0].id)
    return name


@pytest.mark.parametrize(
    "change",
    [
        (ResourceType.TOPIC, "retention.ms", "3600000"),
        (ResourceType.GROUP, "consumer.session.timeout.ms", "50000"),
        (ResourceType.BROKER, "max.connections", "4321"),
    ],
)
def test_configs_are_altered_described_and_removed(
    client: AdminClient, bootstrap: str, name: str, change: tuple[ResourceType, str, str]
) -> None:
    kind, config, value = change
    resource = resource_of(client, bootstrap, kind, name)
    before = (
        described_config(client, kind, resource)[config] if kind != ResourceType.GROUP else None
    )
    alter(client, kind, resource, config, value).result(ADMIN_S)

    def shown() -> str:
        return described_config(client, kind, resource)[config].value

    until(lambda: shown() == value, WITHIN_S, f"{config} is {value}")
    assert not described_config(client, kind, resource)[config].is_default
    alter(client, kind, resource, config, None).result(ADMIN_S)
    until(lambda: shown() != value, WITHIN_S, f"{config} is what it was")
    assert before is None or shown() == before.value


@pytest.mark.parametrize(
    "change",
    [
        (ResourceType.TOPIC, "retention.ms", "soon"),
        (ResourceType.TOPIC, "no.such.config", "1"),
        (ResourceType.GROUP, "consumer.session.timeout.ms", "-1"),
        (ResourceType.GROUP, "no.such.config", "1"),
        (ResourceType.BROKER, "max.connections", "many"),
    ],
)
def test_wrong_configs_are_refused(
    client: AdminClient, bootstrap: str, name: str, change: tuple[ResourceType, str, str]
) -> None:
    kind, config, value = change
    resource = resource_of(client, bootstrap, kind, name)
    # Kafka reads a broker's dynamic configs in a different place, and says it differently.
    codes = {KafkaError.INVALID_CONFIG}
    if kind == ResourceType.BROKER:
        codes.add(KafkaError.INVALID_REQUEST)
    assert error_of(alter(client, kind, resource, config, value)) in codes


def test_a_brokers_configs_are_described(client: AdminClient) -> None:
    node = client.describe_cluster().result(ADMIN_S).nodes[0]
    configs = described_config(client, ResourceType.BROKER, str(node.id))
    assert configs["group.initial.rebalance.delay.ms"].value == "0"
    assert configs["group.max.session.timeout.ms"].value == "1800000"
    assert configs["group.initial.rebalance.delay.ms"].is_read_only
