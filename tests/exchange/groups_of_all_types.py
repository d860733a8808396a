"""Groups of every type with members that stay, and offsets, for tests of what keeps them."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients import wire
from tests.clients.confluent import QUIET, Member, create_topics, poll_until
from tests.clients.modern_members import ConsumerMember, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, patient, until

KINDS = ("classic", "simple", "consumer", "share", "streams")
PARTITIONS = 4
SESSION_MS = "300000"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{
        f"group.{kind}.{bound}session.timeout.ms": SESSION_MS
        for kind in ("consumer", "share", "streams")
        for bound in ("", "max.")
    },
}
"""Sessions outlast everything that a test does with the groups."""

KAFKA_SETTINGS = {
    **SETTINGS,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}
"""Those of a Kafka with one broker."""


class Groups:
    """Groups with ids of one prefix: one of each of :data:`KINDS`."""

    def __init__(self, bootstrap: str, prefix: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.topic = topic
        self.members: list[ConsumerMember | ShareMember | StreamsMember] = []

    def group(self, kind: str) -> str:
        """Return the id of a group."""
        return f"{self.prefix}-{kind}"

    def create_classic(self) -> None:
        """Two static members, which stay when their processes end, and a commit of each."""
        members = [
            Member(
                self.bootstrap,
                self.group("classic"),
                [self.topic],
                group_instance_id=f"static-{number}",
                session_timeout_ms=SESSION_MS,
            )
            for number in range(2)
        ]
        poll_until(
            members,
            lambda: all(len(one.assigned) == 2 for one in members),
            patient(60),
            "both have two",
        )
        for number, member in enumerate(members):
            offsets = [
                TopicPartition(topic, partition, 100 * number + partition, f"at {partition}")
                for topic, partition in sorted(member.assigned)
            ]
            member.consumer.commit(offsets=offsets, asynchronous=False)
        for member in members:
            member.close()

    def create_simple(self) -> None:
        """Offsets without members: committed, deleted again, and in transactions."""
        with closing(self._consumer()) as consumer:
            for offset in (6, 7):
                offsets = [TopicPartition(self.topic, 0, offset)]
                consumer.commit(offsets=offsets, asynchronous=False)

    def commit_in_transactions(self) -> None:
        """Commit offset 20 of partition 1; abort offset 30 of partition 2."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": self.prefix, **QUIET}
        )
        producer.init_transactions(WITHIN_S)
        with closing(self._consumer()) as consumer:
            metadata = consumer.consumer_group_metadata()
            for partition, offset in ((1, 20), (2, 30)):
                producer.begin_transaction()
                offsets = [TopicPartition(self.topic, partition, offset)]
                producer.send_offsets_to_transaction(offsets, metadata, WITHIN_S)
                if partition == 1:
                    producer.commit_transaction(WITHIN_S)
                else:
                    producer.abort_transaction(WITHIN_S)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group("simple"),
                "enable.auto.commit": False,
                **QUIET,
            }
        )

    def create_modern(self) -> None:
        """One member each: static in a consumer group, and in a share and a streams group."""
        for kind, member_class in (
            ("consumer", ConsumerMember),
            ("share", ShareMember),
            ("streams", StreamsMember),
        ):
            member = member_class(self.bootstrap, self.group(kind), f"{kind}-member", self.topic)
            self.members.append(member)
            settle(member)
            if kind != "share":
                me = (member.member_id, member.epoch)
                code = wire.commit(self.bootstrap, self.group(kind), me, self.topic, 42)
                assert code == wire.NONE

    def go_on_at(self, bootstrap: str) -> None:
        """Let the members of modern groups heartbeat on at another server, with what they know."""
        for member in self.members:
            member.move_to(bootstrap)
            before = member.assigned
            settle(member)
            assert member.assigned == before


def settle(member: ConsumerMember | ShareMember | StreamsMember) -> None:
    """Heartbeat until the member has what it is to have."""

    def is_settled() -> bool:
        member.beat()
        return bool(member.assigned) and member.is_settled()

    until(is_settled, patient(60), f"the group of {member.member_id} is settled")


def create_groups(bootstrap: str, prefix: str, topic: str, *, is_kafka: bool) -> Groups:
    """Create groups of every type, and a topic; with transactions where they are served."""
    if not wire.partitions(bootstrap.partition(",")[0], topic):
        create_topics(bootstrap, [topic], PARTITIONS)
    groups = Groups(bootstrap, prefix, topic)
    groups.create_classic()
    groups.create_simple()
    if is_kafka:
        groups.commit_in_transactions()
    groups.create_modern()
    return groups
