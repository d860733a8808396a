"""Golden transcripts of groups with members of both protocols; see ``transcripts``.

Member ids are written as the client's name and the number of its id, ``A#1``.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from protocol.groups.facts import GroupConverted, MemberEvent
from protocol.wire.embedded import decode_assignment
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import topic_id
from tests.protocol.groups.migration.mixed_talk import MixedTalk
from tests.protocol.groups.transcripts import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class TellingTalk(MixedTalk):
    """Knows who sent each request."""

    def __post_init__(self) -> None:
        self.speakers: dict[int, str] = {}
        super().__post_init__()

    def ask(self, message: Any, version: int, client: str = "admin") -> Any:
        self.speakers[self.tickets + 1] = client
        return super().ask(message, version, client)


class MixedStage:
    """The conversation so far; assignors run on a worker, which works when told to."""

    def __init__(self) -> None:
        self.talk = TellingTalk(in_place=False)
        self.labels: dict[str, str] = {}
        self.seen = self.logged = self.told = 0

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""
        command, *words = shlex.split(line)
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        self.commands()[command](self, names, options)
        return self._news()

    def commands(self) -> Mapping[str, Callable[[Any, list[str], dict[str, str]], None]]:
        return COMMANDS

    # -- commands --------------------------------------------------------------------------------

    def configs(self, _: list[str], options: dict[str, str]) -> None:
        interval = int(options.pop("group.consumer.assignment.interval.ms", "0"))
        self.talk = TellingTalk(options, in_place=False, interval_ms=interval)

    def join_group(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "topics" in options:
            fields["topics"] = tuple(options["topics"].split(","))
        if "instance" in options:
            fields["instance"] = options["instance"]
        if options.get("id") == "none":
            fields["member_id"] = ""
        if "protocol" in options:
            fields["protocol"] = options["protocol"]
        for name in names:
            self.talk.join_group(name, **fields)
        self.talk.settle()

    def join(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            if "instance" in options:
                self.talk.client(name).instance = options["instance"]
            self.talk.join(name, options.get("topics", "a").split(","))

    def leave(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            self.talk.leave(name, int(options.get("epoch", "-1")))

    def advance(self, names: list[str], _: dict[str, str]) -> None:
        self.talk.advance(milliseconds(names[0]))

    def failover(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.failover(from_compacted=True)
        self.talk.settle()

    def work(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.work()

    def list(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.listed()

    def describe(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.describe()
        self.talk.describe_classic()

    # -- telling ---------------------------------------------------------------------------------

    def _news(self) -> list[str]:
        talk = self.talk
        answered = list(talk.replies)[self.seen :]
        records, facts = talk.records[self.logged :], talk.facts[self.told :]
        self.seen += len(answered)
        self.logged += len(records)
        self.told += len(facts)
        self._learn()
        lines = [self._answer(ticket) for ticket in answered]
        lines += [f"  record {self._record(each)}" for each in records]
        lines += [f"  fact {text}" for text in map(self._fact, facts) if text]
        return lines or ["nothing"]

    def _learn(self) -> None:
        for client in (*self.talk.classics.values(), *self.talk.clients.values()):
            member_id = client.member_id
            if member_id and member_id not in self.labels:
                count = sum(label.startswith(f"{client.name}#") for label in self.labels.values())
                self.labels[member_id] = f"{client.name}#{count + 1}"

    def label(self, member_id: str) -> str:
        return self.labels.get(member_id, member_id or "none")

    def _answer(self, ticket: int) -> str:
        message: Any = self.talk.replies[ticket].message
        kind = type(message).__name__.removesuffix("Response")
        speaker = self.talk.speakers[ticket]
        code = getattr(message, "error_code", ErrorCode.none)
        if code is not ErrorCode.none:
            return f"{speaker} <- {kind} {code.name.upper()}"
        told = ANSWERS.get(kind, lambda _stage, _message: "")(self, message)
        return f"{speaker} <- {kind} {told}".rstrip()

    def _record(self, record: Any) -> str:
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

    def _fact(self, fact: Any) -> str:
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
        code = group.error_code
        if code is not ErrorCode.none:
            return code.name.upper()
        kinds = {0: "classic", 1: "consumer"}
        members = sorted(
            f"{self.label(each.member_id)}:{kinds[getattr(each, 'member_type', 0)]}"
            for each in group.members
        )
        return f"{group.group_state} {' '.join(members)}"


def _partitions(assignment: bytes) -> str:
    owned = sorted(decode_assignment(assignment) or ())
    return "+".join(f"{topic}{index}" for topic, index in owned) or "-"


def _each(name: str) -> Callable[[MixedStage, list[str], dict[str, str]], None]:
    """A command that is the same method of the talk, for each client that is named."""

    def command(stage: MixedStage, names: list[str], _: dict[str, str]) -> None:
        for each in names:
            getattr(stage.talk, name)(each)

    return command


COMMANDS: Mapping[str, Callable[[MixedStage, list[str], dict[str, str]], None]] = {
    "configs": MixedStage.configs,
    "join_group": MixedStage.join_group,
    "sync_group": _each("sync_group"),
    "heartbeat_group": _each("heartbeat_group"),
    "leave_group": _each("leave_group"),
    "commit": _each("commit"),
    "join": MixedStage.join,
    "beat": _each("beat"),
    "leave": MixedStage.leave,
    "work": MixedStage.work,
    "advance": MixedStage.advance,
    "failover": MixedStage.failover,
    "list": MixedStage.list,
    "describe": MixedStage.describe,
}
ANSWERS: Mapping[str, Callable[[MixedStage, Any], str]] = {
    "JoinGroup": MixedStage.joined,
    "SyncGroup": MixedStage.synced,
    "Heartbeat": lambda _stage, _answer: "NONE",
    "ConsumerGroupHeartbeat": MixedStage.beaten,
    "ListGroups": MixedStage.listed,
    "ConsumerGroupDescribe": MixedStage.described,
    "DescribeGroups": MixedStage.described,
}
