"""Golden transcripts of streams groups; see ``mixed_transcripts``, and ``tests/transcripts``.

Tasks are written like ``0:012``: the partitions 0, 1 and 2 of the subtopology 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.facts import GroupReconciled, TargetAssigned, TopicsChanged
from protocol.groups.modern.reconcile import MemberState
from protocol.records import decode, encode
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.migration.mixed_transcripts import MixedStage
from tests.protocol.groups.streams.streams_talk import (
    StreamsTalk,
    subtopology,
    task_ids,
    tasks,
    topology,
)
from tests.protocol.groups.transcripts import code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.protocol.groups.transcripts import Command


class StreamsStage(MixedStage):
    """The same for streams groups, whose assignors run in place."""

    def new_talk(self, overrides: dict[str, str]) -> Any:
        return StreamsTalk(overrides)

    def clients(self) -> Any:
        return self.talk.clients.values()

    # -- commands --------------------------------------------------------------------------------

    def join(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "process" in options:
            fields["process_id"] = options["process"]
        if "sources" in options:
            source = subtopology(sources=options["sources"].split(","))
            fields["topology"] = topology(source, epoch=int(options["topology"]))
        for name in names:
            client = self.talk.client(name)
            client.instance = options.get("instance", client.instance)
            if "id" in options:
                client.member_id = self.member_id(options["id"])
            self.talk.join(name, **fields)

    def beat(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "epoch" in options:
            fields["epoch"] = int(options["epoch"])
        if "id" in options:
            fields["member_id"] = self.member_id(options["id"])
        if "owns" in options:
            owned = "" if options["owns"] == "-" else options["owns"]
            fields |= {
                "active_tasks": task_ids(owned),
                "standby_tasks": (),
                "warmup_tasks": (),
            }
        for name in names:
            self.talk.beat(name, **fields)

    def describe(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.describe()

    commands: ClassVar[Mapping[str, Command]] = {
        **MixedStage.commands,
        "beat": beat,
        "describe": describe,
        "join": join,
    }

    # -- telling ---------------------------------------------------------------------------------

    def answer(self, message: Any) -> str:
        kind = type(message).__name__.removesuffix("Response")
        if kind == "StreamsGroupDescribe":
            return f"{kind} {self.streams_described(message)}"
        if message.error_code is not ErrorCode.none:
            return f"{kind} {code(message.error_code)}: {message.error_message}"
        told = f"{kind} epoch={message.member_epoch}"
        if message.active_tasks is not None:
            told += f" active={tasks(message.active_tasks) or '-'}"
        told += "".join(f" status={each.status_code}" for each in message.status or ())
        return told

    def streams_described(self, answer: Any) -> str:
        [group] = answer.groups
        members = " ".join(
            f"{self.label(each.member_id)}/{each.instance_id or ''}"
            f"={tasks(each.assignment.active_tasks) or '-'}"
            for each in group.members
        )
        return f"{group.group_state} {group.group_epoch}/{group.assignment_epoch} {members or '-'}"

    def _said(self, name: str, value: Any) -> str:
        if name == "StreamsGroupMetadata":
            return f" epoch={value.epoch}"
        if name == "StreamsGroupMemberMetadata":
            return f" process={value.process_id}"
        if name == "StreamsGroupTargetAssignmentMetadata":
            return f" epoch={value.assignment_epoch}"
        return super()._said(name, value)

    def record(self, record: Any) -> str:
        told, name = super().record(record), type(record.key).__name__
        if record.value is None:
            return told
        value: Any = decode(*encode(record)).value
        if name == "StreamsGroupTargetAssignmentMemberKey":
            return f"{told} {tasks(value.active_tasks) or '-'}"
        if name == "StreamsGroupCurrentMemberAssignmentKey":
            revoking = tasks(value.active_tasks_pending_revocation)
            gives_up = f" gives up {revoking}" if revoking else ""
            state = MemberState(value.state).name
            owned = tasks(value.active_tasks) or "-"
            return f"{told} epoch={value.member_epoch} {state} {owned}{gives_up}"
        return told

    def fact(self, fact: Any) -> str:
        if isinstance(fact, TargetAssigned) and not fact.members:
            return ""  # the next fact says it
        if isinstance(fact, TargetAssigned):
            return f"target of epoch {fact.epoch_after} by {fact.assignor}"
        if isinstance(fact, TopicsChanged):
            return f"{fact.cause}: epoch {fact.epoch}"
        if isinstance(fact, GroupReconciled):
            return f"members={fact.members} have the target of epoch {fact.epoch}"
        return super().fact(fact)
