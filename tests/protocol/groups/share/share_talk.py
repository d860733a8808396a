"""A conversation with one shard about share groups, and its transcripts.

Clients and clock are those of ``consumer_talk``; a client of a share group says nothing of what it
has, and several of them may have the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol.groups.facts import TopicsChanged
from protocol.groups.modern.assignment_records import read_target
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.replay import encoded
from protocol.groups.share.records import read_current
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ListGroupsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from tests.protocol.groups.consumer.consumer_talk import GROUP, NOTHING, ConsumerTalk
from tests.protocol.groups.consumer.consumer_transcripts import ConsumerStage
from tests.protocol.groups.migration.mixed_transcripts import ANSWERS, COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID


@dataclass
class ShareTalk(ConsumerTalk):
    """One shard, the members of share groups that talk to it, and an assignor worker."""

    classics: dict[str, Any] = field(default_factory=dict)
    speakers: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.overrides = {
            "group.share.assignor.offload.enable": str(not self.in_place).lower(),
            "group.share.assignment.interval.ms": str(self.interval_ms),
            **self.overrides,
        }
        super().__post_init__()

    def ask(self, message: Any, version: int, client: str = "admin") -> Any:
        self.speakers[self.tickets + 1] = client
        return super().ask(message, version, client)

    def join(
        self,
        name: str,
        topics: Sequence[str] | None = ("a",),
        regex: str | None = None,
        **more: Any,
    ) -> Any:
        assert regex is None
        client = self.client(name)
        client.member_id = more.pop("member_id", client.member_id or f"m-{client.name}")
        client.owned = NOTHING
        names = None if topics is None else tuple(topics)
        return self.heartbeat(name, member_epoch=0, subscribed_topic_names=names, **more)

    def beat(self, name: str, **more: Any) -> Any:
        return self.heartbeat(name, **more)

    def heartbeat(self, name: str, **fields: Any) -> Any:
        client = self.client(name)
        asked = {
            "group_id": GROUP,
            "member_id": client.member_id,
            "member_epoch": client.epoch,
            "rack_id": None,
            "subscribed_topic_names": None,
            **fields,
        }
        answer = self.ask(ShareGroupHeartbeatRequest(**asked), 1, client.name)
        self._learn(client, answer)
        client.has_news = False
        return answer

    def listed(self) -> Any:
        """ListGroups of all."""
        return self.ask(ListGroupsRequest(states_filter=(), types_filter=()), 5)

    def describe(self, group: str = GROUP) -> Any:
        message = ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)
        return self.ask(message, 1, "admin").groups[0]


class ShareStage(ConsumerStage):
    """The conversation so far; assignors run on a worker, which works when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.talk: Any = ShareTalk(in_place=False)

    def commands(self) -> Mapping[str, Callable[[Any, list[str], dict[str, str]], None]]:
        return SHARE_COMMANDS

    def configs(self, _: list[str], options: dict[str, str]) -> None:
        interval = int(options.pop("group.share.assignment.interval.ms", "0"))
        self.talk = ShareTalk(options, in_place=False, interval_ms=interval)

    def beat(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "epoch" in options:
            fields["member_epoch"] = int(options["epoch"])
        if "id" in options:
            fields["member_id"] = self._id(options["id"])
        if "topics" in options:
            topics = options["topics"]
            fields["subscribed_topic_names"] = tuple(topics.split(",")) if topics else ()
        for name in names:
            self.talk.beat(name, **fields)

    def share_describe(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.describe()

    def _answer(self, ticket: int) -> str:
        message: Any = self.talk.replies[ticket].message
        kind = type(message).__name__.removesuffix("Response")
        if getattr(message, "error_code", ErrorCode.none) is ErrorCode.none:
            told = SHARE_ANSWERS.get(kind)
            if told is not None:
                return f"{self.talk.speakers[ticket]} <- {kind} {told(self, message)}".rstrip()
        elif getattr(message, "error_message", None):
            return f"{super()._answer(ticket)}: {message.error_message}"
        return super()._answer(ticket)

    def share_described(self, answer: Any) -> str:
        [group] = answer.groups
        if group.error_code is not ErrorCode.none:
            return f"{group.error_code.name.upper()}: {group.error_message}"
        members = ",".join(
            f"{self.label(each.member_id)}:{each.member_epoch}" for each in group.members
        )
        return (
            f"{group.group_state} {group.group_epoch}/{group.assignment_epoch}"
            f" {group.assignor_name} {members or '-'}"
        )

    def _said(self, name: str, value: Any) -> str:
        if name == "ShareGroupMemberMetadata":
            return f" topics={','.join(value.subscribed_topic_names)}"
        if name == "ShareGroupMetadata":
            return f" epoch={value.epoch}"
        if name == "ShareGroupTargetAssignmentMetadata":
            return f" epoch={value.assignment_epoch}"
        if name == "ShareGroupStatePartitionMetadata":
            deleting = ",".join(each.topic_name for each in value.deleting_topics)
            return (
                f" initializing={_listed(value.initializing_topics)}"
                f" initialized={_listed(value.initialized_topics)} deleting={deleting or '-'}"
            )
        return super()._said(name, value)

    def _record(self, record: Any) -> str:
        told = super()._record(record)
        name, numbers = type(record.key).__name__, self.talk.context.numbers
        if record.value is None:
            return told
        if name == "ShareGroupTargetAssignmentMemberKey":
            return f"{told} {self._named(read_target(encoded(record.key, record.value), numbers))}"
        if name == "ShareGroupCurrentMemberAssignmentKey":
            written = encoded(record.key, record.value)
            epoch, _, state, assigned, _ = read_current(written, numbers)
            return f"{told} epoch={epoch} {MemberState(state).name} {self._named(assigned)}"
        return told

    def _fact(self, fact: Any) -> str:
        if isinstance(fact, TopicsChanged):
            return f"{fact.cause}: epoch {fact.epoch}"
        return super()._fact(fact)


def _listed(rows: Iterable[Any]) -> str:
    told = [f"{row.topic_name}{index}" for row in rows for index in row.partitions]
    return ",".join(sorted(told)) or "-"


def state_of(group: Any) -> tuple[dict[UUID, Any], dict[UUID, Any], dict[UUID, str]]:
    """What a group knows of share state: initializing, initialized, deleting."""
    state = group.state_topics
    return dict(state.initializing), dict(state.initialized), dict(state.deleting)


SHARE_ANSWERS: Mapping[str, Callable[[Any, Any], str]] = {
    "ShareGroupHeartbeat": ANSWERS["ConsumerGroupHeartbeat"],
    "ShareGroupDescribe": ShareStage.share_described,
}
SHARE_COMMANDS: Mapping[str, Callable[[Any, list[str], dict[str, str]], None]] = {
    **COMMANDS,
    "beat": ShareStage.beat,
    "configs": ShareStage.configs,
    "describe": ShareStage.share_describe,
    "group_configs": ShareStage.group_configs,
    "join": ShareStage.join,
    "topics": ShareStage.topics,
}
