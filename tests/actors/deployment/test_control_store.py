"""A process of Ray dies under a cluster: the coordinators go on, or start again by themselves."""

import os
import signal
import time
from contextlib import suppress

import psutil

from actors.cli import up
from tests.actors.deployment.test_cluster import answers
from tests.conftest import NewCluster, RunningCluster
from tests.waiting import patient, until

BACK_S = patient(60)
CONTROL_STORE, RAYLET = "gcs_server", "raylet"


def process(cluster: RunningCluster, name: str) -> int:
    """Return the process id of a part of a cluster's Ray; 0 if there is none."""
    for child in psutil.Process(cluster.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() == name and child.status() != psutil.STATUS_ZOMBIE:
                return child.pid
    return 0


def kill_until_it_is_back(cluster: RunningCluster, name: str) -> None:
    first = process(cluster, name)
    os.kill(first, signal.SIGKILL)
    until(lambda: process(cluster, name) not in (0, first), BACK_S, f"{name} is started again")


def test_a_control_store_that_dies_starts_again_and_restarts_what_dies_then(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster().start()
    before = [row["pid"] for row in cluster.coordinators_if_told()]
    kill_until_it_is_back(cluster, CONTROL_STORE)
    assert answers(cluster.bootstrap)
    assert [row["pid"] for row in cluster.coordinators_if_told()] == before, (
        "no coordinator noticed"
    )
    os.kill(before[1], signal.SIGKILL)

    def is_back() -> bool:
        rows = cluster.coordinators_if_told()
        return bool(rows) and rows[1]["pid"] != before[1] and rows[1]["state"] == "Running"

    until(is_back, BACK_S, "the coordinator runs again")
    assert cluster.stop() == 0


def test_a_raylet_that_dies_takes_the_cluster_down_and_it_starts_again(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(settings={"offsets.topic.num.partitions": "1"}).start()
    ready_s = time.monotonic()
    until(
        lambda: time.monotonic() > ready_s + up.STABLE_S,
        2 * up.STABLE_S,
        "the cluster has run for long enough",
    )
    kill_until_it_is_back(cluster, RAYLET)
    until(cluster.coordinators_if_told, BACK_S, "the cluster runs again")
    assert answers(cluster.bootstrap), "at the address that it had"
    assert cluster.stop() == 0
