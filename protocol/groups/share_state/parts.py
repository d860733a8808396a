"""Requests to share coordinators, split by partition of their log, and the answers merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from protocol.groups.share_state.keys import partition_finder
from protocol.wire.apis import API
from protocol.wire.convert import blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kio.static.protocol import Entity


def is_empty(message: Any) -> bool:
    """Whether a request is about nothing: its answer is empty, as in Kafka."""
    return not message.group_id or any(not topic.partitions for topic in message.topics)


def split(message: Any, partitions: int, most: int | None = None) -> list[tuple[int, Entity]]:
    """Split a request by the partition of the log, of which there are ``partitions``.

    No part is about more than ``most`` partitions of topics.
    """
    shares: dict[int, list[dict[int, list[Any]]]] = {}
    counts: dict[int, int] = {}
    for place, topic in enumerate(message.topics):
        find = partition_finder(message.group_id, topic.topic_id, partitions)
        for asked in topic.partitions:
            number = find(asked.partition)
            count = counts[number] = counts.get(number, -1) + 1
            cuts = shares.setdefault(number, [])
            if not cuts or (most is not None and count % most == 0):
                cuts.append({})
            cuts[-1].setdefault(place, []).append(asked)
    return [(number, _cut(message, cut)) for number, cuts in sorted(shares.items()) for cut in cuts]


def _cut(message: Any, cut: Mapping[int, Sequence[Any]]) -> Entity:
    topics = message.topics
    reduced: Entity = replace(
        message,
        topics=tuple(
            replace(topics[place], partitions=tuple(asked)) for place, asked in cut.items()
        ),
    )
    return reduced


def merge(key: int, message: Any, answers: Iterable[Any]) -> Entity:
    """Merge the answers to the parts: a result for each partition, in the request's order."""
    found: dict[tuple[Any, int], Any] = {}
    shape: Any = None
    for answer in answers:
        for topic in answer.results:
            shape = topic
            found.update(((topic.topic_id, row.partition), row) for row in topic.partitions)
    results: dict[Any, dict[int, Any]] = {}
    for topic in message.topics:
        for asked in topic.partitions:
            row = found.get((topic.topic_id, asked.partition))
            if row is not None:
                results.setdefault(topic.topic_id, {})[asked.partition] = row
    return blank(
        API[key].response,
        results=tuple(
            replace(shape, topic_id=topic_id, partitions=tuple(rows.values()))
            for topic_id, rows in results.items()
        ),
    )
