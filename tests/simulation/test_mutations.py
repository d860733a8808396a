"""The checkers bite: every planted bug is found.

``ROLLCALL_SIMULATION_ALL=1`` looks for each from seed 0 on, 300 seeds at most, instead of where it
is known to be found quickly.
"""

import os

import pytest

from failover.simulation.one_seed import run_seed
from tests.simulation.answer_mutations import ANSWER_MUTATIONS
from tests.simulation.group_mutations import GROUP_MUTATIONS
from tests.simulation.log_mutations import LOG_MUTATIONS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.rule_mutations import RULE_MUTATIONS
from tests.simulation.term_mutations import TERM_MUTATIONS
from tests.simulation.type_mutations import TYPE_MUTATIONS

ALL = bool(os.environ.get("ROLLCALL_SIMULATION_ALL"))
QUICK = 40
"""Seeds, from a mutation's own on, of which one must find it: most often it is the first one."""

PLANTED = {
    **MUTATIONS,
    **GROUP_MUTATIONS,
    **ANSWER_MUTATIONS,
    **LOG_MUTATIONS,
    **TERM_MUTATIONS,
    **RULE_MUTATIONS,
    **TYPE_MUTATIONS,
}


@pytest.mark.timeout(1_200 if ALL else 300)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = PLANTED[name]
    seeds = range(300) if ALL else range(mutation.seed, mutation.seed + QUICK)
    with mutation.planted():
        found = next(
            (s for s in seeds if run_seed(s, groups=mutation.groups).violation is not None), None
        )
    assert found is not None, f"{mutation.about}: nobody notices in {seeds}"


def test_there_are_enough_planted_bugs() -> None:
    assert len(PLANTED) >= 40
