"""The checkers bite: every planted bug is found.

``ROLLCALL_SIMULATION_ALL=1`` looks for each from seed 0 on, 500 seeds at most, instead of where it
is known to be found quickly.
"""

import os

import pytest

from failover.simulation.runs import run_seed
from failover.simulation.settings import rough_settings, settings_for
from tests.simulation.mutations import MUTATIONS

ALL = bool(os.environ.get("ROLLCALL_SIMULATION_ALL"))
QUICK = 20


def is_noticed(seed: int) -> bool:
    """Try a rough cluster, and a calmer one: some bugs need leaders that live for a while."""
    return any(
        run_seed(seed, settings(seed)).violation is not None
        for settings in (rough_settings, settings_for)
    )


@pytest.mark.timeout(1_200 if ALL else 120)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = MUTATIONS[name]
    seeds = range(500) if ALL else range(mutation.seed, mutation.seed + QUICK)
    with mutation.planted():
        found = next((seed for seed in seeds if is_noticed(seed)), None)
    assert found is not None, f"{mutation.about}: nobody notices in {seeds}"


def test_there_are_enough_planted_bugs() -> None:
    assert len(MUTATIONS) >= 12
