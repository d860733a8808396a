"""The rack of a coordinator: from its Ray node, else from the config ``broker.rack``.

A Ray node's rack is in the environment of ``ray start``, or in Ray's label for availability zones.
On one machine, for rehearsals, the variable may have several: its coordinators are on them in turn.
Coordinators register it in the catalogue, which passes it to clients (Metadata) and assignors.
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
SEPARATOR: Final = ","
LABEL: Final = "ray.io/availability-zone"


def own_rack(labels: Mapping[str, str]) -> str | None:
    """Return the rack of this process's Ray node, whose labels these are; None if it has none."""
    return os.environ.get(VARIABLE, "").strip() or rack_of(labels)


def rack_of(labels: Mapping[str, str]) -> str | None:
    """Return the rack of a Ray node with these labels; None if they name none."""
    return labels.get(LABEL, "").strip() or None


def with_node_rack(spec: ClusterSpec, labels: Mapping[str, str], node_id: int) -> ClusterSpec:
    """Return the cluster as this coordinator of a Ray node sees it; ``labels`` are the node's."""
    racks = own_rack(labels)
    if racks is None:
        return spec
    each = racks.split(SEPARATOR)
    return replace(spec, overrides={**spec.overrides, RACK: each[node_id % len(each)].strip()})
