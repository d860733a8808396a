"""The states of a classic group, and the soft half of a group that rebalances.

What is shown as the state is derived: while a :class:`Rebalance` is under way its phase is the
state; otherwise the last persisted generation decides, Stable with members and Empty without.

======================== ==================== =====================================================
state                    goes to              when
======================== ==================== =====================================================
Empty                    PreparingRebalance   a member joins
Empty                    (gone)               DeleteGroups, or its last offset expired
PreparingRebalance       CompletingRebalance  every member has joined, or the rebalance timeout
PreparingRebalance       Empty                every member is gone
CompletingRebalance      Stable               the leader's SyncGroup brings the assignment
CompletingRebalance      PreparingRebalance   a member joins again, changes its protocols, leaves,
                                              expires, or does not sync in time
Stable                   PreparingRebalance   the same, or the leader joins again
======================== ==================== =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.groups.facts import MemberEvent, RebalanceTrigger
    from protocol.records import GroupMetadataValue


class ClassicGroupState(StrEnum):
    """A state as Kafka spells it on the wire."""

    EMPTY = "Empty"
    """No members; lingers until its offsets have expired.

    JoinGroup from a new member is taken; from a member id nobody knows: UNKNOWN_MEMBER_ID, as for
    SyncGroup, Heartbeat and LeaveGroup. Commits without a generation are taken.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are awaited; their JoinGroup requests are parked.

    Heartbeat and SyncGroup: REBALANCE_IN_PROGRESS. LeaveGroup removes at once. Commits of the
    last generation are taken.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has begun and the leader's assignment is awaited; SyncGroup is parked.

    Heartbeat succeeds. Commits: REBALANCE_IN_PROGRESS. JoinGroup with unchanged protocols gets the
    generation again.
    """

    STABLE = "Stable"
    """Every member may fetch its assignment; heartbeats and commits succeed."""

    DEAD = "Dead"
    """Shown by DescribeGroups for a group that does not exist; no group is ever in it."""


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """A rebalance under way; soft, written by ``rebalance.py`` and ``join.py`` only.

    ``trigger`` and ``event`` say why it began: what happened, to which member, for which reason of
    the client's (KIP-800).

    ``is_initial``: the group was Empty, so members get ``group.initial.rebalance.delay.ms`` to
    show up; each stretch in which somebody new came (``has_new_member``) is followed by another, as
    long as ``remaining_ms`` of the first member's rebalance timeout lasts. ``before`` is the hard
    state it began from; nothing is persisted until it ends.
    """

    trigger: RebalanceTrigger
    event: MemberEvent | None
    started_ms: int
    generation_before: int
    before: GroupMetadataValue
    phase: ClassicGroupState = ClassicGroupState.PREPARING_REBALANCE
    is_initial: bool = False
    has_new_member: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0
    joined_ms: int | None = None
