"""What the page of the cluster says of a status."""

from typing import Any

import pytest

from actors.console.status_view import cluster_of
from failover.partition_kinds import GROUPS


def partition(number: int = 0, **more: Any) -> dict[str, Any]:
    known = {
        "partition": GROUPS.number(number), "leader": 0, "epoch": 4, "replicas": [0, 1],
        "in_sync": [0, 1], "learners": [], "high_watermark": 9_000, "lease_ms": 500,
        "waiting_ms": 0, "under_replicated": False,
    }  # fmt: skip
    return {**known, **more}


def status(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    node = {
        "node_id": 0, "pid": 7, "host": "h", "port": 9092, "ray_host": None, "leads": [0, 1],
        "stands_by": [], "state": "Running", "connections": 3, "version": "1",
    }  # fmt: skip
    known = {
        "cluster_id": "c", "bootstrap": "h:9092", "coordinators": [node], "share_state": [],
        "workers": [{"state": "Running", "pid": 1, "runs": 2, "waiting": 3}],
        "partitions": list(partitions), "catalog": partition(-1), "under_replicated": [],
        "shortage": "",
    }  # fmt: skip
    return {**known, **more}


def test_a_healthy_cluster_has_no_problems() -> None:
    found = cluster_of(status(partition()))
    assert found.problems == ()
    assert [(each.leader, each.remark) for each in found.partitions][1:] == [
        (0, "lease held; records: 9,000")
    ]
    assert [(each.name, each.runs, each.waiting) for each in found.workers] == [
        ("assignor 0", 2, 3)
    ]
    assert found.nodes[0].facts["Leads"] == "0, 1"
    assert found.nodes[0].facts["Disk"] == ""


def test_the_room_on_a_disk_is_shown() -> None:
    shown = status()
    shown["coordinators"][0]["disk"] = {
        "log_bytes": 1_536, "free_bytes": 1 << 30, "total_bytes": 1 << 40, "set_aside": 2,
    }  # fmt: skip
    said = cluster_of(shown).nodes[0].facts["Disk"]
    assert said == "log 1.5 KiB, 1.0 GiB of 1.0 TiB free, 2 logs set aside"


LOST = {"leader": None, "epoch": None, "in_sync": []}


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        (status(partition(**LOST)), "has no leader."),
        (status(partition(**LOST, problem="Too few are left.")), "Too few are left."),
        (status(under_replicated=[GROUPS.number(0)]), "Under-replicated: "),
        (status(shortage="there are 2 hosts"), "there are 2 hosts."),
        (status(host_problems=["a host is away"]), "a host is away"),
    ],
)
def test_each_problem_is_a_sentence(shown: dict[str, Any], problem: str) -> None:
    (said,) = cluster_of(shown).problems
    assert problem in said


def test_a_node_that_does_not_serve_is_one_too() -> None:
    shown = status()
    shown["coordinators"][0] |= {"state": "Restarting", "pid": None}
    assert cluster_of(shown).problems == ("Coordinator 0 does not serve: Restarting.",)
    shown["coordinators"][0]["failure"] = "its disk is full"
    assert cluster_of(shown).problems == ("Coordinator 0: its disk is full",)


@pytest.mark.parametrize(
    ("more", "remark"),
    [
        ({"waiting_ms": 1_500}, "no lease: answers have waited for 1.5 s"),
        ({"lease_ms": 0}, "at rest, without lease"),
        ({"learners": [2]}, "lease held; catching up: 2"),
    ],
)
def test_the_lease_and_what_catches_up_are_remarked(more: dict[str, Any], remark: str) -> None:
    shown = cluster_of(status(partition(**more))).partitions[1]
    assert shown.remark == f"{remark}; records: 9,000"
