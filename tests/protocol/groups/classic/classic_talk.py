"""A conversation with one shard about classic groups.

    talk = ClassicTalk()
    talk.join("A")
    talk.advance(3_000)
    talk.sync("A", {"A": b"p0"})
    assert talk.heartbeat("A") is ErrorCode.none

A client keeps its member id and its generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protocol.groups.facts import RebalanceEnded
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.protocol.groups.conversation import GROUP, Client, Conversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.effects import Reply


@dataclass
class ClassicClient(Client):
    """What a classic client knows of itself."""

    generation: int = -1


def join_group(
    client: ClassicClient, protocols: Iterable[tuple[str, bytes]], **more: Any
) -> JoinGroupRequest:
    """JoinGroup with the client's own values for all that is not said."""
    return JoinGroupRequest(
        group_id=more.get("group", GROUP),
        session_timeout=timedelta(milliseconds=more.get("session_ms", 10_000)),
        rebalance_timeout=timedelta(milliseconds=more.get("rebalance_ms", 60_000)),
        member_id=more.get("member_id", client.member_id),
        group_instance_id=client.instance,
        protocol_type=more.get("protocol_type", "consumer"),
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols
        ),
        reason=more.get("reason"),
    )


def sync_group(
    client: ClassicClient, assignments: Iterable[tuple[str, bytes]], **more: Any
) -> SyncGroupRequest:
    """SyncGroup with assignments by member id."""
    return SyncGroupRequest(
        **_standing(client, more),
        protocol_type=more.get("protocol_type", "consumer"),
        protocol_name=more.get("protocol_name", "range"),
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments
        ),
    )


def heartbeat(client: ClassicClient, **more: Any) -> HeartbeatRequest:
    """Heartbeat in the client's generation."""
    return HeartbeatRequest(**_standing(client, more))


def _standing(client: ClassicClient, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "group_id": more.get("group", GROUP),
        "generation_id": more.get("generation", client.generation),
        "member_id": more.get("member_id", client.member_id),
        "group_instance_id": more.get("instance", client.instance),
    }


class ClassicTalk(Conversation[ClassicClient]):
    """One shard and the classic clients that talk to it."""

    def configs(self) -> dict[str, str]:
        return {"group.initial.rebalance.delay.ms": "3000"}

    def new_client(self, name: str, instance: str | None) -> ClassicClient:
        return ClassicClient(name, instance)

    # -- what clients ask ------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *,
        version: int = 9,
        protocols: Iterable[str | tuple[str, bytes]] = ("range",),
        **more: Any,
    ) -> Any:
        """JoinGroup; the answer, or None while it is parked."""
        client = self.client(name)
        client.instance = more.get("instance", client.instance)
        listed = [
            (each, f"{name}/{each}".encode()) if isinstance(each, str) else each
            for each in protocols
        ]
        return self.say(client, join_group(client, listed, **more), version)

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
        version: int = 5,
        **more: Any,
    ) -> Any:
        """SyncGroup, with assignments by client; the answer, or None while it is parked."""
        client = self.client(name)
        shares = [(self.id(other), share) for other, share in (assignments or {}).items()]
        return self.say(client, sync_group(client, shares, **more), version)

    def heartbeat_reply(self, name: str, **more: Any) -> Reply:
        """Heartbeat; the whole reply."""
        self.ask(heartbeat(self.client(name), **more), 4, name)
        return self.last_reply()

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
        answer = self.remove(identity, name=name)
        client.member_id = ""
        return answer

    def remove(self, *identities: MemberIdentity, name: str = "admin") -> Any:
        """LeaveGroup of several members, as an administrator sends it."""
        return self.ask(LeaveGroupRequest(group_id=GROUP, members=identities), 5, name)

    def learn(self, client: ClassicClient, answer: Any) -> None:
        if not hasattr(answer, "member_id"):
            return
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            client.member_id = answer.member_id
        if answer.error_code is ErrorCode.none:
            client.generation = answer.generation_id

    # -- what can be seen ------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        """The group's soft state, for assertions on counts that no answer shows."""
        return self.context.classic_runtime[GROUP]

    @property
    def state(self) -> str:
        """The group's state as DescribeGroups shows it."""
        return str(self.describe().group_state)

    def rebalances(self) -> list[RebalanceEnded]:
        """Every rebalance so far."""
        return [fact for fact in self.facts if isinstance(fact, RebalanceEnded)]


def stable(*names: str, talk: ClassicTalk | None = None, **options: Any) -> ClassicTalk:
    """Bring a group to Stable; a name with ``=`` is a static member: ``A=instance``."""
    talk = talk or ClassicTalk()
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


def settle(talk: ClassicTalk, *names: str) -> None:
    """Let every member sync, the leader last; each gets the assignment ``p-<name>``."""
    leader = talk.group.leader_id
    [leads] = [name for name in names if talk.id(name) == leader]
    for name in names:
        if name != leads:
            talk.sync(name)
    talk.sync(leads, {name: f"p-{name}".encode() for name in names})
    assert talk.state == "Stable"
