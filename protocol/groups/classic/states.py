"""The states of a classic group, and the soft state of a rebalance.

The state is derived. While a :class:`Rebalance` is under way its phase is the state; otherwise the
last persisted generation decides: Stable with members, Empty without.

======================== ==================== =====================================================
state                    goes to              when
======================== ==================== =====================================================
Empty                    PreparingRebalance   a member joins
Empty                    (deleted)            DeleteGroups, or its last offset expired
PreparingRebalance       CompletingRebalance  every member has joined, or the rebalance timeout
PreparingRebalance       Empty                no member is left
CompletingRebalance      Stable               the leader's SyncGroup brings the assignment
CompletingRebalance      PreparingRebalance   a member rejoins, changes its protocols, leaves,
                                              expires, or does not sync in time
Stable                   PreparingRebalance   the same, or the leader rejoins
======================== ==================== =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.groups.facts import MemberEvent, RebalanceTrigger
    from protocol.groups.fleet.first_assignment import FirstAssignment
    from protocol.records import GroupMetadataValue


class ClassicGroupState(StrEnum):
    """A state as Kafka spells it on the wire."""

    EMPTY = "Empty"
    """No members; the group remains until its offsets have expired.

    JoinGroup from a new member is accepted; with an unknown member id: UNKNOWN_MEMBER_ID, as for
    SyncGroup, Heartbeat and LeaveGroup. Commits without a generation are accepted.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for members; their JoinGroup requests are parked.

    Heartbeat and SyncGroup: REBALANCE_IN_PROGRESS. LeaveGroup removes the member at once. Commits
    of the last generation are accepted.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has begun and awaits the leader's assignment; SyncGroup is parked.

    Heartbeat succeeds. Commits: REBALANCE_IN_PROGRESS. JoinGroup with unchanged protocols gets the
    generation again.
    """

    STABLE = "Stable"
    """Every member may fetch its assignment; heartbeats and commits succeed."""

    DEAD = "Dead"
    """DescribeGroups returns it for a group that does not exist; no group is ever Dead."""


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """A rebalance under way; soft state, written by ``rebalance.py`` and ``join.py`` only.

    ``trigger`` and ``event`` say why it began: what happened, to which member, and the reason that
    the client gave (KIP-800).

    ``is_initial``: the group was Empty, so members get ``group.initial.rebalance.delay.ms`` to
    join. Each delay in which a new member joined (``has_new_member``) is followed by another, as
    long as ``remaining_ms`` of the first member's rebalance timeout lasts. ``before`` is the hard
    state from before the rebalance; nothing is persisted until it ends. ``last_joined`` is the
    event of the member that joined last, after the first one. ``first``: the initial rebalance
    waits for expected instances, in place of the delay.
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
    last_joined: MemberEvent | None = None
    first: FirstAssignment | None = None
