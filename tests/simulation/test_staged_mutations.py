"""Tests bite: each fails when the bug that is meant for it is planted, and only then."""

import pytest

from failover.simulation.event_log import Violation
from failover.simulation.patches import patched
from tests.simulation.planted.staged_mutations import STAGED_MUTATIONS

FAILURES = (AssertionError, Violation, pytest.fail.Exception)


@pytest.mark.parametrize("name", STAGED_MUTATIONS)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = STAGED_MUTATIONS[name]
    mutation.test()
    with patched(mutation.patches()), pytest.raises(FAILURES):
        mutation.test()
