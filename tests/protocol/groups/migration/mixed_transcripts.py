"""Golden transcripts of groups with members of both protocols; see ``transcripts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.facts import GroupConverted, MemberEvent
from protocol.wire.embedded import decode_assignment
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.conversation import topic_id
from tests.protocol.groups.migration.mixed_talk import MixedTalk
from tests.protocol.groups.transcripts import Stage, code, each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.protocol.groups.transcripts import Command


class MixedStage(Stage):
    """A conversation in which assignors run on a worker, which works when told to."""

    tells_waiting = False

    def new_talk(self, overrides: dict[str, str]) -> MixedTalk:
        return MixedTalk(overrides, in_place=False)

    def clients(self) -> Iterable[Any]:
        return (*self.talk.classics.values(), *self.talk.clients.values())

    # -- commands --------------------------------------------------------------------------------

    def join_group(self, names: list[str], options: dict[str, str]) -> None:
        each("join_group")(self, names, options)
        self.talk.settle()

    def join(self, names: list[str], options: dict[str, str]) -> None:
        given = self.arguments({"topics": "" if "regex" in options else "a", **options})
        instance = given.pop("instance", None)
        for name in names:
            if instance is not None:
                self.talk.client(name).instance = instance
            self.talk.join(name, **given)

    def leave(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            self.talk.leave(name, int(options.get("epoch", "-1")))

    def failover(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.failover(from_compacted=True)
        self.talk.settle()

    def work(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.work()

    def list_groups(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.list()

    def describe(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.describe()
        self.talk.describe_classic()

    commands: ClassVar[Mapping[str, Command]] = {
        **Stage.commands,
        **{
            name: each(name)
            for name in ("sync_group", "heartbeat_group", "leave_group", "commit", "beat")
        },
        "describe": describe,
        "failover": failover,
        "join": join,
        "join_group": join_group,
        "leave": leave,
        "list": list_groups,
        "work": work,
    }

    # -- telling ---------------------------------------------------------------------------------

    def answer(self, message: Any) -> str:
        kind = type(message).__name__.removesuffix("Response")
        error = getattr(message, "error_code", ErrorCode.none)
        if error is not ErrorCode.none:
            return f"{kind} {code(error)}"
        told = ANSWERS.get(kind, lambda _stage, _message: "")(self, message)
        return f"{kind} {told}".rstrip()

    def record(self, record: Any) -> str:
        key, value = record.key, record.value
        name = type(key).__name__.removesuffix("Key")
        whose = getattr(key, "member_id", None)
        who = "" if whose is None else f" {self.label(whose)}"
        if value is None:
            return f"{name}{who} tombstone"
        return f"{name}{who}{self._said(name, value)}"

    def _said(self, name: str, value: Any) -> str:
        if name == "GroupMetadata":
            members = ",".join(
                f"{self.label(each.member_id)}={_partitions(each.assignment)}"
                for each in value.members
            )
            leader = self.label(value.leader or "")
            return f" generation={value.generation} leader={leader} members=[{members}]"
        if name == "ConsumerGroupMemberMetadata":
            classic = value.classic_member_metadata is not None
            return " classic" if classic else " consumer"
        if name == "ConsumerGroupMetadata":
            return f" epoch={value.epoch}"
        if name == "ConsumerGroupTargetAssignmentMetadata":
            return f" epoch={value.assignment_epoch}"
        return ""

    def fact(self, fact: Any) -> str:
        if isinstance(fact, GroupConverted):
            return f"converted to {fact.group_type} epoch={fact.epoch} members={fact.members}"
        if isinstance(fact, MemberEvent):
            return f"{fact.kind} {self.label(fact.member_id)}"
        return ""

    def joined(self, answer: Any) -> str:
        leads = " leads" if answer.leader == answer.member_id else ""
        return f"generation={answer.generation_id} id={self.label(answer.member_id)}{leads}"

    def synced(self, answer: Any) -> str:
        return f"assignment={_partitions(answer.assignment)}"

    def beaten(self, answer: Any) -> str:
        names = {topic_id(name): name for name in self.talk.topics}
        if answer.assignment is None:
            return f"epoch={answer.member_epoch}"
        owned = ",".join(
            f"{names[each.topic_id]}{index}"
            for each in answer.assignment.topic_partitions
            for index in each.partitions
        )
        return f"epoch={answer.member_epoch} assignment={owned or '-'}"

    def listed(self, answer: Any) -> str:
        return " ".join(f"{each.group_type}:{each.group_state}" for each in answer.groups)

    def described(self, answer: Any) -> str:
        [group] = answer.groups
        if group.error_code is not ErrorCode.none:
            return code(group.error_code)
        kinds = {0: "classic", 1: "consumer"}
        members = sorted(
            f"{self.label(each.member_id)}:{kinds[getattr(each, 'member_type', 0)]}"
            for each in group.members
        )
        return f"{group.group_state} {' '.join(members)}"


def _partitions(assignment: bytes) -> str:
    owned = sorted(decode_assignment(assignment) or ())
    return "+".join(f"{topic}{index}" for topic, index in owned) or "-"


ANSWERS: Mapping[str, Callable[[MixedStage, Any], str]] = {
    "JoinGroup": MixedStage.joined,
    "SyncGroup": MixedStage.synced,
    "Heartbeat": lambda _stage, _answer: "NONE",
    "ConsumerGroupHeartbeat": MixedStage.beaten,
    "ListGroups": MixedStage.listed,
    "ConsumerGroupDescribe": MixedStage.described,
    "DescribeGroups": MixedStage.described,
}
