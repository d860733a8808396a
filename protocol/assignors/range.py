"""Range: of each topic, the first members in order get the first partitions.

Static members come first, by instance id, then dynamic ones by member id. Members with the same
subscriptions get the same partition indexes of topics of the same size (co-partitioning), and the
first members get one more when the division leaves a remainder. Previous owners do not matter.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.kernels import check_spec, kernel
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec, Int32s
from protocol.assignors.subscribers import Arrays, arrays_of, find_subscribers, populated_classes


class RangeAssignor:
    """Kafka's ``range`` assignor of consumer groups."""

    name = "range"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Assign an owner to every partition of a subscribed topic."""
        check_spec(spec)
        if spec.member_count == 0:
            return GroupAssignment(np.full(spec.partition_count, NOBODY, np.int32))
        order = _order(spec)
        arrays = arrays_of(spec)
        populated = populated_classes(spec)
        if len(populated) == 1:
            first, end = spec.class_starts[populated[0]], spec.class_starts[populated[0] + 1]
            topics = arrays.class_topics[first:end].copy()
            return GroupAssignment(_assign_same(arrays.partition_starts, topics, order))
        ordered = arrays._replace(member_class=arrays.member_class[order])
        return GroupAssignment(_assign_different(ordered, order))


def _order(spec: GroupSpec) -> Int32s:
    """Sort members: static ones by instance id, then the others, which are sorted already."""
    if not len(spec.instance_rank):
        return np.arange(spec.member_count, dtype=np.int32)
    rank = np.where(spec.instance_rank == NOBODY, np.iinfo(np.int32).max, spec.instance_rank)
    return np.argsort(rank, kind="stable").astype(np.int32)


@kernel
def _assign_same(starts: Int32s, topics: Int32s, order: Int32s) -> Int32s:
    owner = np.full(starts[-1], NOBODY, np.int32)
    for topic in topics:
        _divide(starts, topic, order, owner)
    return owner


@kernel
def _assign_different(arrays: Arrays, order: Int32s) -> Int32s:
    subscribers = find_subscribers(arrays)
    owner = np.full(arrays.partition_starts[-1], NOBODY, np.int32)
    for topic in range(len(arrays.partition_starts) - 1):
        first, end = subscribers.starts[topic], subscribers.starts[topic + 1]
        if first < end:
            _divide(arrays.partition_starts, topic, order[subscribers.members[first:end]], owner)
    return owner


@kernel
def _divide(starts: Int32s, topic: int, members: Int32s, owner: Int32s) -> None:
    """Give each member, in order, its share of a topic's partitions."""
    count = starts[topic + 1] - starts[topic]
    quota, extra = count // len(members), count % len(members)
    partition = starts[topic]
    for place in range(len(members)):
        share = quota + (place < extra)
        if share == 0:
            break
        owner[partition : partition + share] = members[place]
        partition += share
