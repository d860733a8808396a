"""Check that no acknowledged share state is lost or rolled back, and that old epochs are fenced.

The share state of a partition is a register: its start offset. An answer counts from when a node
sends it. A write whose answer is unknown may be applied at any later time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from failover.simulation.event_log import Violation
from failover.simulation.kinds import SHARE_STATE
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World

OK: Final = ErrorCode.none
NEVER: Final = 1 << 62
UNINITIALIZED: Final = -1


@dataclass(slots=True)
class WrittenOffset:
    """A start offset: when it was first asked for, and since when it is known to be applied."""

    asked: int
    done: int = NEVER


@dataclass(frozen=True, slots=True)
class SeenEpoch:
    """An epoch that was accepted: by a request of then, and in force since then."""

    epoch: int
    asked: int
    done: int


@dataclass(slots=True, eq=False)
class ShareRegister:
    """The share state of one partition in one group, as its client knows it.

    ``starts`` are the times at which a request came that starts it again, with leader epoch 0.
    """

    offsets: dict[int, WrittenOffset] = field(default_factory=dict)
    state_epochs: list[SeenEpoch] = field(default_factory=list)
    leader_epochs: list[SeenEpoch] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class ShareStateChecker:
    """Checks answers about share state of the groups of ``ShareStateClient``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._registers: dict[tuple[str, UUID, int], ShareRegister] = {}

    def _register(self, group_id: str, topic: Any, row: Any) -> ShareRegister:
        key = (group_id, topic.topic_id, row.partition)
        return self._registers.setdefault(key, ShareRegister())

    def asked(self, message: Entity) -> None:
        """Note what a request that reached a node may change."""
        if not isinstance(message, CHANGES) or message.group_id not in SHARE_STATE:
            return
        for topic in message.topics:
            for row in topic.partitions:
                register = self._register(message.group_id, topic, row)
                now = self._world.now
                register.offsets.setdefault(row.start_offset, WrittenOffset(now))
                if isinstance(message, m.InitializeShareGroupStateRequest):
                    register.starts.append(now)

    def answered(self, answer: SentAnswer) -> None:
        """Check an answer."""
        message: Any = answer.message
        check = CHECKS.get(type(message))
        if check is None or message.group_id not in SHARE_STATE:
            return
        for asked, told in zip(message.topics, answer.response.results, strict=True):
            for row, result in zip(asked.partitions, told.partitions, strict=True):
                if result.error_code is OK:
                    register = self._register(message.group_id, asked, row)
                    if why := check(self, register, row, result, answer.asked_at):
                        raise Violation(f"partition {row.partition}: {why}", message.group_id)

    def settled(self, group_id: str, topic_id: UUID, partition: int, start_offset: int) -> None:
        """Check the state that the leader has when everything is at rest."""
        register = self._registers.get((group_id, topic_id, partition))
        if register is not None and (why := self._is_newest(register, start_offset, NEVER - 1)):
            raise Violation(f"partition {partition}: {why}", group_id)

    def known(self) -> Iterable[tuple[str, UUID, int]]:
        """Return the partitions of which some share state was acknowledged."""
        for key, register in self._registers.items():
            if any(each.done < NEVER for each in register.offsets.values()):
                yield key

    # --- by request

    def _initialized(self, register: ShareRegister, row: Any, _: Any, asked_at: int) -> str:
        why = self._is_not_fenced(register, row.state_epoch, asked_at)
        self._applied(register, row.start_offset)
        register.state_epochs.append(SeenEpoch(row.state_epoch, asked_at, self._world.now))
        return why

    def _written(self, register: ShareRegister, row: Any, _: Any, asked_at: int) -> str:
        why = self._is_not_fenced(register, row.state_epoch, asked_at)
        why = why or self._is_led(register, row.leader_epoch, asked_at)
        self._applied(register, row.start_offset)
        return why

    def _read(self, register: ShareRegister, row: Any, result: Any, asked_at: int) -> str:
        why = self._is_led(register, row.leader_epoch, asked_at)
        why = why or self._summarized(register, row, result, asked_at)
        seen = SeenEpoch(row.leader_epoch, asked_at, self._world.now)
        register.leader_epochs.append(seen)
        return why

    def _summarized(self, register: ShareRegister, _: Any, result: Any, asked_at: int) -> str:
        why = self._is_newest(register, result.start_offset, asked_at)
        if result.start_offset != UNINITIALIZED:
            why = why or self._is_not_fenced(register, result.state_epoch, asked_at)
            self._applied(register, result.start_offset)
        return why

    # --- rules

    def _applied(self, register: ShareRegister, start_offset: int) -> None:
        written = register.offsets.get(start_offset)
        if written is not None:
            written.done = min(written.done, self._world.now)

    def _is_newest(self, register: ShareRegister, start_offset: int, asked_at: int) -> str:
        """Return why an answer cannot be what was written last; empty if it can."""
        found = register.offsets.get(start_offset)
        if found is None and start_offset != UNINITIALIZED:
            return f"start offset {start_offset} was never written"
        applied = -1 if found is None else found.done
        for offset, other in register.offsets.items():
            if applied < other.asked and other.done < asked_at:
                return (
                    f"start offset {start_offset} is told, when {offset} had been written after it"
                )
        return ""

    def _is_not_fenced(self, register: ShareRegister, epoch: int, asked_at: int) -> str:
        """Return which newer state epoch had been accepted before."""
        for seen in register.state_epochs:
            if epoch < seen.epoch and seen.done < asked_at:
                return f"state epoch {epoch} is accepted, after {seen.epoch} had been"
        return ""

    def _is_led(self, register: ShareRegister, epoch: int, asked_at: int) -> str:
        """Return which newer leader epoch had been accepted before, and not ended since."""
        for seen in register.leader_epochs:
            if epoch < seen.epoch and seen.done < asked_at:
                is_over = any(at >= seen.asked - LATE_MS for at in register.starts)
                if not is_over:
                    return f"leader epoch {epoch} is accepted, after {seen.epoch} had been"
        return ""


LATE_MS: Final = 30_000
"""A request to initialize share state may take effect this long after it reached a node."""

CHANGES: Final = (m.InitializeShareGroupStateRequest, m.WriteShareGroupStateRequest)

CHECKS: Final[Mapping[type, Callable[[ShareStateChecker, ShareRegister, Any, Any, int], str]]] = {
    m.InitializeShareGroupStateRequest: ShareStateChecker._initialized,
    m.WriteShareGroupStateRequest: ShareStateChecker._written,
    m.ReadShareGroupStateRequest: ShareStateChecker._read,
    m.ReadShareGroupStateSummaryRequest: ShareStateChecker._summarized,
}
