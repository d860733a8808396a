"""Golden transcripts of consumer groups; see ``mixed_transcripts``, and ``tests/transcripts``.

Records are told with what they say: what a member has, should have, has yet to give up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from protocol.groups.effects import AssignmentFailed, ComputeAssignment
from protocol.groups.facts import (
    GroupReconciled,
    TargetAssigned,
    TargetAssignmentFailed,
    TopicsChanged,
)
from protocol.groups.modern.assignment_records import read_current, read_target
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.replay import encoded
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.migration.mixed_transcripts import MixedStage
from tests.protocol.groups.transcripts import code

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.topic_numbers import Partition
    from tests.protocol.groups.transcripts import Command


class ConsumerStage(MixedStage):
    """The same for groups of consumers, with what records say."""

    # -- commands --------------------------------------------------------------------------------

    def topics(self, _: list[str], options: dict[str, str]) -> None:
        self.talk.set_topics(**{name: int(count) for name, count in options.items()})

    def beat(self, names: list[str], options: dict[str, str]) -> None:
        fields: dict[str, Any] = {}
        if "epoch" in options:
            fields["member_epoch"] = int(options["epoch"])
        if "id" in options:
            fields["member_id"] = self.member_id(options["id"])
        if "topics" in options:
            fields["subscribed_topic_names"] = tuple(options["topics"].split(","))
        if "owns" in options:  # "-" is nothing, "?" is to say nothing of it
            fields["topic_partitions"] = () if options["owns"] == "-" else None
        for name in names:
            self.talk.beat(name, **fields)

    def fail(self, names: list[str], _: dict[str, str]) -> None:
        """The run that waits comes to nothing; it may be tried again, or no worker is alive."""
        task = next(each for each in self.talk.tasks if isinstance(each, ComputeAssignment))
        self.talk.tasks.remove(task)
        failure = AssignmentFailed(
            group_id=GROUP,
            run=task.run,
            reason="it broke",
            retriable="retriable" in names,
            no_worker="no_worker" in names,
        )
        self.talk.handle(failure)
        self.talk.settle()

    def commit(self, names: list[str], options: dict[str, str]) -> None:
        at = options.get("at", "a0")
        for name in names:
            client = self.talk.client(name)
            standing = {
                "generation_id_or_member_epoch": int(options.get("epoch", client.epoch)),
                "member_id": self.member_id(options.get("id", client.member_id)),
            }
            self.talk.commit_offsets(at[0], (int(at[1:]), 7, ""), name=name, **standing)

    commands: ClassVar[Mapping[str, Command]] = {
        **MixedStage.commands,
        "beat": beat,
        "commit": commit,
        "fail": fail,
        "topics": topics,
    }

    # -- telling ---------------------------------------------------------------------------------

    def answer(self, message: Any) -> str:
        told = super().answer(message)
        if told != "OffsetCommit":
            return told
        return f"{told} {code(message.topics[0].partitions[0].error_code)}"

    def _said(self, name: str, value: Any) -> str:
        if name == "ConsumerGroupMemberMetadata":
            names, regex = value.subscribed_topic_names, value.subscribed_topic_regex
            return f" topics={','.join(names) or '-'}" + (f" regex={regex}" if regex else "")
        return super()._said(name, value)

    def record(self, record: Any) -> str:
        told = super().record(record)
        name, numbers = type(record.key).__name__, self.talk.context.numbers
        if record.value is None:
            return told
        if name == "ConsumerGroupTargetAssignmentMemberKey":
            return f"{told} {self._named(read_target(encoded(record.key, record.value), numbers))}"
        if name == "ConsumerGroupCurrentMemberAssignmentKey":
            written = encoded(record.key, record.value)
            epoch, _, state, assigned, revoking = read_current(written, numbers)
            gives_up = f" gives up {self._named(revoking)}" if revoking else ""
            return (
                f"{told} epoch={epoch} {MemberState(state).name} {self._named(assigned)}{gives_up}"
            )
        if name == "ConsumerGroupRegularExpressionKey":
            topics = ",".join(sorted(record.value.topics)) or "-"
            return f"{told} {record.key.regular_expression} matches {topics}"
        return told

    def _named(self, partitions: Iterable[Partition]) -> str:
        uuids = self.talk.context.numbers.uuids
        names = {topic_id(name): name for name in "abc"}
        named = sorted(f"{names[uuids[p >> TOPIC_SHIFT]]}{p & INDEX_MASK}" for p in partitions)
        return ",".join(named) or "-"

    def fact(self, fact: Any) -> str:
        if isinstance(fact, TargetAssigned) and not fact.members:
            return ""  # the next fact says it
        if isinstance(fact, TargetAssigned):
            where = "in place" if fact.in_place else "by a worker"
            return f"target of epoch {fact.epoch_after} by {fact.assignor}, {where}"
        if isinstance(fact, TargetAssignmentFailed):
            return f"no target of epoch {fact.epoch}: {fact.reason}"
        if isinstance(fact, TopicsChanged):
            return f"{fact.cause}: epoch {fact.epoch}"
        if isinstance(fact, GroupReconciled):
            return f"members={fact.members} have the target of epoch {fact.epoch}"
        return super().fact(fact)
