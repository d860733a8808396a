"""What ``rollcall status`` says of partitions that nobody can lead any more."""

from dataclasses import asdict
from typing import Any

from actors.cluster_status import as_text, cluster_status, problems
from actors.spec import Address, ClusterSpec
from failover.status import PartitionStatus

SPEC = ClusterSpec(
    cluster_id="c",
    listeners=tuple(Address(host="127.0.0.1", port=9092 + node) for node in range(3)),
    console=Address(host="127.0.0.1", port=80),
    data_dir="data",
    overrides={},
    workers=0,
    secret=b"secret",
    replicas_wanted=3,
)


def said_by(node_id: int, *, is_voter: bool, leader: int = -1) -> dict[str, Any]:
    rows = [
        PartitionStatus(
            partition=number,
            state="Leader" if leader == node_id else "Follower",
            epoch=1, leader=leader, log_start_offset=0, applied_offset=0, high_watermark=0,
            end_offset=0, voters=(0, 1, 2), learners=(), in_sync=(0, 1, 2), is_voter=is_voter,
        )
        for number in range(-1, 3)
    ]  # fmt: skip
    return {
        "pid": 1, "state": "Running", "connections": 0, "linked": [], "failure": "",
        "partitions": [asdict(row) for row in rows],
    }  # fmt: skip


def test_a_lost_majority_is_said_in_the_status_and_by_every_partition_that_lost_it() -> None:
    statuses = {0: said_by(0, is_voter=False), 1: said_by(1, is_voter=True)}
    statuses[2] = said_by(2, is_voter=False)
    found = problems(SPEC, statuses)
    assert [problem.split(" has no majority")[0] for problem in found] == [
        "the catalogue", "partition 0", "partition 1", "partition 2",
    ]  # fmt: skip
    text = as_text(cluster_status(SPEC, [1, 1, 1], statuses, []))
    assert all(problem in text.splitlines() for problem in found)


def test_nothing_is_said_while_somebody_leads() -> None:
    statuses = {node: said_by(node, is_voter=node == 0, leader=0) for node in range(3)}
    assert problems(SPEC, statuses) == []
    status = cluster_status(SPEC, [1, 1, 1], statuses, [])
    assert "majority" not in as_text(status)
    assert [row["leader"] for row in status["partitions"]] == [0, 0, 0]
