"""What a group waits for whose rebalance is under way: read by operators, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.groups.facts import MemberEvent, RebalanceTrigger, TopicsCause

AWAITED_MAX: Final = 5
"""Members that are named; the others are counted."""

LOOKED_AT_MAX: Final = 20_000
"""Members of a group that are looked at; of larger groups only some may be counted."""


class AwaitedStep(StrEnum):
    """What is awaited."""

    MORE_MEMBERS = "more-members"  # the initial delay of a group that was Empty
    JOIN = "join"  # members rejoin
    SYNC = "sync"  # the leader's assignment
    INTERVAL = "interval"  # the assignment interval, or a streams group's initial delay
    ASSIGNOR = "assignor"  # the assignor's result
    WRITE = "write"  # the records of the result
    GIVE_UP = "give-up"  # members have not given up what the target takes from them, or not asked
    TAKE_OVER = "take-over"  # members have not asked for what is free for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaiting:
    """A rebalance under way; times in Unix milliseconds.

    ``since_ms`` is when it began, ``step_ms`` since when the step lasts. ``number`` is the
    generation or assignment epoch that is in force. ``cause`` is what began it; None: not known
    here. ``awaited`` has the values of some of the members that are awaited, with their ids, in the
    form of ``NamedMember``; ``awaited_count`` is the number of all, ``members`` that of the group.
    """

    group_id: str
    group_type: str
    step: AwaitedStep
    since_ms: int
    step_ms: int
    number: int
    cause: MemberEvent | TopicsCause | None = None
    trigger: RebalanceTrigger | None = None
    awaited: Sequence[tuple[str, Any]] = ()
    awaited_count: int = 0
    members: int = 0
