"""Seeds: whatever goes wrong, what clients see fits together, and everything comes to rest.

``ROLLCALL_SIMULATION_SEEDS`` says how many seeds to try (100), each another cluster.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from failover.simulation.__main__ import COLLECT_AFTER
from failover.simulation.faults.table import FAULTS
from failover.simulation.one_seed import Report, run_seed
from failover.simulation.settings import CALM, GroupMix, settings_for
from tests.simulation.hash_seeds import said

SEEDS = int(os.environ.get("ROLLCALL_SIMULATION_SEEDS", "100"))
ENOUGH = 60
"""From so many seeds on every fault is expected; up to as many again are tried for a rare one."""

MORE = 10

TRACE = """
from failover.simulation.one_seed import run_seed
from failover.simulation.settings import GroupMix
print([run_seed(seed, groups=GroupMix.ALL).trace for seed in (3, 4)])
"""


def reports(first: int, count: int) -> Iterator[Report]:
    with ProcessPoolExecutor(
        os.cpu_count(), initializer=gc.set_threshold, initargs=COLLECT_AFTER
    ) as pool:
        yield from pool.map(run_seed, range(first, first + count), chunksize=4)


@pytest.mark.timeout(120 + SEEDS * 20)
def test_no_fault_breaks_what_clients_and_replicas_rely_on() -> None:
    injected: Counter[str] = Counter()
    faults = {each.name for each in FAULTS}
    for first, count in [(0, SEEDS), *((more, MORE) for more in range(SEEDS, 2 * SEEDS, MORE))]:
        for report in reports(first, count):
            injected.update(report.injected)
            assert report.violation is None, (
                f"{report.violation}: python -m failover.simulation --seed {report.seed}"
            )
        missing = {name for name in faults if not injected[name]}
        if SEEDS < ENOUGH or not missing:
            break
    if SEEDS >= ENOUGH:
        assert missing == set()
    assert set(injected) <= faults, "add a row to the table of faults"


@pytest.mark.parametrize(
    ("groups", "seed"),
    [
        (GroupMix.CLASSIC, 1),
        (GroupMix.CONSUMER, 2),
        (GroupMix.MIXED, 0),
        (GroupMix.SHARE, 0),
        (GroupMix.STREAMS, 1),
    ],
)
def test_groups_with_spares_and_expected_instances_are_whole_when_they_have_none_any_more(
    groups: GroupMix, seed: int
) -> None:
    report = run_seed(seed, replace(settings_for(seed, groups), fleet=True))
    assert report.violation is None


def test_seed_180050_a_classic_leader_sees_that_a_topic_was_deleted() -> None:
    """A streams group became a classic one, whose leader kept a deleted topic for good."""
    report = run_seed(180050, groups=GroupMix.ANY)
    assert report.violation is None, report.violation


def test_seed_302508_a_clock_that_is_set_back_is_not_followed_alone() -> None:
    """A leader that had heard of no other clock stamped a commit hours too early: it expired."""
    report = run_seed(302508, groups=GroupMix.ANY)
    assert report.violation is None, report.violation


def test_seed_302945_a_slice_is_acknowledged_when_a_later_snapshot_is_there() -> None:
    """The checker took it for the last slice of the later one, which the slow disk did not have."""
    report = run_seed(302945, groups=GroupMix.ANY)
    assert report.violation is None, report.violation


def test_seed_303552_what_a_full_disk_lacks_is_read_from_a_log_that_is_the_same() -> None:
    """The checker read a leader's commits from a peer that had others of an earlier epoch there."""
    report = run_seed(303552, groups=GroupMix.ANY)
    assert report.violation is None, report.violation


def test_seed_308820_a_successor_waits_while_who_it_replaces_is_answered() -> None:
    """The checker had its request handled when it came, and not when it was answered."""
    report = run_seed(308820, groups=GroupMix.ANY)
    assert report.violation is None, report.violation


def test_a_quiet_cluster_stays_quiet() -> None:
    report = run_seed(1, CALM, tells=True)
    assert report.violation is None
    assert report.story is not None
    generations = {
        line.text.split("generation ")[1].split(",")[0]
        for line in report.story.lines
        if " assigned, " in line.text
    }
    assert generations == {"1"}


def test_a_seed_has_one_trace_whatever_the_hash_seed() -> None:
    assert len(said(TRACE)) == 1


def test_telling_the_story_changes_nothing() -> None:
    assert run_seed(7, tells=True).trace == run_seed(7).trace
