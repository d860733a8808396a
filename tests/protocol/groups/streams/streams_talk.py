"""A conversation with one shard about streams groups.

    talk = StreamsTalk()
    talk.join("A")
    talk.beat("A")

Members use in each heartbeat what they were told; they report tasks when asked to (``owning``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protocol.groups.effects import TopicsCreated
from protocol.records import decode, decode_for_replay, encode
from protocol.wire import streams_messages as m
from protocol.wire.convert import blank
from tests.protocol.groups.conversation import GROUP, Client, Conversation

if TYPE_CHECKING:
    from protocol.groups.effects import Result


def topic(name: str, partitions: int = 0, **configs: str) -> m.StreamsTopicInfo:
    """Make an internal topic of a topology."""
    return m.StreamsTopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=tuple(m.StreamsConfig(key=key, value=each) for key, each in configs.items()),
    )


def subtopology(
    name: str = "0",
    sources: Sequence[str] = ("in",),
    *,
    sinks: Sequence[str] = (),
    repartition: Sequence[m.StreamsTopicInfo] = (),
    changelogs: Sequence[m.StreamsTopicInfo] = (),
    copartition: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> m.StreamsSubtopology:
    """Make a subtopology; copartition groups are indexes of sources and of repartition topics."""
    return m.StreamsSubtopology(
        subtopology_id=name,
        source_topics=tuple(sources),
        state_changelog_topics=tuple(changelogs),
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=tuple(repartition),
        copartition_groups=tuple(
            m.StreamsCopartitionGroup(
                source_topics=tuple(external), repartition_source_topics=tuple(internal)
            )
            for external, internal in copartition
        ),
    )


def topology(*subtopologies: m.StreamsSubtopology, epoch: int = 1) -> m.StreamsTopology:
    """Make a topology."""
    return m.StreamsTopology(epoch=epoch, subtopologies=subtopologies or (subtopology(),))


STATEFUL = topology(subtopology(changelogs=(topic("store-changelog"),)))
TOPICS: Mapping[str, int] = {"in": 3, "store-changelog": 3}


@dataclass
class StreamsClient(Client):
    """What a member knows of itself; its id is its name."""

    epoch: int = 0


@dataclass
class StreamsTalk(Conversation[StreamsClient]):
    """One shard and the members that talk to it; runs are done in place unless ``is_offloaded``."""

    read_record = staticmethod(decode_for_replay)

    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=lambda: dict(TOPICS))
    topology: m.StreamsTopology = STATEFUL
    delay_ms: int = 0
    interval_ms: int = 0
    is_offloaded: bool = False
    version: int = 0

    def configs(self) -> dict[str, str]:
        return {
            "group.streams.assignor.offload.enable": str(self.is_offloaded).lower(),
            "group.streams.assignment.interval.ms": str(self.interval_ms),
            "group.streams.initial.rebalance.delay.ms": str(self.delay_ms),
        }

    def new_client(self, name: str, instance: str | None) -> StreamsClient:
        return StreamsClient(name, instance, member_id=name)

    def learn(self, client: StreamsClient, answer: Any) -> None:
        if not answer.error_code and answer.member_epoch >= 0:
            client.epoch = answer.member_epoch

    # -- what members ask ------------------------------------------------------------------------

    def join(self, name: str, **more: Any) -> Any:
        """Join, or join again from nothing."""
        fields = {
            "topology": self.topology,
            "rebalance_timeout": timedelta(seconds=60),
            "active_tasks": (),
            "standby_tasks": (),
            "warmup_tasks": (),
            "process_id": f"p-{name}",
        }
        return self.beat(name, epoch=0, **{**fields, **more})

    def beat(self, name: str, epoch: int | None = None, **more: Any) -> Any:
        """Heartbeat with the epoch that the member was last told."""
        client = self.client(name)
        asked = {
            "group_id": GROUP,
            "member_id": client.member_id,
            "member_epoch": client.epoch if epoch is None else epoch,
            "instance_id": client.instance,
            **more,
        }
        answer = self.say(client, blank(m.StreamsGroupHeartbeatRequest, **asked), self.version)
        self.settle()
        return answer

    def owning(self, name: str, active: str = "", standby: str = "", **more: Any) -> Any:
        """Heartbeat and report tasks, each written like ``0:012``."""
        return self.beat(
            name,
            active_tasks=task_ids(active),
            standby_tasks=task_ids(standby),
            warmup_tasks=(),
            **more,
        )

    def leave(self, name: str, epoch: int = -1) -> Any:
        """Leave for good, or (-2) for a while."""
        return self.beat(name, epoch)

    def describe(self, group: str = GROUP, **more: Any) -> Any:
        """StreamsGroupDescribe of one group."""
        message = m.StreamsGroupDescribeRequest(
            group_ids=(group,),
            include_authorized_operations=more.get("operations", False),
            include_topology_description=more.get("topology", False),
        )
        return self.ask(message, self.version).groups[0]

    # -- what happens ----------------------------------------------------------------------------

    def take(self, result: Result) -> None:
        super().take(result)
        assert self.shard.take_failures() == []

    def change_topics(self, **counts: int) -> None:
        """Change some of the topics that exist, in whose names ``_`` is a dash; 0 is to delete."""
        changed = {name.replace("_", "-"): count for name, count in counts.items()}
        after = {**self.topics, **changed}
        self.set_topics(**{name: count for name, count in after.items() if count})

    def created(self) -> list[Any]:
        """Take out the topics that the group asked the catalogue for."""
        requests: list[Any] = [each.request for each in self.creations]
        self.creations.clear()
        return [topic for request in requests for topic in request.topics]

    def answer_creation(self, **errors: str | None) -> None:
        """Let the catalogue answer."""
        named = {name.replace("_", "-"): error for name, error in errors.items()}
        self.handle(TopicsCreated(group_id=GROUP, errors=named))

    # -- what can be seen ------------------------------------------------------------------------

    def written(self, kind: type) -> list[Any]:
        """Return the values of all records of one key class, decoded."""
        return [
            decode(*encode(record)).value for record in self.records if isinstance(record.key, kind)
        ]


def task_ids(text: str) -> tuple[m.OwnedTaskIds, ...]:
    """Read tasks written like ``0:012 1:3``."""
    return tuple(
        m.OwnedTaskIds(subtopology_id=name, partitions=tuple(map(int, indexes)))
        for name, indexes in (each.split(":") for each in text.split())
    )


def tasks(ids: Any) -> str | None:
    """Write tasks like ``0:012 1:3``; None if there are none in the answer."""
    if ids is None:
        return None
    return " ".join(f"{each.subtopology_id}:{''.join(map(str, each.partitions))}" for each in ids)


def told(answer: Any) -> tuple[int, str | None, str | None]:
    """Return a member's epoch, active and standby tasks."""
    assert not answer.error_code, answer.error_message
    return answer.member_epoch, tasks(answer.active_tasks), tasks(answer.standby_tasks)


def statuses(answer: Any) -> list[tuple[int, str]]:
    """Return the statuses of an answer."""
    return [(each.status_code, each.status_detail) for each in answer.status]
