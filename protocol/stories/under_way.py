"""A rebalance that is under way: since when, why, and for whom the group waits."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.awaiting import AwaitedStep
from protocol.groups.facts import MemberEvent
from protocol.stories import causes, members, parts
from protocol.stories.causes import CAUSES, Cause
from protocol.stories.members import Names
from protocol.stories.sentence import NAMES_TOLD, named, person, quoted, seconds
from protocol.stories.story import Who, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.groups.awaiting import Awaiting

STEPS: Final[Mapping[AwaitedStep, str]] = MappingProxyType(
    {
        AwaitedStep.MORE_MEMBERS: "waits for more members",
        AwaitedStep.JOIN: "waits for {who} to join",
        AwaitedStep.SYNC: "waits for the assignment of {who}",
        AwaitedStep.INTERVAL: "waits until the assignment interval is over",
        AwaitedStep.ASSIGNOR: "waits for the assignor",
        AwaitedStep.WRITE: "waits until the new assignment is written",
        AwaitedStep.GIVE_UP: "waits for {who} to give up what others get, or to ask for its share",
        AwaitedStep.TAKE_OVER: "waits for {who} to take over what is free",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """What a group waits for at a moment.

    ``since_ms`` is when the rebalance began (Unix ms), ``waited_ms`` the time since then, and
    ``step_ms`` the time of the step that it is in. ``cause`` is None if another story tells it.
    """

    group_type: str
    step: AwaitedStep
    since_ms: int
    waited_ms: int
    step_ms: int
    number: int = -1
    cause: Cause | None = None
    who: Who | None = None
    reason: str = ""
    awaited: tuple[Who, ...] = ()
    more: int = 0
    members: int = 0


def under_way(awaiting: Awaiting, now: int) -> UnderWay:
    """Return what a group waits for at ``now`` (Unix ms)."""
    known = {each.member_id: each for each in _named(awaiting)}
    cause, who = awaiting.cause, None
    names = Names(known)
    if isinstance(cause, MemberEvent):
        names.add(members.of_event(cause))
        who = names.unique(members.of_event(cause))
    first, _ = parts.first([names.unique(each) for each in known.values()])
    return UnderWay(
        group_type=awaiting.group_type,
        step=awaiting.step,
        since_ms=awaiting.since_ms,
        waited_ms=max(now - awaiting.since_ms, 0),
        step_ms=max(now - awaiting.step_ms, 0),
        number=awaiting.number,
        cause=_cause(awaiting),
        who=who,
        reason=cut(cause.reason) if isinstance(cause, MemberEvent) else "",
        awaited=first,
        more=max(awaiting.awaited_count - len(first), 0),
        members=awaiting.members,
    )


def under_way_sentence(now: UnderWay) -> str:
    """Return it in one sentence, without a full stop."""
    return f"under way for {seconds(now.waited_ms)}: {'; '.join(_clauses(now))}"


def _clauses(now: UnderWay) -> Iterator[str]:
    if now.cause is not None:
        row = CAUSES[now.cause]
        why = f", {quoted(now.reason)}" if now.reason else ""
        if row.is_of_member:
            who = "a member" if now.who is None else person(now.who)
            yield f"{who} {row.text}{why}"
        else:
            yield f"{row.text}{why}"
    step = STEPS[now.step].format(who=_names(now))
    yield f"{step}, for {seconds(now.step_ms)} now" if now.step_ms < now.waited_ms else step


def _names(now: UnderWay) -> str:
    known = [named(each.name) for each in now.awaited[:NAMES_TOLD]]
    others = now.more + len(now.awaited) - len(known)
    if others:
        known.append(f"{others} {'other' if others == 1 else 'others'}")
    return " and ".join([", ".join(known[:-1]), known[-1]]) if len(known) > 1 else "".join(known)


def _cause(awaiting: Awaiting) -> Cause | None:
    """Return the cause; None where the story of the target that is taken over tells it."""
    event = awaiting.cause
    reason = event.reason if isinstance(event, MemberEvent) else None
    if awaiting.trigger is not None:
        return causes.of_trigger(awaiting.trigger, reason)
    if event is not None:
        return causes.of_change(event)
    if awaiting.step in (AwaitedStep.GIVE_UP, AwaitedStep.TAKE_OVER):
        return None
    return Cause.FAILOVER


def _named(awaiting: Awaiting) -> Iterable[Who]:
    for member_id, metadata in awaiting.awaited:
        instance_id = getattr(metadata, "instance_id", None) or getattr(
            metadata, "group_instance_id", None
        )
        yield Who(
            name=cut(instance_id or metadata.client_id or member_id),
            member_id=cut(member_id),
            instance_id=cut(instance_id),
            client_id=cut(metadata.client_id),
            host=cut(metadata.client_host),
        )
