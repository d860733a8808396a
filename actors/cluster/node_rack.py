"""Which rack a coordinator is on: its Ray node says so, else the config ``broker.rack`` for all.

A Ray node says it by the environment that ``ray start`` had, or by the label that Ray knows zones
by. Coordinators tell the catalogue, which tells clients (Metadata) and assignors.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.cluster.spec import ClusterSpec

RACK: Final = "broker.rack"
VARIABLE: Final = "ROLLCALL_RACK"
LABEL: Final = "ray.io/availability-zone"


def with_node_rack(spec: ClusterSpec, labels: Mapping[str, str]) -> ClusterSpec:
    """Return the cluster as the coordinators of this Ray node see it; ``labels`` are the node's."""
    rack = os.environ.get(VARIABLE, "").strip() or labels.get(LABEL, "").strip()
    if not rack:
        return spec
    return replace(spec, overrides={**spec.overrides, RACK: rack})
