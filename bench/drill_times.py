"""About how long drills take, for whoever is about to start one.

The figures were measured on two cores that other programs used at the same time. How long a drill
pauses between its steps is exact.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench.host_drills.table import AWAY_S
from bench.load.rehearsal import WARM_UP_S
from failover.drills.drill import OF_MEMBERS, Action, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.host_drills.table import HostDrill
    from failover.drills.drill import Drill, DrillStep

OWN_CLUSTER_S: Final = 40.0
"""To start three coordinators until all replicas are in sync, and to stop them."""

JOINED_PER_S: Final = 200.0
"""Members that join in a second before the first step."""

LASTS_S: Final[Mapping[Action, float]] = MappingProxyType(
    {
        Action.KILL: 10.0,
        Action.LOSE_DISK: 15.0,
        Action.ROLL: 20.0,
        Action.RESTART_MEMBERS: 5.0,
        Action.JOIN_MEMBERS: 5.0,
    }
)
"""From a fault until the cluster or the members are whole again; for a roll, each node."""

NODES: Final = 3
ROUND_S: Final = 5
FOOTNOTE: Final = (
    "About: on two cores that other programs use, too. A busy machine takes several times as long,"
    " and\nthe first start of an installation a minute more, as it compiles the assignors. With"
    " --hosts, the\nstart of the hosts with Ray and a cluster, and each boot, take a minute or more"
    " each, beside the time that\nis told. Every wait has an end: a sentence says what had not"
    " happened by then."
)


def own_seconds(drill: Drill) -> int:
    """Return about how long a drill takes with a cluster and members of its own."""
    workload = drill.workload
    disks_s = OWN_CLUSTER_S if drill.does(Action.FILL_DISK) else 0.0  # it is started twice
    joins_s = workload.heartbeat_interval_ms / 1000 + workload.members / JOINED_PER_S
    return _rounded(OWN_CLUSTER_S + disks_s + joins_s + _played_s(drill))


def watched_seconds(drill: Drill) -> int | None:
    """Return about how long it takes with ``--group``; None: it needs members of its own."""
    if any(drill.does(action) for action in OF_MEMBERS):
        return None
    return _rounded(_played_s(drill))


def told_times(drill: Drill) -> str:
    """Return both in words."""
    watched_s = watched_seconds(drill)
    watched = "" if watched_s is None else f", {watched_s} s with --group"
    return f"about {own_seconds(drill)} s{watched}"


def host_seconds(row: HostDrill) -> int:
    """Return how long a drill takes beside the boots of its hosts, on the fewest that it has."""
    workload = row.drill().workload
    return _rounded(
        WARM_UP_S
        + (workload.heartbeat_interval_ms + workload.settle_ms) / 1000
        + row.pauses * AWAY_S
    )


def _played_s(drill: Drill) -> float:
    """Return what passes from Stable on: waits of the steps, and what they wait for."""
    slept_ms = drill.workload.settle_ms + sum(step.after_ms for step in drill.steps)
    lasts = {step.do: _lasts_s(step) for step in drill.steps}
    return WARM_UP_S + slept_ms / 1000 + sum(lasts.values())


def _lasts_s(step: DrillStep) -> float:
    nodes = NODES if step.do is Action.ROLL and step.target is Target.ALL else 1
    return nodes * LASTS_S.get(step.do, 0.0)


def _rounded(seconds: float) -> int:
    return ROUND_S * math.ceil(seconds / ROUND_S)
