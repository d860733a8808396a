"""Consumer groups, groups of members of both protocols, and assignor workers under seeded faults.

``ROLLCALL_SIMULATION_SEEDS`` (200) says how many seeds there are; an eighth of them is tried for
each choice of groups.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from failover.simulation.runs import Report, run_seed
from failover.simulation.settings import Groups
from tests.simulation.group_mutations import GROUP_MUTATIONS
from tests.simulation.hash_seeds import said

SEEDS = int(os.environ.get("ROLLCALL_SIMULATION_SEEDS", "200")) // 8
ALL = bool(os.environ.get("ROLLCALL_SIMULATION_ALL"))
QUICK = 32
"""Seeds, from a mutation's own on, of which one must find it: most often it is the first few."""
TRACE = """
from failover.simulation.runs import run_seed
from failover.simulation.settings import Groups
print([run_seed(seed, groups=Groups.ALL).trace for seed in (3, 4)])
"""
REGRESSIONS = (
    # A downgrade wrote down targets, and the upgrade right after it took them for what members had.
    (Groups.MIXED, 19),
    # A static member came back without its regular expression, and kept it all the same.
    (Groups.ALL, 3),
    # One record ended a target and began the next one: whoever replayed it lost the first.
    (Groups.CONSUMER, 55),
    # A worker's second answer about a regular expression passed for the one that was awaited.
    (Groups.CONSUMER, 2046),
    (Groups.ALL, 2075),
)


def reports(groups: Groups) -> Iterator[Report]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(partial(run_seed, groups=groups), range(SEEDS), chunksize=2)


@pytest.mark.timeout(120 + SEEDS * 8)
@pytest.mark.parametrize("groups", [Groups.CONSUMER, Groups.MIXED, Groups.ALL])
def test_no_fault_breaks_what_members_of_consumer_groups_rely_on(groups: Groups) -> None:
    injected = set()
    for report in reports(groups):
        injected.update(report.injected)
        assert report.violation is None, (
            f"{report.violation}: python -m failover.simulation --groups {groups}"
            f" --seed {report.seed}"
        )
    assert {"kill", "worker dies", "run answered twice"} <= injected
    if groups is not Groups.MIXED:
        assert {"subscription", "topic grows", "topic deleted"} <= injected
    if groups is not Groups.CONSUMER:
        assert {"protocol", "group migrates"} <= injected


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("groups", "seed"), REGRESSIONS)
def test_what_once_went_wrong_goes_well(groups: Groups, seed: int) -> None:
    assert run_seed(seed, groups=groups).violation is None


@pytest.mark.timeout(120)
def test_a_seed_with_consumer_groups_has_one_trace_whatever_the_hash_seed() -> None:
    assert len(said(TRACE)) == 1


@pytest.mark.timeout(1_200 if ALL else 300)
@pytest.mark.parametrize("name", GROUP_MUTATIONS)
def test_a_planted_bug_in_consumer_groups_is_found(name: str) -> None:
    mutation = GROUP_MUTATIONS[name]
    seeds = range(500) if ALL else range(mutation.seed, mutation.seed + QUICK)
    with mutation.planted():
        found = next(
            (s for s in seeds if run_seed(s, groups=mutation.groups).violation is not None), None
        )
    assert found is not None, f"{mutation.about}: nobody notices in {seeds}"
