"""Golden transcripts of share groups; see ``consumer_transcripts``, and ``tests/transcripts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.modern.assignment_records import read_target
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.replay import encoded
from protocol.groups.share.records import read_current
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_transcripts import ConsumerStage
from tests.protocol.groups.conversation import topic_id
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.transcripts import code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.protocol.groups.transcripts import Command


class ShareStage(ConsumerStage):
    """The same for share groups, with the message of an error and what members have."""

    def new_talk(self, overrides: dict[str, str]) -> Any:
        return ShareTalk(overrides, in_place=False)

    def clients(self) -> Iterable[Any]:
        return self.talk.clients.values()

    # -- commands --------------------------------------------------------------------------------

    def beat(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "epoch" in options:
            fields["member_epoch"] = int(options["epoch"])
        if "id" in options:
            fields["member_id"] = self.member_id(options["id"])
        if "topics" in options:
            topics = options["topics"]
            fields["subscribed_topic_names"] = tuple(topics.split(",")) if topics else ()
        for name in names:
            self.talk.beat(name, **fields)

    def describe(self, _: list[str], __: dict[str, str]) -> None:
        self.talk.describe()

    commands: ClassVar[Mapping[str, Command]] = {
        **ConsumerStage.commands,
        "beat": beat,
        "describe": describe,
    }

    # -- telling ---------------------------------------------------------------------------------

    def answer(self, message: Any) -> str:
        if getattr(message, "error_code", ErrorCode.none) is not ErrorCode.none:
            told, why = super().answer(message), getattr(message, "error_message", None)
            return f"{told}: {why}" if why else told
        kind = type(message).__name__.removesuffix("Response")
        answer = SHARE_ANSWERS.get(kind)
        return super().answer(message) if answer is None else f"{kind} {answer(self, message)}"

    def share_described(self, answer: Any) -> str:
        [group] = answer.groups
        if group.error_code is not ErrorCode.none:
            return f"{code(group.error_code)}: {group.error_message}"
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

    def record(self, record: Any) -> str:
        told = super().record(record)
        name, numbers = type(record.key).__name__, self.talk.context.numbers
        if name in {"ShareSnapshotKey", "ShareUpdateKey"}:
            names = {topic_id(each): each for each in "abc"}
            told += f" {names[record.key.topic_id]}{record.key.partition}"
            return told if record.value is None else f"{told} start={record.value.start_offset}"
        if record.value is None:
            return told
        if name == "ShareGroupTargetAssignmentMemberKey":
            return f"{told} {self._named(read_target(encoded(record.key, record.value), numbers))}"
        if name == "ShareGroupCurrentMemberAssignmentKey":
            written = encoded(record.key, record.value)
            epoch, _, state, assigned, _ = read_current(written, numbers)
            return f"{told} epoch={epoch} {MemberState(state).name} {self._named(assigned)}"
        return told


def _listed(rows: Iterable[Any]) -> str:
    told = [f"{row.topic_name}{index}" for row in rows for index in row.partitions]
    return ",".join(sorted(told)) or "-"


SHARE_ANSWERS: Mapping[str, Callable[[Any, Any], str]] = {
    "ShareGroupHeartbeat": ConsumerStage.beaten,
    "ShareGroupDescribe": ShareStage.share_described,
}
