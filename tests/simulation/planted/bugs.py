"""Every planted bug, by its name: found by seeds, by a staged test, or by a test beside it.

A new one is a row of a table in a module ``*mutations.py``, and is named in ``promises.py`` or
``checkers.py``. A new promise or checker needs a row there, with two planted bugs at least.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation import (
    test_damaged_log,
    test_demotions,
    test_leases_in_doubt,
    test_oversize,
    test_quiet,
    test_stale_machine,
)
from tests.simulation.planted.answer_mutations import ANSWER_MUTATIONS
from tests.simulation.planted.group_mutations import GROUP_MUTATIONS
from tests.simulation.planted.log_mutations import LOG_MUTATIONS
from tests.simulation.planted.mutations import MUTATIONS, Mutation
from tests.simulation.planted.promise_mutations import PROMISE_MUTATIONS
from tests.simulation.planted.rule_mutations import RULE_MUTATIONS
from tests.simulation.planted.staged_mutations import STAGED_MUTATIONS
from tests.simulation.planted.term_mutations import TERM_MUTATIONS
from tests.simulation.planted.type_mutations import TYPE_MUTATIONS

FOUND_BY_SEEDS: Final[Mapping[str, Mutation]] = {
    **MUTATIONS,
    **GROUP_MUTATIONS,
    **ANSWER_MUTATIONS,
    **LOG_MUTATIONS,
    **TERM_MUTATIONS,
    **RULE_MUTATIONS,
    **PROMISE_MUTATIONS,
    **TYPE_MUTATIONS,
}

BESIDE: Final[tuple[Callable[[], Any], ...]] = (
    *test_damaged_log.BUGS,
    test_demotions.demoted_machine_kept,
    *(bug for _, bug, _ in test_leases_in_doubt.STAGED),
    *test_oversize.BUGS,
    *test_quiet.BUGS,
    *test_quiet.ATTENDED_BUGS,
    *test_stale_machine.BUGS,
)
"""Planted in a short simulation, and looked for by a test in the same module."""

PLANTED: Final[Mapping[str, Callable[[], Any]]] = {
    **{name: each.patches for name, each in FOUND_BY_SEEDS.items()},
    **{name: each.patches for name, each in STAGED_MUTATIONS.items()},
    **{bug.__name__: bug for bug in BESIDE},
}
