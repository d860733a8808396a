"""Golden transcripts: a conversation with a group as a text file, commands and their outcome.

A block is one command per line, a line of dashes, and what came of them. Member ids are written as
``A#1``: the first id that client A was given. See ``tests/transcripts/README.md``.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Protocol

from protocol.groups.facts import GroupDeleted, MemberEvent, RebalanceEnded
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
from tests.protocol.groups.talk import GROUP, START_MS, Talk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RULE = "----"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class Player(Protocol):
    """Runs the commands of a transcript, one after the other."""

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""


def play(text: str, player: Player | None = None) -> str:
    """Replay a transcript: the same comments and commands, with their current output."""
    stage = player or Stage()
    played = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        lines = block.split("\n")
        commands = lines[: lines.index(RULE)] if RULE in lines else lines
        if all(line.startswith("#") for line in commands):
            played.append(block)
            continue
        outcome = [
            each for line in commands if not line.startswith("#") for each in stage.run(line)
        ]
        played.append("\n".join([*commands, RULE, *outcome]))
    return "\n\n".join(played) + "\n"


def milliseconds(text: str) -> int:
    """Read ``3s``, ``250ms``, ``5m``."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    assert match, f"not a duration: {text}"
    return int(match[1]) * UNITS[match[2]]


class Stage:
    """The conversation so far, and the names of the ids in it."""

    def __init__(self) -> None:
        self.talk = Talk()
        self.labels: dict[str, str] = {}
        self.told = 0
        self.logged = 0
        self.seen = 0
        self.mentioned = 0
        self.speakers: dict[int, str] = {}

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""
        words = shlex.split(line)
        names = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        COMMANDS[words[0]](self, names, options)
        return self._news()

    # -- commands --------------------------------------------------------------------------------

    def configs(self, _: list[str], options: dict[str, str]) -> None:
        self.talk = Talk(options)

    def join(self, names: list[str], options: dict[str, str]) -> None:
        arguments: dict[str, Any] = {}
        if "instance" in options:
            arguments["instance"] = options["instance"] or None
        if "id" in options:
            arguments["member_id"] = self._id(options["id"])
        if "version" in options:
            arguments["version"] = int(options["version"])
        if "protocols" in options:
            arguments["protocols"] = [each for each in options["protocols"].split(",") if each]
        for name, argument in (("session", "session_ms"), ("rebalance", "rebalance_ms")):
            if name in options:
                arguments[argument] = milliseconds(options[name])
        for name, argument in (("type", "protocol_type"), ("reason", "reason"), ("group", "group")):
            if name in options:
                arguments[argument] = options[name]
        for name in names:
            self.talk.join(name, **arguments)
            self._speaks(name)

    def sync(self, names: list[str], options: dict[str, str]) -> None:
        arguments: dict[str, Any] = {}
        shares = {}
        for key, value in options.items():
            if key == "generation":
                arguments["generation"] = int(value)
            elif key == "id":
                arguments["member_id"] = self._id(value)
            elif key == "instance":
                arguments["instance"] = value or None
            elif key in ("protocol_name", "protocol_type"):
                arguments[key] = value or None
            elif key == "version":
                arguments["version"] = int(value)
            else:
                shares[key] = value.encode()
        for name in names:
            self.talk.sync(name, shares, **arguments)
            self._speaks(name)

    def heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        arguments: dict[str, Any] = {}
        if "generation" in options:
            arguments["generation"] = int(options["generation"])
        if "id" in options:
            arguments["member_id"] = self._id(options["id"])
        if "instance" in options:
            arguments["instance"] = options["instance"] or None
        for name in names:
            self.talk.heartbeat(name, **arguments)
            self._speaks(name)

    def leave(self, names: list[str], options: dict[str, str]) -> None:
        arguments: dict[str, Any] = {}
        if "id" in options:
            arguments["member_id"] = self._id(options["id"])
        if "instance" in options:
            arguments["instance"] = options["instance"] or None
        if "reason" in options:
            arguments["reason"] = options["reason"]
        for name in names:
            self.talk.leave(name, **arguments)
            self._speaks(name)

    def remove(self, names: list[str], options: dict[str, str]) -> None:
        """``remove A#1/a /b C#1/``: member id, slash, instance id; either may be empty."""
        identities = []
        for name in names:
            member_id, _, instance = name.partition("/")
            identities.append(
                MemberIdentity(
                    member_id=self._id(member_id),
                    group_instance_id=instance or None,
                    reason=options.get("reason"),
                )
            )
        self.talk.remove(*identities)
        self._speaks("admin")

    def advance(self, names: list[str], _: dict[str, str]) -> None:
        self.talk.advance(milliseconds(names[0]))

    def failover(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.failover()

    def describe(self, names: list[str], options: dict[str, str]) -> None:
        self.talk.describe(names[0] if names else GROUP, int(options.get("version", "6")))
        self._speaks("admin")

    def list(self, _: list[str], options: dict[str, str]) -> None:
        self.talk.list(
            options["states"].split(",") if "states" in options else (),
            options["types"].split(",") if "types" in options else (),
        )
        self._speaks("admin")

    def delete(self, names: list[str], _: dict[str, str]) -> None:
        self.talk.delete(*(names or [GROUP]))
        self._speaks("admin")

    # -- telling -----------------------------------------------------------------------------------

    def _speaks(self, name: str) -> None:
        self.speakers[self.talk.tickets] = name

    def _id(self, label: str) -> str:
        """The member id of a label; anything else stands for itself."""
        for member_id, known in self.labels.items():
            if known == label:
                return member_id
        return "" if label == "none" else label

    def _label(self, member_id: str) -> str:
        return self.labels.get(member_id, member_id or "none")

    def _learn(self, facts: list[Any]) -> None:
        """Label the ids that members were given since: ``A#1`` is the first one of client A."""
        for fact in facts:
            if isinstance(fact, MemberEvent) and fact.kind in ("joined", "replaced"):
                self._add_label(fact.member_id, fact.client_id)
        for client in self.talk.clients.values():
            if "-" in client.member_id:
                self._add_label(client.member_id, client.name)

    def _add_label(self, member_id: str, name: str) -> None:
        if member_id not in self.labels:
            count = sum(label.startswith(f"{name}#") for label in self.labels.values())
            self.labels[member_id] = f"{name}#{count + 1}"

    def _news(self) -> list[str]:
        answered = list(self.talk.replies)[self.seen :]
        facts = self.talk.facts[self.told :]
        self._learn(facts)
        records = self.talk.records[self.logged :]
        self.seen += len(answered)
        self.told += len(facts)
        self.logged += len(records)
        asked = range(self.mentioned + 1, self.talk.tickets + 1)
        self.mentioned = self.talk.tickets
        lines = [f"{self.speakers[each]} waits" for each in asked if each in self.talk.parked]
        lines += [self._answer(ticket) for ticket in answered]
        lines += [f"  record {self._record(record)}" for record in records]
        lines += [f"  fact {self._fact(fact)}" for fact in facts]
        return lines or ["nothing"]

    def _answer(self, ticket: int) -> str:
        message: Any = self.talk.answer(ticket)
        return f"{self.speakers[ticket]} <- {ANSWERS[type(message)](self, message)}"

    def _code(self, code: int) -> str:
        return ErrorCode(code).name.upper()

    def joined(self, answer: JoinGroupResponse) -> str:
        if answer.error_code is not ErrorCode.none:
            return f"JoinGroup {self._code(answer.error_code)} id={self._label(answer.member_id)}"
        skip = " skip-assignment" if answer.skip_assignment else ""
        members = ""
        if answer.members:
            members = " members=" + ",".join(
                self._label(each.member_id)
                + (f"/{each.group_instance_id}" if each.group_instance_id else "")
                for each in answer.members
            )
        return (
            f"JoinGroup generation={answer.generation_id} protocol={answer.protocol_name} "
            f"id={self._label(answer.member_id)} leader={self._label(answer.leader)}{skip}{members}"
        )

    def synced(self, answer: SyncGroupResponse) -> str:
        if answer.error_code is not ErrorCode.none:
            return f"SyncGroup {self._code(answer.error_code)}"
        return f"SyncGroup assignment={answer.assignment.decode() or 'empty'}"

    def beaten(self, answer: HeartbeatResponse) -> str:
        return f"Heartbeat {self._code(answer.error_code)}"

    def left(self, answer: LeaveGroupResponse) -> str:
        members = " ".join(
            f"{self._label(each.member_id)}/{each.group_instance_id or ''}="
            f"{self._code(each.error_code)}"
            for each in answer.members
        )
        return f"LeaveGroup {self._code(answer.error_code)} {members}".rstrip()

    def described(self, answer: DescribeGroupsResponse) -> str:
        [group] = answer.groups
        members = "".join(
            f"\n  {self._label(each.member_id)}"
            + (f"/{each.group_instance_id}" if each.group_instance_id else "")
            + f" client={each.client_id}{each.client_host}"
            f" metadata={each.member_metadata.decode() or '-'}"
            f" assignment={each.member_assignment.decode() or '-'}"
            for each in group.members
        )
        sentence = f" ({group.error_message})" if group.error_message else ""
        return (
            f"{group.group_id} {self._code(group.error_code)}{sentence} {group.group_state} "
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
            f"{each.group_id}={self._code(each.error_code)}" for each in answer.results
        )

    def _record(self, record: Any) -> str:
        name = f"{type(record.key).__name__.removesuffix('Key')}({record.key.group})"
        value = record.value
        if value is None:
            return f"{name} tombstone"
        members = ",".join(
            self._label(each.member_id)
            + (f"/{each.group_instance_id}" if each.group_instance_id else "")
            + f"={each.assignment.decode()}"
            for each in value.members
        )
        return (
            f"{name} generation={value.generation} protocol={value.protocol} "
            f"leader={self._label(value.leader or '')} members=[{members}]"
        )

    def _fact(self, fact: Any) -> str:
        return FACTS[type(fact)](self, fact)

    def member_event(self, fact: MemberEvent) -> str:
        words = [fact.kind, self._label(fact.member_id)]
        if fact.group_instance_id is not None:
            words.append(f"instance={fact.group_instance_id}")
        if fact.previous_member_id is not None:
            words.append(f"was={self._label(fact.previous_member_id)}")
        if fact.reason is not None:
            words.append(f"reason={fact.reason!r}")
        return " ".join(words)

    def rebalance(self, fact: RebalanceEnded) -> str:
        phases = " ".join(f"{p.name}={p.ended_ms - p.started_ms}ms" for p in fact.phases)
        reason = f" reason={fact.reason!r}" if fact.reason is not None else ""
        return (
            f"rebalance {fact.trigger} by {self._label(fact.member_id)}{reason}: {fact.outcome}, "
            f"generation {fact.generation_before} to {fact.generation_after}, {phases}"
        )

    def group_deleted(self, fact: GroupDeleted) -> str:
        return f"group deleted at {fact.time_ms - START_MS}ms"


COMMANDS: Mapping[str, Callable[[Stage, list[str], dict[str, str]], None]] = {
    "advance": Stage.advance,
    "configs": Stage.configs,
    "delete": Stage.delete,
    "describe": Stage.describe,
    "failover": Stage.failover,
    "heartbeat": Stage.heartbeat,
    "join": Stage.join,
    "leave": Stage.leave,
    "list": Stage.list,
    "remove": Stage.remove,
    "sync": Stage.sync,
}
ANSWERS: Mapping[type, Callable[[Stage, Any], str]] = {
    DeleteGroupsResponse: Stage.deleted,
    DescribeGroupsResponse: Stage.described,
    HeartbeatResponse: Stage.beaten,
    JoinGroupResponse: Stage.joined,
    LeaveGroupResponse: Stage.left,
    ListGroupsResponse: Stage.listed,
    SyncGroupResponse: Stage.synced,
}
FACTS: Mapping[type, Callable[[Stage, Any], str]] = {
    GroupDeleted: Stage.group_deleted,
    MemberEvent: Stage.member_event,
    RebalanceEnded: Stage.rebalance,
}
