"""Whether this machine lets a process open as many files as the members of a scenario need."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from actors.errors import BadInputError
from actors.serving.admission import RESERVED_FILES
from bench.scenarios.simulated import nodes_of

if TYPE_CHECKING:
    from bench.scenarios.scenario import Scenario


def check_open_files(scenario: Scenario, tasks: int, *, is_own: bool) -> None:
    """Raise BadInputError if a process may open too few files: each member has a connection.

    ``tasks`` processes drive the members. ``is_own``: they join a cluster that is started here; a
    node has those of another one, too, while that is down.
    """
    members = scenario.members
    in_process = -(-members // tasks)
    if is_own:
        nodes = nodes_of(scenario)
        in_process = max(in_process, -(-2 * members // nodes) if nodes > 1 else members)
    needed = in_process + RESERVED_FILES
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if needed > allowed != resource.RLIM_INFINITY:
        raise BadInputError(
            f"{members} members need {needed} open files in one process, and {allowed} are allowed"
            f" here: run `ulimit -n {needed}` in this shell, as root."
        )
