"""Whether each behaviour of a scenario does something, and as much as it says.

Most that has no effect is seen in the file (:mod:`bench.scenarios.checks`). The rest depends on
what other behaviours have done before: it is seen in the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bench.scenarios.behaviours import Autoscale, Drain
from bench.scenarios.checks import tell
from bench.scenarios.plan import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.scenarios.checks import Mistake
    from bench.scenarios.files import ParsedScenario
    from bench.scenarios.plan import Cause, ScenarioPlan
    from bench.scenarios.scenario import Scenario

WHY: Final[Mapping[type, str]] = {
    Autoscale: "it never wants another number of pods",
    Drain: "no pod is on a drained node",
}
"""Why a behaviour does nothing, if there is no other reason."""
OTHERWISE: Final = "nothing of it happens before the end"


def checked_plan(file: ParsedScenario) -> ScenarioPlan:
    """Return the plan; raises DrillError: a sentence for each behaviour that does too little."""
    planner = Planner(file.scenario)
    plan = planner.run()
    tell(_mistakes(file, planner), file.what, file.line_of)
    return plan


def _mistakes(file: ParsedScenario, planner: Planner) -> Iterator[Mistake]:
    told = set()
    for group in file.scenario.groups:
        place = file.places[group.name]
        for number, behaviour in enumerate(group.behaviours):
            at, cause = (*place, "behaviours", number), (group.name, number)
            about = f"behaviour {number + 1} of group {group.application}"
            if at in told:
                continue
            if cause in planner.shortages:
                told.add(at)
                yield (*at, "pods"), f"{about}: {planner.shortages[cause]}."
            elif cause not in planner.effective and not _changes(file.scenario, cause):
                told.add(at)
                why = planner.remarks.get(cause, WHY.get(type(behaviour), OTHERWISE))
                yield at, f"{about} does nothing: {why}."


def _changes(scenario: Scenario, cause: Cause) -> bool:
    """Whether a group does something else with a behaviour than without it.

    What a behaviour allows may be done by one that began before: a pod that is wanted now is
    created once another one is ready.
    """
    name, _ = cause
    alone = replace(scenario, groups=tuple(each for each in scenario.groups if each.name == name))
    return Planner(alone).run().steps != Planner(alone, without=cause).run().steps
