"""Members of modern groups that a test moves by itself, one heartbeat at a time.

Their ids are given, so that a group looks the same on every server. What they send is of kio alone
(:mod:`tests.clients.wire`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.clients import wire
from tests.waiting import patient, until

CONSUMER_HEARTBEAT, SHARE_HEARTBEAT, STREAMS_HEARTBEAT = 68, 76, 88
LEAVE, LEAVE_FOR_NOW = -1, -2
SETTLED_S = patient(60)

Assigned = frozenset[tuple[str, int]]
"""Topic ids or subtopologies, each with an index."""


class Member:
    """One member; ``assigned`` is what the server gave it last.

    ``has_news``: its next heartbeat says what it subscribes to, as the first one does.
    """

    api_key: int

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.assigned: Assigned = frozenset()
        self._bootstrap = bootstrap
        self.group_id = group_id
        self.topics: tuple[str, ...] = (topic,)
        self.has_news = True

    def subscribe(self, *topics: str) -> None:
        """Subscribe to other topics with the next heartbeat."""
        self.topics, self.has_news = topics, True

    def beat(self) -> Any:
        """Send one heartbeat, which joins at first; return the answer."""
        answer = until(lambda: self._ask(self.epoch), SETTLED_S, "a heartbeat is answered")
        assert answer.error_code == wire.NONE, answer
        self.epoch, self.has_news = answer.member_epoch, False
        self.learn(answer)
        return answer

    def move_to(self, bootstrap: str) -> None:
        """Send the next heartbeats to another server."""
        self._bootstrap = bootstrap

    def leave(self) -> None:
        """Leave the group."""
        answer = until(lambda: self._ask(LEAVE), SETTLED_S, "a leave is answered")
        assert answer.error_code == wire.NONE, answer

    def refused(self) -> int:
        """Send a heartbeat; return the error code of the answer."""
        answer = until(lambda: self._ask(self.epoch), SETTLED_S, "a heartbeat is answered")
        return int(answer.error_code)

    def is_settled(self) -> bool:
        """Whether all members of the group have the target assignment of its newest epoch."""
        group = self.describe()
        epochs = {group.assignment_epoch, *(each.member_epoch for each in group.members)}
        return epochs == {group.group_epoch} and all(map(self.has_target, group.members))

    def has_target(self, described: Any) -> bool:
        """Whether a member has what it is to have, as far as a description tells."""
        return True

    def describe(self) -> Any:
        """Describe the group."""
        raise NotImplementedError

    def _ask(self, epoch: int) -> Any:
        found = wire.coordinator_of(self._bootstrap, self.group_id)
        if found is None:
            return None
        with suppress(OSError), wire.Wire(found[1]) as connection:
            answer = connection.call(self.api_key, self.version, lambda m: self.heartbeat(m, epoch))
            return None if answer.error_code in wire.NOT_NOW else answer
        return None

    version = 0

    def heartbeat(self, m: Any, epoch: int) -> Any:
        """Make the request."""
        raise NotImplementedError

    def learn(self, answer: Any) -> None:
        """Note what was assigned: partitions, unless the type of the group has tasks."""
        if answer.assignment is not None:
            self.assigned = frozenset(
                (str(topic.topic_id), index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            )


class ConsumerMember(Member):
    """A static member of a consumer group.

    It gives up and takes over partitions as it is told, unless it ``clings`` to what it has. It
    may subscribe by a regular expression, ``regex``, beside its topics.
    """

    api_key, version = CONSUMER_HEARTBEAT, 1
    rebalance_timeout, clings = timedelta(seconds=60), False
    regex: str | None = None
    instance_id = ""

    def go_for_now(self) -> str:
        """Leave as a static member that means to come back; return its instance id."""
        answer = until(lambda: self._ask(LEAVE_FOR_NOW), SETTLED_S, "a leave is answered")
        assert answer.error_code == wire.NONE, answer
        return self._instance

    @property
    def _instance(self) -> str:
        return self.instance_id or f"static-{self.member_id}"

    def describe(self) -> Any:
        return wire.describe_consumer(self._bootstrap, self.group_id)

    def heartbeat(self, m: Any, epoch: int) -> Any:
        owned: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.assigned):
            owned.setdefault(topic_id, []).append(index)
        joining: Mapping[str, Any] = {}
        if self.has_news or not epoch:
            joining = {
                "rebalance_timeout": self.rebalance_timeout,
                "subscribed_topic_names": self.topics,
                "subscribed_topic_regex": self.regex,
            }
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._instance,
            **{
                "rebalance_timeout": timedelta(milliseconds=-1),
                "subscribed_topic_names": None,
                "subscribed_topic_regex": None,
                "server_assignor": None,
                "topic_partitions": tuple(
                    m.TopicPartitions(topic_id=UUID(topic_id), partitions=tuple(indexes))
                    for topic_id, indexes in owned.items()
                ),
                **joining,
            },
        )

    def learn(self, answer: Any) -> None:
        had = self.assigned
        super().learn(answer)
        if self.clings:
            self.assigned |= had


class ShareMember(Member):
    """A member of a share group."""

    api_key, version = SHARE_HEARTBEAT, 1

    def describe(self) -> Any:
        return wire.describe_share(self._bootstrap, self.group_id)

    def heartbeat(self, m: Any, epoch: int) -> Any:
        return m.ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if self.has_news or not epoch else None,
        )


class StreamsMember(Member):
    """A member of a streams group: one subtopology with a store and a repartition topic.

    It gives up and takes over tasks as it is told, unless it ``clings`` to what it has.
    ``process`` is where it says that it runs.
    """

    api_key, process = STREAMS_HEARTBEAT, ""
    rebalance_timeout, clings = timedelta(seconds=60), False
    instance_id: str | None = None

    def move_process(self, name: str) -> None:
        """Say with the next heartbeat that it runs in another process."""
        self.process, self.has_news = name, True

    def describe(self) -> Any:
        return wire.describe_streams(self._bootstrap, self.group_id)

    def has_target(self, described: Any) -> bool:
        found: bool = described.assignment == described.target_assignment
        return found

    def heartbeat(self, m: Any, epoch: int) -> Any:
        names: dict[str, list[int]] = {}
        for subtopology, index in sorted(self.assigned):
            names.setdefault(subtopology, []).append(index)
        owned = tuple(
            m.TaskIds(subtopology_id=name, partitions=tuple(indexes))
            for name, indexes in names.items()
        )
        joining: Mapping[str, Any] = {}
        if self.has_news or not epoch:
            joining = {
                "topology": None if epoch else self._topology(m),
                "process_id": self.process or f"process-{self.member_id}",
                "rebalance_timeout": self.rebalance_timeout,
                "client_tags": (),
            }
        return m.StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=0,
            instance_id=self.instance_id,
            active_tasks=None if epoch == LEAVE else owned,
            standby_tasks=None if epoch == LEAVE else (),
            warmup_tasks=None if epoch == LEAVE else (),
            task_offsets=None,
            task_end_offsets=None,
            **{"client_tags": None, **joining},
        )

    def _topology(self, m: Any) -> Any:
        def internal(name: str) -> Any:
            return m.TopicInfo(
                name=f"{self.group_id}-{name}", partitions=0, replication_factor=0,
                topic_configs=(),
            )  # fmt: skip

        repartition = internal("counts-repartition")
        first = m.Subtopology(
            subtopology_id="0", source_topics=self.topics, state_changelog_topics=(),
            repartition_sink_topics=(repartition.name,), repartition_source_topics=(),
            copartition_groups=(),
        )  # fmt: skip
        second = m.Subtopology(
            subtopology_id="1", source_topics=(),
            state_changelog_topics=(internal("counts-changelog"),), repartition_sink_topics=(),
            repartition_source_topics=(repartition,), copartition_groups=(),
        )  # fmt: skip
        return m.Topology(epoch=0, subtopologies=(first, second))

    def learn(self, answer: Any) -> None:
        had = self.assigned if self.clings else frozenset()
        if answer.active_tasks is not None:
            self.assigned = had | frozenset(
                (tasks.subtopology_id, index)
                for tasks in answer.active_tasks
                for index in tasks.partitions
            )
