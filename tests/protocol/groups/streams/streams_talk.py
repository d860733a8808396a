"""A conversation with one shard about streams groups: members, a clock moved by hand, a catalogue.

    talk = StreamsTalk()
    talk.join("A")
    talk.beat("A")

Members use in each heartbeat what they were told; they report tasks when asked to (``owning``).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protocol.assignors.executor import Executor
from protocol.config import Configs
from protocol.groups import invariants
from protocol.groups.effects import (
    CancelAssignment,
    ClientInfo,
    CreateTopics,
    Elected,
    Request,
    Resigned,
    TimersDue,
    TopicsCreated,
)
from protocol.groups.shard import GroupShard
from protocol.records import decode, decode_for_replay, encode
from protocol.wire import streams_messages as m
from protocol.wire.convert import blank
from tests.protocol.groups.consumer.consumer_talk import image

if TYPE_CHECKING:
    from protocol.groups.effects import Event, Result, Task
    from protocol.records import Record

GROUP = "g"


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
class StreamsTalk:
    """One shard and the members that talk to it; runs are done in place unless ``is_offloaded``."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=lambda: dict(TOPICS))
    topology: m.StreamsTopology = STATEFUL
    delay_ms: int = 0
    interval_ms: int = 0
    is_offloaded: bool = False
    now: int = 1_000_000
    epochs: dict[str, int] = field(default_factory=dict)
    log: list[Record] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    leases: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor = Executor(lambda: 0.0)
        self.lead()

    def lead(self) -> None:
        """Let a new leader replay the log and begin."""
        configs = {
            "group.streams.assignor.offload.enable": str(self.is_offloaded).lower(),
            "group.streams.assignment.interval.ms": str(self.interval_ms),
            "group.streams.initial.rebalance.delay.ms": str(self.delay_ms),
            **self.overrides,
        }
        self.shard = GroupShard(Configs(configs), image(self.topics), random.Random(1))
        for record in self.log:
            self.shard.replay(decode_for_replay(*encode(record)))
        self.handle(Elected())

    def fail_over(self) -> None:
        """Let another leader take over."""
        self.handle(Resigned())
        self.lead()

    @property
    def group(self) -> Any:
        """The group's hard state."""
        return self.shard._context.groups[GROUP]

    def handle(self, event: Event) -> Result:
        """Handle an event, check the invariants, keep the tasks."""
        result = self.shard.handle(event, self.now)
        assert self.shard.take_failures() == []
        self.log += result.records
        self.replies += [reply.message for reply in result.replies]
        self.leases += [reply.lease for reply in result.replies]
        assert invariants.broken(self.shard._context) == []
        self.tasks += [each for each in result.tasks if not isinstance(each, CancelAssignment)]
        return result

    def ask(self, message: Any, version: int | None = None) -> Any:
        """Send a request and return its answer."""
        request = Request(
            ticket=1,
            api_key=type(message).__api_key__,
            api_version=message.__version__ if version is None else version,
            client=ClientInfo("client", "/127.0.0.1"),
            message=message,
        )
        self.handle(request)
        self.wait(0)  # a classic join is answered by a timer
        return self.replies.pop()

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
        message = blank(
            m.StreamsGroupHeartbeatRequest,
            group_id=GROUP,
            member_id=name,
            member_epoch=self.epochs.get(name, 0) if epoch is None else epoch,
            **more,
        )
        answer = self.ask(message)
        if not answer.error_code and answer.member_epoch >= 0:
            self.epochs[name] = answer.member_epoch
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

    def describe(self) -> Any:
        """Describe the group."""
        message = m.StreamsGroupDescribeRequest(
            group_ids=(GROUP,), include_authorized_operations=False
        )
        (described,) = self.ask(message).groups
        return described

    def wait(self, ms: int) -> None:
        """Let time pass, timers come due."""
        until = self.now + ms
        while (due := self.shard.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(TimersDue())
        self.now = until

    def put_topics(self, **topics: int) -> None:
        """Change the catalogue."""
        self.topics = {**self.topics, **{name.replace("_", "-"): n for name, n in topics.items()}}
        self.topics = {name: count for name, count in self.topics.items() if count}
        self.shard.topics = image(self.topics)
        self.wait(0)

    def work(self) -> None:
        """Let the worker do the runs that wait."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            if isinstance(task, CreateTopics):
                self.tasks.append(task)
            else:
                self.handle(self.executor.run(task))  # type: ignore[arg-type]

    def creations(self) -> list[Any]:
        """Take out the topics that the group asked the catalogue for."""
        asked = [each for each in self.tasks if isinstance(each, CreateTopics)]
        self.tasks = [each for each in self.tasks if not isinstance(each, CreateTopics)]
        return [one for each in asked for one in each.request.topics]  # type: ignore[attr-defined]

    def answer_creation(self, **errors: str | None) -> None:
        """Let the catalogue answer."""
        named = {name.replace("_", "-"): error for name, error in errors.items()}
        self.handle(TopicsCreated(group_id=GROUP, errors=named))

    def written(self, kind: type) -> list[Any]:
        """Return the values of all records of one key class, decoded."""
        return [
            decode(*encode(record)).value for record in self.log if isinstance(record.key, kind)
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
