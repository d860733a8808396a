"""What share groups ask of share coordinators: requests 83 to 87, and what an answer leads to.

Share state is in partitions of its own, which other nodes may lead. A request is sent when the
group's record that announces it is committed, and its answer comes back as an event: a group's
record lists a partition as initializing or a topic as deleting in between. The node that sends
requests tries again for some seconds (:mod:`failover.requests.share_calls`); then the answer has
the errors. What waits for an answer is soft state: a new leader asks again, or clients do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from protocol.groups.effects import CallShareState
from protocol.wire import apis
from protocol.wire.convert import blank, unwrap
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kio.static.protocol import Entity

    from protocol.groups.context import Context
    from protocol.groups.effects import ShareStateAnswered

INITIALIZE, DELETE, SUMMARIZE = 83, 86, 87


class Job(Protocol):
    """What waits for an answer, as plain data: a recording of the shard has it, too."""

    def answered(self, ctx: Context, results: Results, now: int) -> None:
        """Go on with the answer."""


class Results:
    """The result of each partition of a topic."""

    def __init__(self, response: Any) -> None:
        self.by_topic: dict[UUID, dict[int, Any]] = {}
        for topic in response.results:
            rows = self.by_topic.setdefault(topic.topic_id, {})
            rows.update((row.partition, row) for row in topic.partitions)

    def of(self, topic_id: UUID, partition: int) -> Any:
        """Return the result of one partition; None if there is none."""
        return self.by_topic.get(topic_id, {}).get(partition)

    def done(self, topic_id: UUID) -> frozenset[int]:
        """Return the partitions of a topic without an error."""
        rows = self.by_topic.get(topic_id, {})
        return frozenset(n for n, row in rows.items() if row.error_code is ErrorCode.none)

    def failed(self, topic_id: UUID) -> Any:
        """Return a result of a topic with an error; None if there is none."""
        rows = self.by_topic.get(topic_id, {}).values()
        return next((row for row in rows if row.error_code is not ErrorCode.none), None)

    def error(self) -> ErrorCode:
        """Return the first error of all; ``none`` if there is none."""
        failed = (self.failed(topic_id) for topic_id in self.by_topic)
        return next((row.error_code for row in failed if row is not None), ErrorCode.none)


def initialize(
    ctx: Context,
    group_id: str,
    state_epoch: int,
    start_offsets: Mapping[UUID, Mapping[int, int]],
    job: Job,
) -> None:
    """Ask for the share state of partitions, each with its start offset (-1: not known)."""
    shape = _partition_shape(INITIALIZE)
    rows: dict[tuple[int, int], Entity] = {}  # topics that are alike share them
    topics = {}
    for topic_id, offsets in start_offsets.items():
        asked = sorted(offsets.items())
        for each in asked:
            if each not in rows:
                index, offset = each
                rows[each] = shape(partition=index, state_epoch=state_epoch, start_offset=offset)
        topics[topic_id] = tuple([rows[each] for each in asked])
    _send(ctx, INITIALIZE, group_id, topics, job)


def delete(ctx: Context, group_id: str, partitions: Mapping[UUID, Iterable[int]], job: Job) -> None:
    """Remove the share state of partitions."""
    shape = _partition_shape(DELETE)
    topics = {
        key: tuple(shape(partition=n) for n in sorted(all_)) for key, all_ in partitions.items()
    }
    _send(ctx, DELETE, group_id, topics, job)


def summarize(
    ctx: Context, group_id: str, partitions: Mapping[UUID, Iterable[int]], job: Job
) -> None:
    """Ask for the start offsets of partitions."""
    shape = _partition_shape(SUMMARIZE)
    topics = {
        key: tuple(shape(partition=n, leader_epoch=-1) for n in dict.fromkeys(all_))
        for key, all_ in partitions.items()
    }
    _send(ctx, SUMMARIZE, group_id, topics, job)


def _send(
    ctx: Context,
    key: int,
    group_id: str,
    topics: Mapping[UUID, tuple[Entity, ...]],
    job: Job,
) -> None:
    request: Any = apis.API[key].request
    topic_shape = _element(request, "topics")
    message: Entity = request(
        group_id=group_id,
        topics=tuple(
            blank(topic_shape, topic_id=topic_id, partitions=rows)
            for topic_id, rows in topics.items()
        ),
    )
    ctx.last_share_call += 1
    ctx.share_calls[ctx.last_share_call] = (group_id, job)
    ctx.submit(CallShareState(group_id=group_id, call=ctx.last_share_call, request=message))


def _partition_shape(key: int) -> Any:
    """Return the class of what a request says of one partition."""
    return _element(_element(apis.API[key].request, "topics"), "partitions")


def _element(shape: Any, name: str) -> type[Entity]:
    element: type[Entity] = unwrap(shape.__dataclass_fields__[name])[0]
    return element


def answered(ctx: Context, event: ShareStateAnswered, now: int) -> None:
    """Go on with what waited for an answer; ignore one that nothing waits for any more."""
    _, job = ctx.share_calls.pop(event.call, (None, None))
    if job is not None:
        job.answered(ctx, Results(event.response), now)


def forget(ctx: Context, group_id: str) -> None:
    """Forget what a group waits for: its requests are refused, and it asks again."""
    calls = ctx.share_calls
    for number in [number for number, (named, _) in calls.items() if named == group_id]:
        del calls[number]


def resigned(ctx: Context) -> None:
    """Forget all that groups wait for."""
    ctx.share_calls.clear()
