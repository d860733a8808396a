"""Whether this machine lets a process open as many files as the members of a scenario need."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from actors.errors import BadInputError
from actors.serving.admission import RESERVED_FILES
from bench.rehearsals.spark_tasks import task_of
from bench.scenarios.plan import Leave, Start, Vanish
from bench.scenarios.simulated import nodes_of
from bench.scenarios.values import Protocol

if TYPE_CHECKING:
    from bench.scenarios.plan import Life, ScenarioPlan
    from bench.scenarios.scenario import Scenario


def check_open_files(scenario: Scenario, plan: ScenarioPlan, tasks: int, *, is_own: bool) -> None:
    """Raise BadInputError if a process may open too few files for the members that there may be.

    ``tasks`` processes drive the members. ``is_own``: they join a cluster that is started here; a
    node has those of another one, too, while that is down.
    """
    nodes, everyone = nodes_of(scenario), {step.life for step in plan.steps}
    shares: list[set[Life]] = [set() for _ in range(tasks)]
    for life in everyone:
        shares[task_of(life, tasks)].add(life)
    connections = max(_connections(scenario, plan, each) for each in shares)
    if is_own:
        of_all = _connections(scenario, plan, everyone)
        connections = max(connections, -(-2 * of_all // nodes) if nodes > 1 else of_all)
    needed = connections + RESERVED_FILES
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if needed > allowed != resource.RLIM_INFINITY:
        raise BadInputError(
            f"{_most(plan, everyone)} members need {needed} open files in one process, and"
            f" {allowed} are allowed here: run `ulimit -n {needed}` in this shell, as root."
        )


def _connections(scenario: Scenario, plan: ScenarioPlan, some: set[Life]) -> int:
    """Return how many connections some of the members may have at once.

    Where many share one, each node has one that is not full, and classic members join over their
    own.
    """
    each = scenario.members_per_connection
    if each == 1:
        return _most(plan, some)
    protocols = {group.name: group.protocol for group in scenario.groups}
    classic = {
        life for life in some if (life.protocol or protocols[life.group]) is Protocol.CLASSIC
    }
    return _most(plan, classic) + _most(plan, some) // each + nodes_of(scenario)


def _most(plan: ScenarioPlan, some: set[Life]) -> int:
    """Return how many of these members there are at once, at most."""
    there = most = 0
    for step in plan.steps:
        if isinstance(step.action, Start | Leave | Vanish) and step.life in some:
            there += 1 if isinstance(step.action, Start) else -1
            most = max(most, there)
    return most
