"""The differences between modern group types, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from protocol.groups.modern.codec import RecordCodec
    from protocol.groups.modern.form import AssignmentForm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModernConfigs:
    """The names of a type's configs, spelled out so that a search of the code finds them.

    The first five are set on groups, and on the broker with the prefix ``group.``; the others on
    the broker only. None: the type has no such config. ``rack_aware``: whether racks matter to its
    assignors; ``unsettled_interval``: how soon after the assignment interval a waiting member is
    asked to heartbeat; ``regex_refresh_interval``: when regular expressions are resolved again.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModernKind:
    """``codec`` encodes and decodes the type's records; ``form`` is the form of its assignments.

    ``own_member_timers`` are the kinds of member timers that only this type has.
    """

    configs: ModernConfigs
    codec: RecordCodec
    form: AssignmentForm
    own_member_timers: tuple[str, ...] = ()
    member_timers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        timers = (TimerKind.MEMBER_SESSION, TimerKind.REVOCATION, *self.own_member_timers)
        object.__setattr__(self, "member_timers", timers)
