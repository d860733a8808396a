"""One group of a watched cluster as it is now: its members, and what each has and is to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.classic.group import ClassicGroup
from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.streams.task_numbers import SUBTOPOLOGY_MASK
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.stories.parts import unit_name
from protocol.wire.embedded import decode_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.outlook import Outlook

TASKS: Final = "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member; ``owned`` and ``target`` are partitions or tasks by name, or there is no target."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    epoch: int
    session_ms: int | None
    owned: tuple[str, ...]
    target: tuple[str, ...] | None


def members(outlook: Outlook, group_id: str) -> Iterator[MemberView]:
    """Return the members of a group, in the order of the records."""
    group: Any = outlook.ctx.groups.get(group_id)
    if group is None:
        return
    if group.type_name == ClassicGroup.type_name:
        for each in group.metadata.members:
            partitions = decode_assignment(each.assignment) if each.assignment else ()
            yield MemberView(
                member_id=each.member_id,
                instance_id=each.group_instance_id or "",
                client_id=each.client_id,
                host=each.client_host,
                epoch=group.metadata.generation,
                session_ms=each.session_timeout,
                owned=tuple(unit_name(unit, "") for unit in partitions or ()),
                target=None,
            )
        return
    codec, numbers = group.kind.codec, group.unit_numbers(outlook.ctx.numbers)
    for member in group.members.values():
        data = group.targets.get(member.member_id)
        target = codec.read_target(data, numbers) if data else ()
        yield MemberView(
            member_id=member.member_id,
            instance_id=member.instance_id or "",
            client_id=member.metadata.client_id,
            host=member.metadata.client_host,
            epoch=member.assignment.epoch,
            session_ms=member.session_timeout_ms,
            owned=tuple(_names(outlook, group, member.assignment.assigned)),
            target=tuple(_names(outlook, group, target)),
        )


def units(outlook: Outlook, group_id: str) -> Iterator[str]:
    """Return the partitions that a group is to have, if its topics are known."""
    group: Any = outlook.ctx.groups.get(group_id)
    for name in sorted(getattr(group, "topics", ())):
        topic = outlook.topics.by_name(name)
        for number in range(0 if topic is None else topic.partitions):
            yield unit_name((name, number), "")


def _names(outlook: Outlook, group: ModernGroup[Any], places: Iterable[int]) -> Iterator[str]:
    """Return the names of partitions, or of the tasks that are active."""
    numbers = group.unit_numbers(outlook.ctx.numbers)
    is_tasks = group.kind.form.noun == TASKS
    for place in sorted(places):
        unit, index = place >> TOPIC_SHIFT, place & INDEX_MASK
        if is_tasks:
            if place >> ROLE_SHIFT == TaskRole.ACTIVE:
                yield unit_name((numbers.ids[unit & SUBTOPOLOGY_MASK], index), TASKS)
            continue
        topic = outlook.topics.by_id(numbers.uuids[unit])
        yield unit_name((str(numbers.uuids[unit]) if topic is None else topic.name, index), "")
