"""A coordinator dies, all of them die, the cluster is restarted: clients find everything again."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    TopicDescription,
)

from tests.clients import wire
from tests.clients.confluent import (
    ADMIN_S,
    Member,
    admin,
    create_topics,
    is_shared_out,
    once_back,
    partitions_of,
    poll_until,
)
from tests.clients.servers import Server
from tests.waiting import WITHIN_S, until

Closing = Callable[[Callable[[], object]], object]


def kill_coordinator(server: Server, group_id: str) -> None:
    """``kill -9`` of the one process that serves the group."""
    server.kill_coordinator(group_id)


def kill_everything(server: Server, group_id: str) -> None:
    """``kill -9`` of every process, then a start on what they left."""
    server.kill_everything()
    server.start()


def stop_and_start(server: Server, group_id: str) -> None:
    """Stop cleanly, then start on what was left."""
    server.stop()
    server.start()


DISRUPTIONS = [kill_coordinator, kill_everything, stop_and_start]


@pytest.mark.parametrize("disrupt", DISRUPTIONS)
def test_static_members_notice_nothing_but_a_reconnect_and_all_else_is_kept(
    doomed: Server, name: str, closing: Closing, disrupt: Callable[[Server, str], None]
) -> None:
    """One disruption for both: topics, configs and offsets of a group without members are kept."""
    bootstrap = doomed.bootstrap
    kept = Kept(bootstrap, f"{name}-kept")
    create_topics(bootstrap, [name], 4)
    members = []
    for instance_id in ("one", "two"):
        member = Member(bootstrap, name, [name], group_instance_id=instance_id)
        closing(member.close)
        members.append(member)
    everything = partitions_of([name], 4)
    poll_until(members, lambda: is_shared_out(members, everything), 30, "two partitions for each")
    poll_until(
        members, lambda: wire.describe(bootstrap, name).group_state == "Stable", 20, "Stable"
    )
    for member in members:
        member.consumer.commit(
            offsets=[TopicPartition(t, p, 100 + p, metadata="before") for t, p in member.assigned],
            asynchronous=False,
        )
    before, generation = wire.describe(bootstrap, name), wire.generation_of(bootstrap, name)
    story = [(list(m.given), list(m.revoked)) for m in members]

    disrupt(doomed, name)

    after = wire.describe(bootstrap, name)
    assert after.group_state == "Stable"
    assert sorted(after.members, key=str) == sorted(before.members, key=str)
    assert wire.generation_of(bootstrap, name) == generation

    wanted = [TopicPartition(name, p) for p in range(4)]
    consumer = members[0].consumer
    found = once_back(lambda: consumer.committed(wanted, timeout=WITHIN_S), "offsets are answered")
    assert [(p.offset, p.metadata) for p in found] == [(100 + p, "before") for p in range(4)]
    for member in members:
        owned = [TopicPartition(t, p, 200 + p) for t, p in member.assigned]
        commit = partial(member.consumer.commit, offsets=owned, asynchronous=False)
        once_back(commit, "offsets are committed")
    assert wire.generation_of(bootstrap, name) == generation
    assert [(m.given, m.revoked) for m in members] == story
    kept.check(bootstrap)


class Kept:
    """A topic with a config and a group without members that has offsets; the same name."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._name = name
        create_topics(bootstrap, [name], 3)
        # librdkafka's admin client may abort the process when its server dies under it.
        client = admin(bootstrap)
        self._topic_id = str(described_topic(client, name).topic_id)
        entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
        self._resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        client.incremental_alter_configs([self._resource])[self._resource].result(ADMIN_S)
        partitions = [TopicPartition(name, p, 10 + p) for p in range(3)]
        request = [ConsumerGroupTopicPartitions(name, partitions)]
        client.alter_consumer_group_offsets(request)[name].result(ADMIN_S)

    def check(self, bootstrap: str) -> None:
        name = self._name
        assert wire.offsets_once_back(bootstrap, name) == {(name, p): 10 + p for p in range(3)}
        client = admin(bootstrap)
        topic = until(lambda: described_topic(client, name), 30, "the topic is described")
        assert (str(topic.topic_id), len(topic.partitions)) == (self._topic_id, 3)
        shown = client.describe_configs([self._resource])[self._resource].result(ADMIN_S)
        assert shown["retention.ms"].value == "12345"


def described_topic(client: AdminClient, topic: str) -> TopicDescription | None:
    """Describe a topic; None while the server cannot."""
    future = client.describe_topics(TopicCollection([topic]), request_timeout=WITHIN_S)[topic]
    with suppress(KafkaException):
        return future.result(ADMIN_S)
    return None
