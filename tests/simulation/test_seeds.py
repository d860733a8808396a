"""Seeds: whatever goes wrong, what clients see fits together, and everything comes to rest.

``ROLLCALL_SIMULATION_SEEDS`` says how many seeds to try (200), each another cluster.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from failover.simulation.runs import Report, run_seed
from failover.simulation.settings import CALM

SEEDS = int(os.environ.get("ROLLCALL_SIMULATION_SEEDS", "200"))
ROOT = Path(__file__).parents[2]
TRACE = "from failover.simulation.runs import run_seed; print(run_seed(7).trace)"


def reports() -> Iterator[Report]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(run_seed, range(SEEDS), chunksize=5)


@pytest.mark.timeout(60 + SEEDS * 5)
def test_no_fault_breaks_what_clients_and_replicas_rely_on() -> None:
    injected = set()
    for report in reports():
        injected.update(report.injected)
        assert report.violation is None, (
            f"{report.violation}: python -m failover.simulation --seed {report.seed}"
        )
    assert {"kill", "kill mid turn", "lose disk", "pause", "cut", "cut one way"} <= injected


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
    traces = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", TRACE], cwd=ROOT, env=environment, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        traces.add(done.stdout)
    assert len(traces) == 1


def test_telling_the_story_changes_nothing() -> None:
    assert run_seed(7, tells=True).trace == run_seed(7).trace
