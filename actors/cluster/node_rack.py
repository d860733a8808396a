"""The rack of a coordinator: from its Ray node, else from the config ``broker.rack``.

A Ray node's rack is in the environment of ``ray start``, or in Ray's label for availability zones.
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
LABEL: Final = "ray.io/availability-zone"


def own_rack(labels: Mapping[str, str]) -> str | None:
    """Return the rack of this process's Ray node, whose labels these are; None if it has none."""
    return os.environ.get(VARIABLE, "").strip() or rack_of(labels)


def rack_of(labels: Mapping[str, str]) -> str | None:
    """Return the rack of a Ray node with these labels; None if they name none."""
    return labels.get(LABEL, "").strip() or None


def with_node_rack(spec: ClusterSpec, labels: Mapping[str, str]) -> ClusterSpec:
    """Return the cluster as the coordinators of this Ray node see it; ``labels`` are the node's."""
    rack = own_rack(labels)
    return spec if rack is None else replace(spec, overrides={**spec.overrides, RACK: rack})
