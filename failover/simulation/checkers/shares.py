"""Check at every answer what members of share groups are assigned (KIP-932).

Several members may have a partition, so nobody owns one. But each is told only partitions whose
share state is initialized, of topics to which it subscribes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from failover.simulation.event_log import Violation
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer

NEVER: Final = -1
GONE: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


@dataclass(slots=True, eq=False)
class ObservedSharer:
    """A member as seen in its messages.

    ``told`` are the topics that it said it subscribes to, with when; ``since`` when the last
    request was sent whose answer confirmed one. ``epoch`` is its highest epoch since it joined,
    with when it was told. ``fenced_at`` is when an epoch was refused, until it joins again.
    """

    told: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    confirmed: tuple[int, frozenset[str]] = (NEVER, frozenset())
    epoch: int = 0
    epoch_at: int = NEVER
    fenced_at: int = NEVER
    fenced_epoch: int = 0


class ShareAssignments:
    """Follows the members of all share groups."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], ObservedSharer] = {}
        self._epochs: dict[str, list[tuple[int, int]]] = {}

    def forget(self) -> None:
        """Note that all groups are gone."""
        self._members.clear()
        self._epochs.clear()

    def asked(self, message: Any, now: int) -> None:
        """Note what a member says."""
        member = self._member(message)
        if message.subscribed_topic_names is not None:
            member.told.append((now, frozenset(message.subscribed_topic_names)))
        if message.member_epoch == 0:
            member.fenced_at = NEVER

    def _member(self, message: Any) -> ObservedSharer:
        return self._members.setdefault((message.group_id, message.member_id), ObservedSharer())

    def answered(self, process: Process, answer: SentAnswer, now: int) -> None:
        """Check what a member is told."""
        message, response = answer.message, answer.response
        member = self._member(message)
        if response.error_code in GONE and message.member_epoch > 0:
            member.fenced_at, member.fenced_epoch = now, message.member_epoch
        if response.error_code is not ErrorCode.none or message.member_epoch < 0:
            return
        self._has_not_lost_its_place(member, answer)
        self._epoch_grows(member, answer, now)
        self._confirm(member, answer)
        if response.assignment is not None:
            for topic in response.assignment.topic_partitions:
                self._may_have(process, member, answer, topic)

    def _has_not_lost_its_place(self, member: ObservedSharer, answer: SentAnswer) -> None:
        """Check that a fenced member is fenced until it joins again."""
        epoch = answer.message.member_epoch
        if 0 < epoch == member.fenced_epoch and NEVER < member.fenced_at < answer.asked_at:
            raise Violation(
                f"{answer.message.member_id} is answered OK in epoch {epoch}, in which it had been"
                " fenced",
                answer.message.group_id,
            )

    def _epoch_grows(self, member: ObservedSharer, answer: SentAnswer, now: int) -> None:
        """Check that epochs only grow: a member's own, and the group's as members see it."""
        group_id, epoch = answer.message.group_id, answer.response.member_epoch
        if epoch < member.epoch and member.epoch_at < answer.asked_at:
            raise Violation(
                f"{answer.message.member_id} is told epoch {epoch}, after epoch {member.epoch}",
                group_id,
            )
        if epoch > member.epoch:
            member.epoch, member.epoch_at = epoch, now
        epochs = self._epochs.setdefault(group_id, [])
        if answer.message.member_epoch == 0:
            highest = next((each for at, each in reversed(epochs) if at < answer.asked_at), 0)
            if epoch < highest:
                raise Violation(
                    f"{answer.message.member_id} joins in epoch {epoch}, when {highest} had been"
                    " told before",
                    group_id,
                )
        if not epochs or epoch > epochs[-1][1]:
            epochs.append((now, epoch))

    def _confirm(self, member: ObservedSharer, answer: SentAnswer) -> None:
        """Note that the group knows what this request said."""
        topics = answer.message.subscribed_topic_names
        if topics is not None and answer.asked_at >= member.confirmed[0]:
            member.confirmed = (answer.asked_at, frozenset(topics))
            member.told = [each for each in member.told if each[0] >= answer.asked_at]

    def _may_have(
        self, process: Process, member: ObservedSharer, answer: SentAnswer, topic: Any
    ) -> None:
        """Check that a topic's partitions are initialized, and that the member subscribes to it."""
        group_id, member_id = answer.message.group_id, answer.message.member_id
        host = process.host
        known = None if host is None else host.view.catalog.topics.by_id(topic.topic_id)
        if known is None:
            return  # it was deleted meanwhile
        subscribed = member.confirmed[1].union(*(topics for _, topics in member.told))
        if known.name not in subscribed:
            raise Violation(
                f"{member_id} is told that it has {known.name}, and subscribes to"
                f" {sorted(subscribed)}",
                group_id,
            )
        group = process.group(group_id)
        state = None if group is None else group.state_topics.initialized.get(topic.topic_id)
        ready = frozenset() if state is None else state.partitions
        if not ready >= set(topic.partitions):
            raise Violation(
                f"{member_id} is told that it has {known.name} {sorted(topic.partitions)}, of which"
                f" {sorted(ready)} are initialized",
                group_id,
            )
