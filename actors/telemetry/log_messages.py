"""Log messages for facts: one line each, with clients' strings escaped."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    RebalanceEnded,
    RebalanceOutcome,
    RebalanceTrigger,
    ResultReplicated,
    TargetAssigned,
    TargetAssignmentFailed,
    TopicsCause,
    TopicsChanged,
)
from protocol.stories.causes import CAUSES, Cause, of_target
from protocol.stories.story import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact


def log_message(fact: Fact, moved: PartitionMovement | None = None) -> str:
    """Return a fact's log message; ``moved`` counts the partitions of a rebalance, if known."""
    match fact:
        case RebalanceEnded():
            told = _rebalance(fact, moved)
        case MemberEvent():
            told = _member_event(fact)
        case GroupDeleted():
            told = "is gone"
        case GroupConverted():
            told = _group_converted(fact)
        case TopicsChanged():
            told = f"{TOPICS[fact.cause]}; its epoch is {fact.epoch} from now on"
        case TargetAssigned():
            told = _target_assigned(fact)
        case TargetAssignmentFailed():
            told = _assignment_unmade(fact)
        case GroupReconciled():
            told = _group_reconciled(fact)
        case ResultReplicated():
            told = f"the result of {fact.number} is replicated"
    return f"group {shown(fact.group_id)}: {told}"


def log_fields(fact: Fact) -> Mapping[str, str]:
    """Return the group that a fact is about, and the member if it is about one."""
    member_id = getattr(fact, "member_id", "")
    cause = getattr(fact, "cause", None)
    if isinstance(cause, MemberEvent):
        member_id = cause.member_id
    return {"group": cut(fact.group_id)} | ({"member": cut(member_id)} if member_id else {})


def log_message_for_many(events: list[MemberEvent]) -> str:
    """Return one log message for many member events of one group, kind and reason."""
    first, count = events[0], len(events)
    text = f"group {shown(first.group_id)}: {count} members {MEMBER_EVENTS[first.kind]}"
    return f"{text}, the first of them {_who(first)}{_quoted(first.reason)}"


def plain(text: str) -> str:
    """Escape characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def shown(text: str) -> str:
    """Escape a text from a client, and shorten it as stories do."""
    return plain(cut(text))


def duration_ms(rebalance: RebalanceEnded) -> int:
    """Return the duration of all phases together."""
    return rebalance.phases[-1].ended_ms - rebalance.phases[0].started_ms


def _rebalance(fact: RebalanceEnded, moved: PartitionMovement | None) -> str:
    generations = f"{fact.generation_before}→{fact.generation_after}"
    who = _who(fact) if fact.member_id else "the group"
    cause = f"{who} {TRIGGERS[fact.trigger]}{_quoted(fact.reason)}"
    return f"rebalance {generations} in {duration_ms(fact)} ms: {cause}; {_result(fact, moved)}"


def _result(fact: RebalanceEnded, moved: PartitionMovement | None) -> str:
    if fact.outcome is not RebalanceOutcome.STABLE:
        return OUTCOMES[fact.outcome]
    members = _count(len(fact.assignments_after), "member")
    if moved is None:
        return members
    parts = [f"{moved.moved} of {_count(moved.assigned, 'partition')} moved"]
    if moved.added:
        parts.append(f"{moved.added} newly assigned")
    if moved.dropped:
        parts.append(f"{moved.dropped} without an owner for now")
    return ", ".join([members, *parts])


def _group_converted(fact: GroupConverted) -> str:
    return (
        f"is a {fact.group_type} group from now on,"
        f" with {_count(fact.members, 'member')}, at epoch {fact.epoch}"
    )


def _target_assigned(fact: TargetAssigned) -> str:
    if not fact.members:
        return f"epoch {fact.epoch_before}→{fact.epoch_after}: {_target_cause(fact)}"
    members = f"{fact.members_changed} of {_count(fact.members, 'member')}"
    told = (
        f"target assignment {fact.epoch_before}→{fact.epoch_after}"
        f" in {fact.ended_ms - fact.started_ms} ms{_assignor(fact)}: {_target_cause(fact)};"
        f" {members} got another one"
    )
    if fact.partitions_moved < 0:  # nobody has counted them
        return told
    return f"{told}, {_count(fact.partitions_moved, fact.units.removesuffix('s'))} moved"


def _assignor(fact: TargetAssigned) -> str:
    """Return which assignor ran, and where; of a watched Kafka only what members ask for."""
    if fact.in_place is None:
        return f", {shown(fact.assignor)}" if fact.assignor else ""
    return f", {shown(fact.assignor)} {'in place' if fact.in_place else 'by a worker'}"


def _target_cause(fact: TargetAssigned) -> str:
    """Return what moved the group's epoch, in the words of its story."""
    cause = of_target(fact, is_converted=False)
    if cause is Cause.UNKNOWN:
        return "why is told by rollcall explain"
    said = CAUSES[cause].text
    if isinstance(fact.cause, MemberEvent):
        said = f"{_who(fact.cause)} {said}{_quoted(fact.cause.reason)}"
    return f"{said} (inferred: {shown(fact.inferred)})" if fact.inferred else said


