"""A conversation with one shard: named clients, a clock that is moved by hand, and every answer.

    talk = Talk()
    talk.join("A")
    talk.advance(3_000)
    talk.sync("A", {"A": b"p0"})
    assert talk.heartbeat("A") is ErrorCode.none

A client keeps what it was told (member id, generation) and uses it in its next request, unless the
call says otherwise. After every event the shard's invariants are checked, and that no ticket is
answered twice.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protocol.config import Configs
from protocol.groups import invariants
from protocol.groups.effects import ClientInfo, Elected, Request, Resigned, TimersDue
from protocol.groups.facts import MemberEvent, RebalanceEnded
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import decode, encode
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.effects import Reply, Result, Ticket
    from protocol.groups.facts import Fact
    from protocol.records import Record

GROUP = "g"
NEWEST = {11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 42: 2}
START_MS = 1_000_000

KEEP: Any = object()
"""The client's own value."""


@dataclass
class Named:
    """What a client knows of itself."""

    name: str
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    ticket: Ticket = 0


@dataclass
class Talk:
    """One shard and the clients that talk to it."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    now: int = START_MS
    clients: dict[str, Named] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    replies: dict[Ticket, Reply] = field(default_factory=dict)
    parked: dict[Ticket, Named | None] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    tickets: int = 0

    def __post_init__(self) -> None:
        self.shard = self._new_shard()
        self.take(self.shard.handle(Elected(), self.now))

    def _new_shard(self) -> GroupShard:
        configs = Configs({"group.initial.rebalance.delay.ms": "3000", **self.overrides})
        self.seed += 1  # no two leaders draw the same member ids
        return GroupShard(configs, Topics(), random.Random(self.seed))

    # -- what clients ask ------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *,
        instance: str | None = KEEP,
        member_id: str = KEEP,
        version: int = 9,
        protocols: Iterable[str | tuple[str, bytes]] = ("range",),
        **more: Any,
    ) -> Any:
        """JoinGroup; the answer, or None while it is parked."""
        client = self.client(name)
        if instance is not KEEP:
            client.instance = instance
        message = JoinGroupRequest(
            group_id=more.get("group", GROUP),
            session_timeout=timedelta(milliseconds=more.get("session_ms", 10_000)),
            rebalance_timeout=timedelta(milliseconds=more.get("rebalance_ms", 60_000)),
            member_id=client.member_id if member_id is KEEP else member_id,
            group_instance_id=client.instance,
            protocol_type=more.get("protocol_type", "consumer"),
            protocols=tuple(
                JoinGroupRequestProtocol(name=each, metadata=f"{name}/{each}".encode())
                if isinstance(each, str)
                else JoinGroupRequestProtocol(name=each[0], metadata=each[1])
                for each in protocols
            ),
            reason=more.get("reason"),
        )
        return self.ask(message, version, client)

    def enter(self, name: str, **options: Any) -> Any:
        """Join as clients do: when a member id is required, join again with it."""
        answer = self.join(name, **options)
        if answer is not None and answer.error_code is ErrorCode.member_id_required:
            answer = self.join(name, **options)
        return answer

    def sync(
        self,
        name: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int = KEEP,
        member_id: str = KEEP,
        version: int = 5,
        **more: Any,
    ) -> Any:
        """SyncGroup; the answer, or None while it is parked."""
        client = self.client(name)
        message = SyncGroupRequest(
            group_id=more.get("group", GROUP),
            generation_id=client.generation if generation is KEEP else generation,
            member_id=client.member_id if member_id is KEEP else member_id,
            group_instance_id=more.get("instance", client.instance),
            protocol_type=more.get("protocol_type", "consumer"),
            protocol_name=more.get("protocol_name", "range"),
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=self.client(other).member_id, assignment=assignment
                )
                for other, assignment in (assignments or {}).items()
            ),
        )
        return self.ask(message, version, client)

    def heartbeat_reply(self, name: str, **more: Any) -> Reply:
        """Heartbeat; the whole reply."""
        client = self.client(name)
        message = HeartbeatRequest(
            group_id=more.get("group", GROUP),
            generation_id=more.get("generation", client.generation),
            member_id=more.get("member_id", client.member_id),
            group_instance_id=more.get("instance", client.instance),
        )
        self.ask(message, 4, None)
        return self.replies[self.tickets]

    def heartbeat(self, name: str, **more: Any) -> ErrorCode:
        """Heartbeat; its error code."""
        answer: Any = self.heartbeat_reply(name, **more).message
        return ErrorCode(answer.error_code)

    def leave(self, name: str, **more: Any) -> Any:
        """LeaveGroup of one member, as its client sends it."""
        client = self.client(name)
        identity = MemberIdentity(
            member_id=more.get("member_id", client.member_id),
            group_instance_id=more.get("instance", client.instance),
            reason=more.get("reason"),
        )
        answer = self.remove(identity, group=more.get("group", GROUP))
        client.member_id = ""
        return answer

    def remove(self, *identities: MemberIdentity, group: str = GROUP) -> Any:
        """LeaveGroup of several members, as an administrator sends it."""
        return self.ask(LeaveGroupRequest(group_id=group, members=identities), 5, None)

    def describe(self, group: str = GROUP, version: int = 6, *, operations: bool = False) -> Any:
        """DescribeGroups of one group."""
        message = DescribeGroupsRequest(groups=(group,), include_authorized_operations=operations)
        return self.ask(message, version, None).groups[0]

    def list(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> Any:
        """ListGroups."""
        message = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        return self.ask(message, 5, None).groups

    def delete(self, *groups: str) -> list[ErrorCode]:
        """DeleteGroups; the error of each."""
        answer = self.ask(DeleteGroupsRequest(groups_names=groups), 2, None)
        return [result.error_code for result in answer.results]

    # -- what happens --------------------------------------------------------------------------

    def ask(self, message: Any, version: int, client: Named | None) -> Any:
        """Send any request; the answer, or None while it is parked."""
        self.tickets += 1
        ticket = self.tickets
        self.parked[ticket] = client
        name = "admin" if client is None else client.name
        request = Request(
            ticket=ticket,
            api_key=message.__api_key__,
            api_version=version,
            client=ClientInfo(name, "/127.0.0.1"),
            message=message,
        )
        if client is not None:
            client.ticket = ticket
        self.take(self.shard.handle(request, self.now))
        return self.answer(ticket)

    def advance(self, milliseconds: int) -> None:
        """Let time pass; timers run when they are due."""
        end = self.now + milliseconds
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.take(self.shard.handle(TimersDue(), self.now))
        self.now = end

    def failover(self) -> None:
        """Let another replica lead: it knows the records and nothing else."""
        self.take(self.shard.handle(Resigned(), self.now))
        assert not self.parked
        self.shard = self._new_shard()
        for record in self.records:
            self.shard.replay(decode(*encode(record)))
        self.take(self.shard.handle(Elected(), self.now))

    def take(self, result: Result) -> None:
        """Take in what an event led to."""
        self.records += result.records
        self.facts += result.facts
        for reply in result.replies:
            assert reply.ticket in self.parked, f"ticket {reply.ticket} was answered before"
            self._learn(reply, self.parked.pop(reply.ticket))
            self.replies[reply.ticket] = reply
        broken = invariants.broken(self.context)
        assert not broken, broken

    def _learn(self, reply: Reply, client: Named | None) -> None:
        answer: Any = reply.message
        if client is None or client.ticket != reply.ticket or not hasattr(answer, "member_id"):
            return
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            client.member_id = answer.member_id
        if answer.error_code is ErrorCode.none:
            client.generation = answer.generation_id

    # -- what can be seen ------------------------------------------------------------------------

    @property
    def context(self) -> Any:
        """The shard's inside, for invariants only."""
        return self.shard._context

    @property
    def group(self) -> Any:
        """The group's soft state, for assertions on counts that no answer shows."""
        return self.context.classic_runtime[GROUP]

    @property
    def state(self) -> str:
        """The group's state as DescribeGroups shows it."""
        return str(self.describe().group_state)

    def client(self, name: str) -> Named:
        """The client of that name."""
        return self.clients.setdefault(name, Named(name))

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

    def events(self) -> list[MemberEvent]:
        """Every member event so far."""
        return [fact for fact in self.facts if isinstance(fact, MemberEvent)]

    def rebalances(self) -> list[RebalanceEnded]:
        """Every rebalance so far."""
        return [fact for fact in self.facts if isinstance(fact, RebalanceEnded)]


def stable(*names: str, talk: Talk | None = None, **options: Any) -> Talk:
    """Bring a group to Stable; a name with ``=`` is a static member: ``A=instance``."""
    talk = talk or Talk()
    bare = []
    for name in names:
        client, _, instance = name.partition("=")
        bare.append(client)
        talk.enter(client, instance=instance or None, **options)
    for _ in range(20):
        if talk.state != "PreparingRebalance":
            break
        talk.advance(3_000)
    settle(talk, *bare)
    return talk


def settle(talk: Talk, *names: str) -> None:
    """Let every member sync, the leader last; each gets the assignment ``p-<name>``."""
    leader = talk.group.leader_id
    [leads] = [name for name in names if talk.id(name) == leader]
    for name in names:
        if name != leads:
            talk.sync(name)
    talk.sync(leads, {name: f"p-{name}".encode() for name in names})
    assert talk.state == "Stable"
