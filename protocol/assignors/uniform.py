"""Uniform: every member gets as many partitions as the others, and what moves is kept small."""

from __future__ import annotations

import numpy as np

from protocol.assignors.heterogeneous import assign_heterogeneous
from protocol.assignors.homogeneous import assign_homogeneous
from protocol.assignors.kernels import check_spec
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec
from protocol.assignors.subscribers import populated_classes


class UniformAssignor:
    """Kafka's ``uniform``, the default assignor of consumer groups."""

    name = "uniform"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Give every partition of a subscribed topic an owner."""
        check_spec(spec)
        populated = populated_classes(spec)
        if len(populated) == 0:
            return GroupAssignment(np.full(spec.partition_count, NOBODY, np.int32))
        if len(populated) == 1:
            first, end = spec.class_starts[populated[0]], spec.class_starts[populated[0] + 1]
            return GroupAssignment(assign_homogeneous(spec, spec.class_topics[first:end]))
        return GroupAssignment(assign_heterogeneous(spec))
