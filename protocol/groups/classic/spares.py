"""The spare members of a classic group (``fleet.spares``): its leader does not know of them.

Only groups of consumers with one of Kafka's own assignors have some: those read an assignment
without partitions and user data. Others may not, such as Kafka Streams' ``stream``. A member that
says it still has partitions, as cooperative ones do, is no spare: its leader would give them to
others while it has them. So a number that is lowered takes effect as such members leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.classic.group import CONSUMER
from protocol.groups.fleet import spares
from protocol.wire.embedded import decode_assignment, decode_subscription, encode_assignment

if TYPE_CHECKING:
    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context

ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The protocols of Kafka's clients whose members read no user data of an assignment."""

NO_PARTITIONS: Final = encode_assignment((), version=0)
"""The assignment of a spare: any version of Kafka's clients can read it."""


def choose(ctx: Context, group: ClassicGroupRuntime) -> set[str]:
    """Return the members that get nothing in the generation that begins."""
    limit = spares.limit(ctx, group.group_id)
    if not limit or group.protocol_type != CONSUMER or len(group.members) <= limit:
        return set()
    if group.protocol_lists.select() not in ASSIGNORS:
        return set()
    active = {
        each.group_instance_id or each.member_id
        for each in group.hard.metadata.members
        if _has_partitions(each.assignment)
    }
    ranked = sorted(group.members.values(), key=lambda member: _rank(member, active))
    if all(member.join_ticket is None for member in ranked[:limit]):
        # Somebody who is there must lead.
        first = next((each for each in ranked if each.join_ticket is not None), None)
        if first is not None:
            ranked.remove(first)
            ranked.insert(0, first)
    return {each.member_id for each in ranked[limit:] if not _keeps(group, each, active)}


def _rank(member: ClassicGroupMember, active: set[str]) -> tuple[bool, bool, bool]:
    """Return the lower rank for the member that is rather active; of equals the earlier one is."""
    is_away = member.join_ticket is None
    return _name(member) not in active, is_away, member.group_instance_id is None


def _keeps(group: ClassicGroupRuntime, member: ClassicGroupMember, active: set[str]) -> bool:
    """Return whether a member may still have partitions after it has joined, or is away."""
    if _name(member) not in active:
        return False
    if member.join_ticket is None:
        return True
    subscription = decode_subscription(member.subscription(group.protocol_lists.select()))
    return subscription is None or bool(subscription.owned_partitions)


def _name(member: ClassicGroupMember) -> str:
    return member.group_instance_id or member.member_id


def _has_partitions(assignment: bytes) -> bool:
    return bool(assignment) and decode_assignment(assignment) != ()
