"""Uniform: every member gets as many partitions as the others, with as few moves as possible.

If racks are known, partitions first go where a replica is: see :mod:`protocol.assignors.racks`.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.heterogeneous import assign_heterogeneous
from protocol.assignors.homogeneous import assign_homogeneous
from protocol.assignors.kernels import check_spec
from protocol.assignors.racks import split_by_racks
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec, Int32s
from protocol.assignors.subscribers import populated_classes


class UniformAssignor:
    """Kafka's ``uniform``, the default assignor of consumer groups."""

    name = "uniform"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Assign an owner to every partition of a subscribed topic."""
        check_spec(spec)
        if spec.is_rack_aware and spec.partition_count:
            split = split_by_racks(spec)
            return GroupAssignment(split.owners(_assign(split.spec)))
        return GroupAssignment(_assign(spec))


def _assign(spec: GroupSpec) -> Int32s:
    populated = populated_classes(spec)
    if len(populated) == 0:
        return np.full(spec.partition_count, NOBODY, np.int32)
    if len(populated) == 1:
        first, end = spec.class_starts[populated[0]], spec.class_starts[populated[0] + 1]
        return assign_homogeneous(spec, spec.class_topics[first:end])
    return assign_heterogeneous(spec)
