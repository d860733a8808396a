"""What the descriptions of modern groups have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from protocol.groups.modern.hard_state import ModernGroup
from protocol.groups.topic_numbers import by_topic
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from protocol.groups.context import Context
    from protocol.groups.topic_numbers import Partition
    from protocol.groups.topics import Topic

GroupT = TypeVar("GroupT", bound=ModernGroup[Any])
DescribedT = TypeVar("DescribedT")


def describe_groups(
    ctx: Context,
    group_class: type[GroupT],
    group_ids: Iterable[str],
    described_class: type[DescribedT],
    describe: Callable[[GroupT], DescribedT],
) -> tuple[DescribedT, ...]:
    """Describe each group once; groups of another type are not found."""

    def one(group_id: str) -> DescribedT:
        group = ctx.groups.get(group_id)
        if isinstance(group, group_class):
            return describe(group)
        code, sentence = ErrorCode.group_id_not_found, None
        if not group_id:
            code = ErrorCode.invalid_group_id
        elif group is None:
            sentence = f"Group {group_id} not found."
        else:
            sentence = f"Group {group_id} is not a {group_class.type_name} group."
        return blank(described_class, group_id=group_id, error_code=code, error_message=sentence)

    return tuple(one(group_id) for group_id in dict.fromkeys(group_ids))


def named_topics(
    ctx: Context, partitions: Iterable[Partition]
) -> Iterator[tuple[Topic, tuple[int, ...]]]:
    """Yield topics with the indexes of their partitions; leave out those of deleted topics."""
    uuids = ctx.numbers.uuids
    for number, indexes in by_topic(partitions):
        topic = ctx.topics.by_id(uuids[number])
        if topic is not None:
            yield topic, tuple(indexes)
