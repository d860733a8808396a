"""The steps of a member's request that are the same for all modern groups.

A member with a new subscription may begin a group epoch (``bump``); every member that sends a
request takes its next step towards its target (``reconcile_member``).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.groups import settings as group_settings
from protocol.groups.facts import MemberEventKind
from protocol.groups.modern import first_target, regexes, target, unsettled
from protocol.groups.modern import group as modern
from protocol.groups.modern import members as modern_members
from protocol.groups.modern.hard_state import JOIN_EPOCH
from protocol.groups.modern.reconcile import MemberState, ReconcileInput, reconcile
from protocol.groups.timers import TimerKind
from protocol.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.facts import MemberEvent
    from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.topic_numbers import Partition


NOTHING: Final[frozenset[Partition]] = frozenset()
"""The partitions reported for a member where no revocation is awaited."""


NO_EPOCH: Final = 0
"""The assignment epoch of every partition where no revocation is awaited: the log has none."""


class PreviousState(NamedTuple):
    """A member's subscription, assignment and record before this request; None: it had none."""

    names: frozenset[str]
    regex: str
    assigned: Mapping[Partition, int]
    metadata: Any


class StepInput(NamedTuple):
    """A reader of the partitions that the member reports, and whether its subscription is new."""

    owned: Callable[[], set[Partition] | None]
    has_changed: bool


def previous_state(member: ModernGroupMember | None) -> PreviousState:
    """Note a member's subscription and assignment; None is a new member."""
    if member is None:
        return PreviousState(frozenset(), "", MappingProxyType({}), None)
    subscription, assigned = member.subscription, member.assignment.assigned
    return PreviousState(subscription.names, subscription.regex, assigned, member.metadata)


def new_member_id(ctx: Context) -> str:
    """Draw an id in the form of Kafka's Uuid: 22 characters, the first of which is no dash."""
    while True:
        drawn = ctx.rng.getrandbits(128).to_bytes(16, "big")
        text = urlsafe_b64encode(drawn).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class HeartbeatInput(NamedTuple):
    """The content of a member's request: the value of its member record, and what it owns.

    ``owned`` reads the owned partitions from the request; None: it does not have them.
    ``client_software`` is what the connection told.
    """

    group_id: str
    member_id: str
    metadata: Any
    owned: Callable[[], set[Partition] | None]
    client_software: str = ""


def process_heartbeat(
    ctx: Context, group_class: type[ModernGroup[Any]], heartbeat_input: HeartbeatInput, now: int
) -> tuple[ModernGroupRuntime, ModernGroupMember, PreviousState]:
    """Apply a member's heartbeat: the five steps except for the answer.

    Create the group if there is none. Refuse nothing: the caller has checked the request. Return
    the group, the member, and the member's previous state.
    """
    group_id, member_id, metadata = (
        heartbeat_input.group_id,
        heartbeat_input.member_id,
        heartbeat_input.metadata,
    )
    runtime = modern.find(ctx, group_id, now)
    if runtime is not None and not runtime.group.members:
        first_target.begin(ctx, runtime, now)
    known = None if runtime is None else runtime.group.members.get(member_id)
    previous = previous_state(known)
    says_new = known is None or known.metadata != metadata
    if says_new:
        ctx.emit(Record(group_class.kind.codec.member_key(group_id, member_id), metadata))
    runtime = runtime or modern.find(ctx, group_id, now)
    assert runtime is not None
    member = runtime.group.members[member_id]
    if heartbeat_input.client_software:
        runtime.client_software[member_id] = heartbeat_input.client_software
    event = None
    if known is None and member.instance_id is not None:
        first_target.joined(ctx, runtime, member.instance_id)
        earlier = runtime.kept.take(member.instance_id, now)
        if earlier is not None:
            runtime.feed.earlier[member_id] = earlier
    if says_new:
        runtime.feed.member_changed(member_id)
        became = MemberEventKind.JOINED if known is None else group_class.kind.change_event
        event = modern.event(ctx, runtime, member, became, now)
    epoch = runtime.group.epoch
    has_changed = bump(ctx, runtime, event, previous, now)
    is_told = known is None or has_changed or group_class.kind.every_change_bumps
    if event is not None and is_told:
        runtime.event_log.note(ctx, event)
    target.update(ctx, runtime, now)
    if not group_class.kind.form.awaits_revocation:
        has_changed |= runtime.group.epoch != epoch  # partitions of deleted topics go at once
    reconcile_member(ctx, runtime, member, StepInput(heartbeat_input.owned, has_changed), now)
    return runtime, member, previous


