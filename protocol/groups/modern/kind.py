"""What a type of group does its own way, of all that groups have in common that reconcile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from protocol.groups.modern.codec import RecordCodec
    from protocol.groups.modern.form import AssignmentForm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModernConfigs:
    """The names of a type's configs, spelled out so that they are found in the code.

    The first five are set on groups, and on the broker after ``group.``; the others on the broker
    alone. None: the type has no such config. ``rack_aware``: whether racks matter to its assignors;
    ``unsettled_interval``: how soon after the assignment interval a member that awaits something is
    asked back; ``regex_refresh_interval``: when regular expressions are resolved again.
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
    """``codec`` writes and reads the type's records, ``form`` is that of its assignments.

    ``own_member_timers`` are kinds that run for its members beside those of all types.
    """

    configs: ModernConfigs
    codec: RecordCodec
    form: AssignmentForm
    own_member_timers: tuple[str, ...] = ()
    member_timers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        timers = (TimerKind.MEMBER_SESSION, TimerKind.REVOCATION, *self.own_member_timers)
        object.__setattr__(self, "member_timers", timers)
