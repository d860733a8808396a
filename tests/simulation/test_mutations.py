"""The checkers bite: every planted bug is found.

``ROLLCALL_SIMULATION_ALL=1`` looks for each from seed 0 on, 300 seeds at most, instead of where it
is known to be found quickly. Bugs that seeds seldom meet are in ``test_staged_mutations.py``.
"""

import inspect
import os
from types import FunctionType
from typing import Any

import pytest

from failover.simulation.one_seed import run_seed
from tests.simulation.planted.bugs import FOUND_BY_SEEDS, PLANTED

ALL = bool(os.environ.get("ROLLCALL_SIMULATION_ALL"))
WITHIN = 300
QUICK = 40
"""Seeds, from a mutation's own on, of which one must find it: most often it is the first one."""


@pytest.mark.timeout(1_200 if ALL else 300)
@pytest.mark.parametrize("name", FOUND_BY_SEEDS)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = FOUND_BY_SEEDS[name]
    seeds = range(WITHIN) if ALL else range(mutation.seed, min(mutation.seed + QUICK, WITHIN))
    with mutation.planted():
        violations = (run_seed(seed, groups=mutation.groups).violation for seed in seeds)
        found = next((each for each in violations if each is not None), None)
    assert found is not None, f"{mutation.about}: nobody notices in {seeds}"
    assert ".<locals>." not in found.text, f"the planted bug has a bug: {found.text}"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_fits_what_it_replaces(name: str) -> None:
    """Otherwise it is found as an error of its own, whatever the checkers do."""
    for owner, attribute, value in PLANTED[name]():
        planted, before = (
            getattr(each, "fget", each) for each in (value, owner.__dict__[attribute])
        )
        if isinstance(planted, FunctionType) and isinstance(before, FunctionType):
            takes(planted, before)


def takes(function: FunctionType, before: FunctionType) -> None:
    """Raise TypeError if a function cannot be called as the one before."""
    signature: Any = inspect.signature(function)
    parameters = inspect.signature(before).parameters.values()
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    needed = [each for each in positional if each.default is each.empty]
    for given in (needed, positional):
        signature.bind(*given, **named)
