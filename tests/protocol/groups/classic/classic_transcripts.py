"""Golden transcripts of classic groups; see ``transcripts``, and ``tests/transcripts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.classic.spares import NO_PARTITIONS
from protocol.groups.facts import GroupDeleted, MemberEvent, RebalanceEnded
from protocol.wire.embedded import EmbeddedSubscription, encode_subscription
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    MemberIdentity,
    SyncGroupResponse,
)
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.conversation import GROUP, START_MS
from tests.protocol.groups.transcripts import ARGUMENTS, Stage, code, each

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.protocol.groups.transcripts import Command


class ClassicStage(Stage):
    """A conversation about classic groups."""

    def new_talk(self, overrides: dict[str, str]) -> ClassicTalk:
        return ClassicTalk(overrides)

    # -- commands --------------------------------------------------------------------------------

    def join(self, names: list[str], options: dict[str, str]) -> None:
        """``join A topics=a,b``: the subscription of a consumer, by the protocol range."""
        given = self.arguments(options)
        topics = given.pop("topics", None)
        if topics is not None:
            data = encode_subscription(EmbeddedSubscription(topics=topics))
            given["protocols"] = [("range", data)]
        for name in names:
            self.talk.join(name, **given)

    def sync(self, names: list[str], options: dict[str, str]) -> None:
        shares = {name: share.encode() for name, share in options.items() if name not in ARGUMENTS}
        given = {key: text for key, text in options.items() if key in ARGUMENTS}
        for name in names:
            self.talk.sync(name, shares, **self.arguments(given))

    def remove(self, names: list[str], options: dict[str, str]) -> None:
        """``remove A#1/a /b C#1/``: member id, slash, instance id; either may be empty."""
        identities = []
        for name in names:
            member_id, _, instance = name.partition("/")
            identities.append(
                MemberIdentity(
                    member_id=self.member_id(member_id),
                    group_instance_id=instance or None,
                    reason=options.get("reason"),
                )
            )
        self.talk.remove(*identities)

    def describe(self, names: list[str], options: dict[str, str]) -> None:
        self.talk.describe(names[0] if names else GROUP, **self.arguments(options))

    def list_groups(self, _: list[str], options: dict[str, str]) -> None:
        self.talk.list(
            options["states"].split(",") if "states" in options else (),
            options["types"].split(",") if "types" in options else (),
        )

    def delete(self, names: list[str], _: dict[str, str]) -> None:
        self.talk.delete(*(names or [GROUP]))

    commands: ClassVar[Mapping[str, Command]] = {
        **Stage.commands,
        "delete": delete,
        "describe": describe,
        "heartbeat": each("heartbeat"),
        "join": join,
        "leave": each("leave"),
        "list": list_groups,
        "remove": remove,
        "sync": sync,
    }

    # -- telling ---------------------------------------------------------------------------------

    def answer(self, message: Any) -> str:
        return ANSWERS[type(message)](self, message)

    def joined(self, answer: JoinGroupResponse) -> str:
        if answer.error_code is not ErrorCode.none:
            return f"JoinGroup {code(answer.error_code)} id={self.label(answer.member_id)}"
        skip = " skip-assignment" if answer.skip_assignment else ""
        members = ""
        if answer.members:
            members = " members=" + ",".join(
                self.label(each.member_id)
                + (f"/{each.group_instance_id}" if each.group_instance_id else "")
                for each in answer.members
            )
        return (
            f"JoinGroup generation={answer.generation_id} protocol={answer.protocol_name} "
            f"id={self.label(answer.member_id)} leader={self.label(answer.leader)}{skip}{members}"
        )

    def synced(self, answer: SyncGroupResponse) -> str:
        if answer.error_code is not ErrorCode.none:
            return f"SyncGroup {code(answer.error_code)}"
        return f"SyncGroup assignment={told(answer.assignment) or 'empty'}"

    def beaten(self, answer: HeartbeatResponse) -> str:
        return f"Heartbeat {code(answer.error_code)}"

    def left(self, answer: LeaveGroupResponse) -> str:
        members = " ".join(
            f"{self.label(each.member_id)}/{each.group_instance_id or ''}={code(each.error_code)}"
            for each in answer.members
        )
        return f"LeaveGroup {code(answer.error_code)} {members}".rstrip()

    def described(self, answer: DescribeGroupsResponse) -> str:
        [group] = answer.groups
        members = "".join(
            f"\n  {self.label(each.member_id)}"
            + (f"/{each.group_instance_id}" if each.group_instance_id else "")
            + f" client={each.client_id}{each.client_host}"
            f" metadata={each.member_metadata.decode() or '-'}"
            f" assignment={each.member_assignment.decode() or '-'}"
            for each in group.members
        )
        sentence = f" ({group.error_message})" if group.error_message else ""
        return (
            f"{group.group_id} {code(group.error_code)}{sentence} {group.group_state} "
            f"type={group.protocol_type or '-'} protocol={group.protocol_data or '-'}{members}"
        )

    def listed(self, answer: ListGroupsResponse) -> str:
        return "ListGroups " + (
            " ".join(
                f"{each.group_id}:{each.group_state}:{each.protocol_type}:{each.group_type}"
                for each in answer.groups
            )
            or "none"
        )

    def deleted(self, answer: DeleteGroupsResponse) -> str:
        return "DeleteGroups " + " ".join(
            f"{each.group_id}={code(each.error_code)}" for each in answer.results
        )

    def record(self, record: Any) -> str:
        name = f"{type(record.key).__name__.removesuffix('Key')}({record.key.group})"
        value = record.value
        if value is None:
            return f"{name} tombstone"
        members = ",".join(
            self.label(each.member_id)
            + (f"/{each.group_instance_id}" if each.group_instance_id else "")
            + f"={told(each.assignment)}"
            for each in value.members
        )
        return (
            f"{name} generation={value.generation} protocol={value.protocol} "
            f"leader={self.label(value.leader or '')} members=[{members}]"
        )

    def fact(self, fact: Any) -> str:
        return FACTS[type(fact)](self, fact)

    def member_event(self, fact: MemberEvent) -> str:
        words = [fact.kind, self.label(fact.member_id)]
        if fact.group_instance_id is not None:
            words.append(f"instance={fact.group_instance_id}")
        if fact.previous_member_id is not None:
            words.append(f"was={self.label(fact.previous_member_id)}")
        if fact.reason is not None:
            words.append(f"reason={fact.reason!r}")
        return " ".join(words)

    def rebalance(self, fact: RebalanceEnded) -> str:
        phases = " ".join(f"{p.name}={p.ended_ms - p.started_ms}ms" for p in fact.phases)
        reason = f" reason={fact.reason!r}" if fact.reason is not None else ""
        return (
            f"rebalance {fact.trigger} by {self.label(fact.member_id)}{reason}: {fact.outcome}, "
            f"generation {fact.generation_before} to {fact.generation_after}, {phases}"
        )

    def group_deleted(self, fact: GroupDeleted) -> str:
        return f"group deleted at {fact.time_ms - START_MS}ms"


def told(assignment: bytes) -> str:
    """An assignment, which is a text in transcripts, or that of a spare."""
    return "no-partitions" if assignment == NO_PARTITIONS else assignment.decode()


ANSWERS: Mapping[type, Callable[[ClassicStage, Any], str]] = {
    DeleteGroupsResponse: ClassicStage.deleted,
    DescribeGroupsResponse: ClassicStage.described,
    HeartbeatResponse: ClassicStage.beaten,
    JoinGroupResponse: ClassicStage.joined,
    LeaveGroupResponse: ClassicStage.left,
    ListGroupsResponse: ClassicStage.listed,
    SyncGroupResponse: ClassicStage.synced,
}
FACTS: Mapping[type, Callable[[ClassicStage, Any], str]] = {
    GroupDeleted: ClassicStage.group_deleted,
    MemberEvent: ClassicStage.member_event,
    RebalanceEnded: ClassicStage.rebalance,
}
