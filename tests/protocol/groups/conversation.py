"""A conversation with one shard: named clients, a clock moved by hand, and every answer.

Each group type's conversation extends it with the requests of its clients, and all use the same
words: ``join``, ``leave``, ``heartbeat``, ``advance``, ``failover``. A client keeps what it
was told and uses it in its next request, unless the call says otherwise. After every event the
shard's invariants are checked, and that no ticket is answered twice.

Tasks of assignor workers wait for ``work``, unless the conversation ``is_prompt``. What groups ask
the catalogue for is in ``creations``. What they ask share coordinators for is answered at once by
one, ``share_state``, unless ``holds_calls``; then it waits in ``calls``. ``records`` has those of
both, in order.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from uuid import UUID

from protocol.assignors.executor import Executor
from protocol.config import Configs
from protocol.groups import invariants
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.effects import (
    CallShareState,
    CancelAssignment,
    ClientInfo,
    CreateTopics,
    Elected,
    Request,
    Resigned,
    ShareStateAnswered,
    TimersDue,
)
from protocol.groups.facts import MemberEvent
from protocol.groups.shard import GroupShard
from protocol.groups.share_state.shard import ShareStateShard
from protocol.groups.topics import Topic, Topics
from protocol.groups.wall import WallClock
from protocol.records import SHARE_STATE_TYPES, decode, encode
from protocol.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.groups.dispatch import Tables
    from protocol.groups.effects import Event, Reply, Result, Ticket, WorkerTask
    from protocol.groups.facts import Fact
    from protocol.records import Record

GROUP = "g"
START_MS = 1_000_000
TopicPartition = tuple[str, int]
NOTHING: frozenset[TopicPartition] = frozenset()


def topic_id(name: str) -> UUID:
    """Give a topic's id: that of its name, always the same."""
    return UUID(bytes=name.encode().ljust(16, b"."))


def image(topics: Mapping[str, int], racks: Mapping[int, str] | None = None) -> Topics:
    """Make an image of topics from their partition counts."""
    made = (Topic(topic_id(name), name, count) for name, count in topics.items())
    return Topics(made, racks or {})


@dataclass
class Client:
    """What a client knows of itself; ``ticket`` is that of the last request it learns from."""

    name: str
    instance: str | None = None
    member_id: str = ""
    ticket: Ticket = 0


C = TypeVar("C", bound=Client)


