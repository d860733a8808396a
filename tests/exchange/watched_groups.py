"""Groups of a watched Kafka whose members a test moves by itself: what they may be made to do."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import NewPartitions

from tests.clients import confluent, wire
from tests.clients.confluent import admin, create_topics
from tests.clients.java import PROGRAMS, java
from tests.clients.modern_members import ConsumerMember, Member, ShareMember, StreamsMember
from tests.exchange.watched_kafka import TOPIC
from tests.exchange.watched_lone_member import LoneMember
from tests.exchange.watched_records import rebalance_without_cause
from tests.program import Program
from tests.waiting import patient, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

CONFIGS, GROUP, SET, DELETE = 44, 32, 0, 1
SHORT: Final[Mapping[str, str]] = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "5500"}
"""Configs of a group whose member vanishes: its heartbeat shows when they apply."""

STANDBYS: Final[Mapping[str, str]] = {"num.standby.replicas": "1"}
REVOKE: Final = timedelta(seconds=1)
"""The rebalance timeout of a member that does not give up anything."""

JAVA: Final = "java-1"
INSTANCE: Final = "i-lone"
WITHIN_S: Final = patient(60)
TICK_S: Final = 0.2


class ClassicMember:
    """A member of a classic group: a confluent-kafka consumer with a cooperative assignor."""

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
        self.member_id = member_id
        self._client = confluent.Member(
            bootstrap,
            group_id,
            [topic],
            client_id=member_id,
            partition_assignment_strategy="cooperative-sticky",
        )

    @property
    def assigned(self) -> Set[tuple[str, int]]:
        """What it has."""
        return self._client.assigned

    def beat(self) -> None:
        """Serve the client."""
        self._client.poll()

    def is_settled(self) -> bool:
        """Whether it has something."""
        return bool(self.assigned)

    def subscribe(self, *topics: str) -> None:
        """Subscribe to other topics."""
        self._client.subscribe(topics)

    def leave(self) -> None:
        """Leave the group."""
        self._client.close()


MEMBERS: Final[Mapping[str, Callable[[str, str, str, str], Any]]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    "share": ShareMember,
    "streams": StreamsMember,
}
LONE: Final = "lone"
"""The id of a group whose only member sends its requests by itself."""


class WatchedGroup:
    """A group of one type, whose topic exists; ``members`` live."""

    def __init__(self, bootstrap: str, group_id: str, kind: str) -> None:
        self.group_id, self.kind, self.topic = group_id, kind, topic_of(group_id)
        self.members: list[Any] = []
        self._bootstrap = bootstrap
        self._count = 0
        self._next_s = 0.0
        self._java: Program | None = None
        self._is_rewritten = False

    def beat(self) -> None:
        """Let all members heartbeat."""
        for each in self.members:
            each.beat()

    def tick(self) -> None:
        """Let them heartbeat if they have not for a while: to be called while one waits."""
        if time.monotonic() >= self._next_s:
            self.beat()
            self._next_s = time.monotonic() + TICK_S

    def close(self) -> None:
        """Let all members leave; or vanish, if their broker finds records that it did not write."""
        if self._is_rewritten:
            self.members.clear()
        while self.members:
            self.leave()
        if self._java is not None:
            self._java.kill()

    # --- what happens in groups of every type

    def join(self) -> None:
        """Let a member join, and all take over what they are to have."""
        self._join(self.kind)

    def leave(self) -> None:
        """Let the last member leave."""
        self.members.pop().leave()

    def leave_first(self) -> None:
        """Let the first member leave."""
        self.members.pop(0).leave()

    def vanish(self) -> None:
        """Let the last member vanish; its session ends, no other one does."""
        lost = self.members.pop()
        self._configure(SET, SHORT)
        expected = timedelta(milliseconds=int(SHORT["heartbeat.interval.ms"]))
        until(lambda: lost.beat().heartbeat_interval == expected, WITHIN_S, "its session is short")
        self._configure(DELETE, SHORT)
        until(lambda: self._lacks(lost), WITHIN_S, f"the session of {lost.member_id} has ended")

    def enlarge(self, *others: str) -> None:
        """Let the topic have more partitions, and others, too."""
        client = admin(self._bootstrap)
        more = [NewPartitions(each, 6) for each in (self.topic, *others)]
        for future in client.create_partitions(more).values():
            future.result()

    def subscribe_more(self) -> None:
        """Let the first member subscribe to another topic, too."""
        self.members[0].subscribe(self.topic, TOPIC)

    def rebalance_without_cause(self) -> None:
        """Let the log have a rebalance of this group, and not why there was one."""
        self._is_rewritten = True
        rebalance_without_cause(self._bootstrap, self.group_id, self.tick)

    # --- a classic group with one member, which sends its requests by itself

    def join_again(self) -> None:
        """Let the leader join again as it is."""
        self.members[0].join()

    def change_assignor(self) -> None:
        """Let the only member join again with another assignor."""
        self.members[0].assignor = "roundrobin"
        self.members[0].join()

    def join_static(self) -> None:
        """Let another member join, which is static, once the only one has left."""
        self.leave()
        self._new(self.kind).instance_id = INSTANCE
        self.members[0].join()

    def come_back(self) -> None:
        """Let the static member come back, with another assignor."""
        self.members[0].come_back("roundrobin")

    def come_back_changed(self) -> None:
        """Let it come back once more, with another assignor and another topic."""
        self.members[0].come_back("range", self.topic, TOPIC)

    # --- consumer groups

    def replace(self) -> None:
        """Let the first member go for now, and another one come with its instance and topics."""
        first: ConsumerMember = self.members.pop(0)
        made = ConsumerMember(self._bootstrap, self.group_id, f"{first.member_id}-again", TOPIC)
        made.instance_id = first.go_for_now()
        made.subscribe(self.topic, TOPIC)
        self.members.insert(0, made)

    def subscribe_by_regex(self) -> None:
        """Let the first member subscribe to topics that begin as the group's own one does."""
        self.members[0].regex = regex_of(self.group_id)
        self.members[0].subscribe()

    def create_matching(self) -> None:
        """Create a topic that the regular expression matches."""
        create_topics(self._bootstrap, [matching(self.group_id)], 1)

    def cling(self) -> None:
        """Let a member join, and the first one give up nothing until it is removed for that."""
        first: ConsumerMember = self.members[0]
        first.clings, first.rebalance_timeout, first.has_news = True, REVOKE, True
        first.beat()
        second = self._new(self.kind)

        def is_removed() -> bool:
            second.beat()
            if self._lacks(first):
                return True
            try:
                first.beat()
            except AssertionError:
                return self._lacks(first)
            return False

        until(is_removed, WITHIN_S, f"{first.member_id} is removed")
        self.members.remove(first)

    def join_classic(self) -> None:
        """Let a member with the classic protocol join."""
        self._join("classic")

    # --- share groups

    def join_java(self) -> None:
        """Let a Java share consumer join."""
        program = PROGRAMS / "ShareMember.java"
        self._java = Program(java(program, self._bootstrap, self.group_id, self.topic, JAVA))

    def leave_java(self) -> None:
        """Let it leave, once it has partitions."""
        running = self._java
        assert running is not None

        def has_partitions() -> bool:
            self.tick()
            return "assigned" in running.lines

        until(has_partitions, WITHIN_S, f"{JAVA} has partitions")
        running.leave()

    # --- streams groups

    def enlarge_all(self) -> None:
        """Let all topics of the topology have more partitions, at once."""
        self.enlarge(*(f"{self.group_id}-counts-{each}" for each in ("repartition", "changelog")))

    def move_process(self) -> None:
        """Let the first member run in another process."""
        self.members[0].move_process("another-process")

    def want_standbys(self) -> None:
        """Let the group's configs ask for standby tasks."""
        self._configure(SET, STANDBYS)

    # --- helpers

    def _new(self, kind: str) -> Any:
        self._count += 1
        name = f"{self.group_id}-{self._count}"
        make = LoneMember if self.group_id == LONE else MEMBERS[kind]
        made = make(self._bootstrap, self.group_id, name, self.topic)
        self.members.append(made)
        return made

    def _join(self, kind: str) -> None:
        made = self._new(kind)

        def is_settled() -> bool:
            self.beat()
            return all(each.assigned for each in self.members) and self.members[0].is_settled()

        until(is_settled, WITHIN_S, f"{made.member_id} has joined, and the group is settled")

    @staticmethod
    def _lacks(member: Member) -> bool:
        """Whether the group that a member describes does not have it any more."""
        return member.member_id not in {each.member_id for each in member.describe().members}

    def _configure(self, operation: int, values: Mapping[str, str]) -> None:
        def request(m: Any) -> Any:
            configs = tuple(
                m.AlterableConfig(
                    name=f"{self.kind}.{name}", config_operation=operation, value=value
                )
                for name, value in values.items()
            )
            resource = m.AlterConfigsResource(
                resource_type=GROUP, resource_name=self.group_id, configs=configs
            )
            return m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        with wire.Wire(self._bootstrap) as connection:
            (answer,) = connection.call(CONFIGS, 1, request).responses
        assert answer.error_code == wire.NONE, answer


def create_topics_of(bootstrap: str, group_ids: Iterable[str]) -> None:
    """Create the topics of groups, well before their members join.

    A coordinator knows a topic later than its broker tells of it. A streams group that joins in
    between has an epoch more, when its coordinator knows, too.
    """
    create_topics(bootstrap, {*map(topic_of, group_ids)} - {TOPIC}, 4)


def topic_of(group_id: str) -> str:
    """Return the topic of a group."""
    return TOPIC if group_id == "streams" else f"{group_id}-bills"


def matching(group_id: str) -> str:
    """Return another topic of a group that subscribes by a regular expression."""
    return f"{group_id}-bonds"


def regex_of(group_id: str) -> str:
    """Return what matches all topics of a group."""
    return f"{group_id}-b.*"
