"""The differences between modern group types, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.facts import MemberEventKind
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.facts import TopicsCause
    from protocol.groups.modern.codec import RecordCodec
    from protocol.groups.modern.form import AssignmentForm


GROUP_TIMERS: Final = (TimerKind.ASSIGNMENT, TimerKind.TARGET, TimerKind.REFRESH)
"""The timers that groups of every modern type have."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModernConfigs:
    """The names of a type's configs, spelled out so that a search of the code finds them.

    The first five are set on groups, and on the broker with the prefix ``group.``; the others on
    the broker only. None: the type has no such config. ``rack_aware``: whether racks matter to its
    assignors; ``unsettled_interval``: how soon after the assignment interval a waiting member is
    asked to heartbeat; ``regex_refresh_interval``: when regular expressions are resolved again;
    ``assignor``: the group's own assignor.
    """

    session_timeout: str
    heartbeat_interval: str
    assignment_interval: str
    offload: str
    rack_aware: str | None = None
    assignors: str
    max_size: str
    unsettled_interval: str | None = None
    regex_refresh_interval: str | None = None
    assignor: str | None = None


def _no_state() -> None:
    """Return the soft state of a type that has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModernKind:
    """``codec`` encodes and decodes the type's records; ``form`` is the form of its assignments.

    ``own_member_timers`` and ``own_group_timers`` are the kinds of timers that only this type has.
    ``bumps_upon_heartbeat``: after a change of the topics the next heartbeat begins a group epoch,
    as in Kafka; otherwise one begins as soon as the change is known. ``every_change_bumps``: every
    change of a member's record begins a group epoch, not only that of a subscription; the event of
    such a change is ``change_event``. ``has_static_members``: members may have instance ids.
    ``keeps_assignments``: those of static members may be kept beyond their sessions.
    ``prepare`` brings up to date what the type derives from
    topics and configs, and returns why that needs a new group epoch, or None; it is called with the
    context and the group's runtime before every epoch, and whenever topics or configs may have
    changed. ``refine`` returns what a member gets at present of its target, if its type moves some
    places later than others; it is called with the context, the group's runtime, the member and the
    target. None: it is not known yet, and the member waits. ``soft_state`` makes what a leader
    keeps for this type only.
    """

    configs: ModernConfigs
    codec: RecordCodec
    form: AssignmentForm
    own_member_timers: tuple[str, ...] = ()
    own_group_timers: tuple[str, ...] = ()
    bumps_upon_heartbeat: bool = False
    every_change_bumps: bool = False
    change_event: MemberEventKind = MemberEventKind.SUBSCRIBED
    has_static_members: bool = True
    keeps_assignments: bool = False
    prepare: Callable[[Any, Any], TopicsCause | None] | None = None
    refine: Callable[[Any, Any, Any, Any], Any] | None = None
    soft_state: Callable[[], Any] = _no_state
    member_timers: tuple[str, ...] = field(init=False)
    group_timers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        timers = (TimerKind.MEMBER_SESSION, TimerKind.REVOCATION, *self.own_member_timers)
        object.__setattr__(self, "member_timers", timers)
        object.__setattr__(self, "group_timers", (*GROUP_TIMERS, *self.own_group_timers))