@dataclass
class Conversation(Generic[C]):
    """One shard, the clients that talk to it, and an assignor worker."""

    tables: ClassVar[Tables | None] = None
    read_record: ClassVar[Any] = staticmethod(decode)

    overrides: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=dict)
    is_prompt: bool = False
    seed: int = 0
    now: int = START_MS
    clients: dict[str, C] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tasks: deque[WorkerTask] = field(default_factory=deque)
    creations: list[CreateTopics] = field(default_factory=list)
    calls: deque[CallShareState] = field(default_factory=deque)
    holds_calls: bool = False
    asked: dict[Ticket, str] = field(default_factory=dict)
    listeners: dict[Ticket, C] = field(default_factory=dict)
    replies: dict[Ticket, Reply] = field(default_factory=dict)
    result: Result | None = None
    tickets: int = 0

    def __post_init__(self) -> None:
        self.executor = Executor(lambda: 0.0)
        self.shard = self.new_shard()
        self.share_state = ShareStateShard(self.shard.configs, self.shard.topics, WallClock())
        self.handle(Elected())

    # -- what each conversation says of itself ---------------------------------------------------

    def configs(self) -> dict[str, str]:
        """The broker configs beside ``overrides``."""
        return {}

    def new_client(self, name: str, instance: str | None) -> C:
        """A client that has not spoken yet."""
        raise NotImplementedError

    def learn(self, client: C, answer: Any) -> None:
        """Let a client take in the answer to its last request."""

    # -- what anybody asks -----------------------------------------------------------------------

    def ask(self, message: Any, version: int, name: str = "admin") -> Any:
        """Send any request; the answer, or None while it is parked."""
        self.tickets += 1
        ticket = self.tickets
        self.asked[ticket] = name
        self.handle(
            Request(
                ticket=ticket,
                api_key=message.__api_key__,
                api_version=version,
                client=ClientInfo(name, "/127.0.0.1"),
                message=message,
            )
        )
        return self.answer(ticket)

    def say(self, client: C, message: Any, version: int) -> Any:
        """Send a client's request, from whose answer it learns; the answer, None while parked."""
        client.ticket = self.tickets + 1
        self.listeners[client.ticket] = client
        return self.ask(message, version, client.name)

    def describe_classic(
        self, group: str = GROUP, version: int = 6, *, operations: bool = False
    ) -> Any:
        """DescribeGroups of one group."""
        message = m.DescribeGroupsRequest(groups=(group,), include_authorized_operations=operations)
        return self.ask(message, version).groups[0]

    def describe(self, group: str = GROUP, **more: Any) -> Any:
        """Describe one group by the API of its type."""
        return self.describe_classic(group, **more)

    def list(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> Any:
        """ListGroups."""
        message = m.ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        return self.ask(message, 5).groups

    def listed(self) -> Any:
        """ListGroups: id, type and state of each group."""
        return [(each.group_id, each.group_type, each.group_state) for each in self.list()]

    def delete(self, *groups: str) -> Any:
        """DeleteGroups; the error of each."""
        results = self.ask(m.DeleteGroupsRequest(groups_names=groups), 2).results
        return [each.error_code for each in results]

    def commit_offsets(
        self,
        topic: str | UUID,
        *partitions: tuple[int, int, str | None],
        group: str = GROUP,
        version: int = 9,
        name: str = "admin",
        leader_epoch: int = -1,
        **fields: Any,
    ) -> Any:
        """OffsetCommit of (partition, offset, metadata)s of one topic; the error of each."""
        committed = tuple(
            m.OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
            for index, offset, metadata in partitions
        )
        asked = m.OffsetCommitRequestTopic(**_name_or_id(topic), partitions=committed)
        request = m.OffsetCommitRequest(
            **{"group_id": group, "member_id": "", "topics": (asked,), **fields}
        )
        answer = self.ask(request, version, name)
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def fetch_offsets(
        self,
        topics: Mapping[str | UUID, Sequence[int]] | None = None,
        group: str = GROUP,
        version: int = 9,
        **fields: Any,
    ) -> Any:
        """OffsetFetch of one group, of all its topics or of these; what is said of the group."""
        asked = None
        if topics is not None:
            asked = tuple(
                m.OffsetFetchRequestTopics(**_name_or_id(topic), partition_indexes=tuple(indexes))
                for topic, indexes in topics.items()
            )
        request = m.OffsetFetchRequestGroup(group_id=group, topics=asked, **fields)
        (answer,) = self.ask(m.OffsetFetchRequest(groups=(request,)), version).groups
        return answer

    def offsets(self, group: str = GROUP) -> dict[TopicPartition, tuple[int, str]]:
        """All that a group has committed: offset and metadata of each partition."""
        return {
            (topic.name, one.partition_index): (one.committed_offset, one.metadata)
            for topic in self.fetch_offsets(group=group).topics
            for one in topic.partitions
        }

    def delete_offsets(self, topic: str, *partitions: int, group: str = GROUP) -> Any:
        """OffsetDelete of partitions of one topic; the answer."""
        indexes = tuple(m.OffsetDeleteRequestPartition(partition_index=each) for each in partitions)
        asked = m.OffsetDeleteRequestTopic(name=topic, partitions=indexes)
        return self.ask(m.OffsetDeleteRequest(group_id=group, topics=(asked,)), 0)

    # -- what happens ----------------------------------------------------------------------------

    def handle(self, event: Event) -> Result:
        """Give the shard an event and take in what it led to."""
        result = self.result = self.shard.handle(event, self.now)
        self.take(result)
        if not self.holds_calls:
            self.answer_calls()
        if self.is_prompt:
            self.work()
        return result

    def take(self, result: Result) -> None:
        """Take in what an event led to."""
        self.records += result.records
        self.facts += result.facts
        for task in result.tasks:
            if isinstance(task, CreateTopics):
                self.creations.append(task)
            elif isinstance(task, CallShareState):
                self.calls.append(task)
            else:
                self.tasks.append(task)
        for reply in result.replies:
            assert reply.ticket in self.asked, f"nobody asked with ticket {reply.ticket}"
            assert reply.ticket not in self.replies, f"ticket {reply.ticket} was answered before"
            self.replies[reply.ticket] = reply
            client = self.listeners.get(reply.ticket)
            if client is not None and client.ticket == reply.ticket:
                self.learn(client, reply.message)
        broken = invariants.broken(self.context)
        assert not broken, broken

    def answer_calls(self, most: int = 1_000) -> None:
        """Let a share coordinator, which knows the same topics, answer what groups ask for."""
        while self.calls and most:
            call = self.calls.popleft()
            most -= 1
            response = self.ask_share_state(call.request)
            self.handle(
                ShareStateAnswered(group_id=call.group_id, call=call.call, response=response)
            )

    def ask_share_state(self, message: Any, version: int = 1) -> Any:
        """Ask the share coordinator as a broker does; the answer."""
        self.share_state.show(self.shard.configs, self.shard.topics)
        request = Request(
            ticket=1,
            api_key=message.__api_key__,
            api_version=version,
            client=ClientInfo("broker", "/127.0.0.1"),
            message=message,
        )
        result = self.share_state.handle(request, self.now)
        self.records += result.records
        (reply,) = result.replies
        return reply.message

    def work(self, most: int = 1_000) -> None:
        """Let the worker do what waits."""
        while self.tasks and most:
            task = self.tasks.popleft()
            most -= 1
            if not isinstance(task, CancelAssignment):
                self.handle(self.executor.run(task))
        self.settle()

    def settle(self) -> None:
        """Run what is due at this very moment."""
        for _ in range(10_000):
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > self.now:
                return
            self.handle(TimersDue())
        raise AssertionError("the shard never comes to rest")

    def advance(self, milliseconds: int) -> None:
        """Let time pass; timers run when they are due."""
        end = self.now + milliseconds
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.handle(TimersDue())
        self.now = end

    def set_topics(self, **counts: int) -> None:
        """Change the topics that exist."""
        self.topics = dict(counts)
        self.shard.topics = image(self.topics)
        self.settle()

    def new_shard(self) -> GroupShard:
        """A shard that has read nothing; no two of them draw the same member ids."""
        self.seed += 1
        configs = Configs({**self.configs(), **self.overrides})
        return GroupShard(configs, image(self.topics), random.Random(self.seed), self.tables)

    def failover(self, *, from_compacted: bool = False) -> None:
        """Let another replica lead: it knows the records and nothing else."""
        self.handle(Resigned())
        assert not self.parked
        own = [each for each in self.records if type(each.key) not in SHARE_STATE_TYPES]
        rows = [encode(record) for record in own]
        if from_compacted:
            rows = [(key, value) for key, value in sorted(dict(rows).items()) if value is not None]
        self.tasks.clear()
        self.creations.clear()
        self.calls.clear()
        configs = self.shard.group_configs
        self.shard = self.new_shard()
        self.shard.group_configs = configs
        for key, value in rows:
            self.shard.replay(self.read_record(key, value))
        self.handle(Elected())

    # -- what can be seen ------------------------------------------------------------------------

    @property
    def context(self) -> Any:
        """The shard's inside."""
        return self.shard._context

    @property
    def group(self) -> Any:
        """The group's state, for assertions on what no answer shows."""
        return self.context.groups[GROUP]

    @property
    def is_consumer_group(self) -> bool:
        """Whether the group is a consumer group now."""
        return isinstance(self.context.groups[GROUP], ConsumerGroup)

    @property
    def parked(self) -> dict[Ticket, str]:
        """Who waits for an answer, by ticket."""
        return {ticket: name for ticket, name in self.asked.items() if ticket not in self.replies}

    def client(self, name: str) -> C:
        """The client of that name; ``A=i`` on first use makes it a static member."""
        bare, _, instance = name.partition("=")
        return self.clients.setdefault(bare, self.new_client(bare, instance or None))

    def id(self, name: str) -> str:
        """The member id that the client has now."""
        return self.client(name).member_id

    def answer(self, ticket: Ticket) -> Any:
        """The answer to a ticket; None while it is parked."""
        reply = self.replies.get(ticket)
        return None if reply is None else reply.message

    def last(self, name: str) -> Any:
        """The answer to the client's last request; None while it is parked."""
        return self.answer(self.client(name).ticket)

    def last_reply(self) -> Reply:
        """The whole reply to the last request."""
        return self.replies[self.tickets]

    def events(self) -> Any:
        """Every member event so far."""
        return [fact for fact in self.facts if isinstance(fact, MemberEvent)]


def _name_or_id(topic: str | UUID) -> dict[str, Any]:
    is_id = isinstance(topic, UUID)
    return {"topic_id": topic if is_id else None, "name": "" if is_id else topic}