def renew_session(
    ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember, now: int
) -> int:
    """Restart a member's session; return its heartbeat interval in ms."""
    session = modern.session_of(ctx, runtime, member.member_id, now)
    session.stamp += 1
    session.answer = None
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    interval_ms = heartbeat_interval_ms(ctx, runtime)
    if unsettled.is_unsettled(runtime, member.assignment):
        config = runtime.group.kind.configs.assignment_interval
        assignment_ms = group_settings.integer(ctx, runtime.group_id, config)
        interval_ms = unsettled.heartbeat_interval_ms(ctx, runtime, assignment_ms, interval_ms, now)
    return interval_ms


def heartbeat_interval_ms(ctx: Context, runtime: ModernGroupRuntime) -> int:
    """Return the group's configured heartbeat interval."""
    return group_settings.integer(
        ctx, runtime.group_id, runtime.group.kind.configs.heartbeat_interval
    )


def bump(
    ctx: Context,
    runtime: ModernGroupRuntime,
    event: MemberEvent | None,
    before: PreviousState,
    now: int,
) -> bool:
    """Begin a new group epoch if the group changed; return whether the subscription is new.

    ``event`` is the event to log for the member if its subscription is new; None: the request had
    nothing new.
    """
    group = runtime.group
    names_changed = regex_changed = is_resolved = every_change = False
    if event is not None:
        subscription = group.members[event.member_id].subscription
        names_changed = subscription.names != before.names
        regex_changed = subscription.regex != before.regex
        if regex_changed:
            is_resolved = regexes.changed(ctx, group, before.regex, subscription.regex)
        every_change = group.kind.every_change_bumps
    if names_changed or is_resolved or every_change:
        modern.bump(ctx, runtime, event, now)
    elif runtime.must_bump:
        modern.bump(ctx, runtime, None, now)
    elif runtime.is_stale:
        modern.bump_if_topics_changed(ctx, runtime, now)
    if group.regex_members:
        regexes.resolve_if_due(ctx, runtime, now)
    return names_changed or regex_changed


def reconcile_member(
    ctx: Context,
    runtime: ModernGroupRuntime,
    member: ModernGroupMember,
    given: StepInput,
    now: int,
) -> None:
    """Take the member one step closer to its target."""
    group, assignment = runtime.group, member.assignment
    epoch = group.assignment_epoch
    if (
        not given.has_changed
        and assignment.state is MemberState.STABLE
        and assignment.epoch == epoch
    ):
        return
    wanted = group.without_unavailable(target.of_member(ctx, group, member), ctx.numbers)
    refine, awaits_revocation = group.kind.refine, group.kind.form.awaits_revocation
    is_free = group.is_free(member) if awaits_revocation else None
    present = wanted if refine is None else refine(ctx, runtime, member, wanted)
    if present is None:
        if assignment.epoch != JOIN_EPOCH:
            return
        present, is_free = wanted, _nothing_is_free  # it needs an epoch
    member_id = member.member_id
    owned = given.owned() if awaits_revocation else NOTHING
    after = reconcile(
        assignment,
        ReconcileInput(
            epoch=epoch,
            target=present,
            owned=owned,
            is_subscribed=_wants(ctx, group, member),
            is_free=is_free,
            has_changed=given.has_changed,
            partition_epoch=None if awaits_revocation else NO_EPOCH,
            in_place=group.kind.form.in_place,
            noun=group.type_name,
            units=group.kind.form.noun,
        ),
    )
    if after is assignment:
        return
    modern_members.emit_assignment(ctx, group.group_id, member_id, after)
    modern.report_if_settled(ctx, runtime, now, member)
    if member.revocation_timer != TimerKind.REVOCATION:
        return  # its next requests are awaited by timers of its own type
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        modern.arm_revocation(ctx, runtime, member, now)
    else:
        ctx.timers.cancel(TimerKind.REVOCATION, group.group_id, member_id)


def _nothing_is_free(_place: Partition) -> bool:
    return False


def _wants(
    ctx: Context, group: ModernGroup[Any], member: ModernGroupMember
) -> Callable[[int], bool]:
    """Return a function that says, by a unit's number, whether the member may have it.

    A topic must exist, and the member must subscribe to it.
    """
    if not group.kind.form.units_are_topics:
        return lambda _unit: True
    wanted, name, topics = group.topics_of(member.subscription), ctx.numbers.name, ctx.topics
    return lambda number: name(number, topics) in wanted