def _assignment_unmade(fact: TargetAssignmentFailed) -> str:
    then = "the old one stays until the group changes" if fact.is_final else "it is tried again"
    return f"no target assignment of epoch {fact.epoch}: {shown(fact.reason)}; {then}"


def _group_reconciled(fact: GroupReconciled) -> str:
    if not fact.members:
        return OUTCOMES[RebalanceOutcome.EMPTY]
    who = "its member has" if fact.members == 1 else f"all {fact.members} members have"
    took_ms = fact.time_ms - fact.assigned_ms
    return f"{who} the target assignment of epoch {fact.epoch}, {took_ms} ms after it was made"


def _member_event(fact: MemberEvent) -> str:
    became = MEMBER_EVENTS[fact.kind]
    if fact.kind is MemberEventKind.NOT_ASSIGNED:
        return f"{became}{_quoted(fact.reason)}"
    if fact.previous_member_id:
        became = f"{became}, {shown(fact.previous_member_id)} is fenced from now on"
    return f"{_who(fact)} {became}{_quoted(fact.reason)}"


def _who(fact: MemberEvent | RebalanceEnded) -> str:
    known = (
        ("instance ", fact.group_instance_id),
        ("client ", fact.client_id),
        ("", fact.client_host),
    )
    details = ", ".join(f"{label}{shown(value)}" for label, value in known if value)
    member = f"member {shown(fact.member_id)}"
    return f"{member} ({details})" if details else member


def _quoted(reason: str | None) -> str:
    return f': "{shown(reason)}"' if reason else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


MEMBER_EVENTS: Final[Mapping[MemberEventKind, str]] = MappingProxyType(
    {
        MemberEventKind.JOINED: "joined",
        MemberEventKind.REJOINED: "joined again",
        MemberEventKind.REPLACED: "came back under a new member id",
        MemberEventKind.FENCED: "is fenced: another member has its instance id",
        MemberEventKind.LEFT: "left",
        MemberEventKind.EXPIRED: "expired: no heartbeat within its session timeout",
        MemberEventKind.NOT_REJOINED: "was removed: it did not join within the rebalance timeout",
        MemberEventKind.REFUSED: "was refused: the group is larger than group.max.size",
        MemberEventKind.NOT_SYNCED: "was removed: it did not fetch its assignment in time",
        MemberEventKind.SUBSCRIBED: "subscribes to other topics",
        MemberEventKind.UPDATED: "has another process, endpoint, host or tags",
        MemberEventKind.WENT: "went, and means to come back within its session timeout",
        MemberEventKind.NOT_REVOKED: (
            "was removed: it did not give up partitions or tasks within its rebalance timeout"
        ),
        MemberEventKind.NOT_ASSIGNED: "its assignor failed, the old target assignment stays",
        MemberEventKind.GONE: "is gone",
    }
)
TRIGGERS: Final[Mapping[RebalanceTrigger, str]] = MappingProxyType(
    {
        RebalanceTrigger.MEMBER_JOINED: "joined",
        RebalanceTrigger.MEMBER_REJOINED: "joined again",
        RebalanceTrigger.MEMBER_SUBSCRIBED: "subscribes to other topics",
        RebalanceTrigger.LEADER_REJOINED: "joined again: the leader asks for a rebalance",
        RebalanceTrigger.MEMBER_LEFT: "left",
        RebalanceTrigger.MEMBER_EXPIRED: "sent no heartbeat within its session timeout",
        RebalanceTrigger.DOWNGRADED: "has no member of the consumer protocol any more",
        RebalanceTrigger.STATIC_PROTOCOL_CHANGED: "came back with other protocols",
        RebalanceTrigger.STATIC_SUBSCRIPTION_CHANGED: "came back with other topics",
        RebalanceTrigger.STATIC_MEMBER_REPLACED: "came back before the assignment was made",
        RebalanceTrigger.SYNC_TIMEOUT: "did not fetch its assignment in time",
        RebalanceTrigger.OVER_CAPACITY: "is larger than group.max.size allows",
        RebalanceTrigger.MEMBER_GONE: "is gone",
        RebalanceTrigger.GAVE_UP: "gave up partitions and joined again",
        RebalanceTrigger.TOPICS_CHANGED: "has other topics",
        RebalanceTrigger.NOT_RECORDED: "was rebalanced, and the records do not say why",
    }
)
TOPICS: Final[Mapping[TopicsCause, str]] = MappingProxyType(
    {
        TopicsCause.TOPICS_CHANGED: "its topics have changed",
        TopicsCause.REGEX_RESOLVED: "a regular expression matches other topics",
        TopicsCause.SHARE_STATE_INITIALIZED: "more of its partitions may be assigned",
        TopicsCause.TOPOLOGY_READY: "all topics of its topology exist",
        TopicsCause.TOPOLOGY_NOT_READY: (
            "topics of its topology are missing or have other numbers of partitions"
        ),
        TopicsCause.CONFIGS_CHANGED: "its assignment configs have changed",
        TopicsCause.NOT_RECORDED: "it has a new epoch, and the records do not say why",
    }
)
OUTCOMES: Final[Mapping[RebalanceOutcome, str]] = MappingProxyType(
    {
        RebalanceOutcome.EMPTY: "no members are left",
        RebalanceOutcome.RESTARTED: "it began again before every member had its assignment",
    }
)
