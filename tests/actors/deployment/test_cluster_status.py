"""The status tells who leads, who stands by, and what there is too little of."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.deployment.status import (
    as_text,
    cluster_status,
    exit_code,
    partition_status,
    problems,
)
from actors.errors import ExitCode
from failover.partition_kinds import SHARE_STATE
from failover.partitions.status import PartitionStatus

SPEC = ClusterSpec(
    cluster_id="cluster",
    places=on_one_host("h", (9092 + number for number in range(3))),
    console=Address(host="h", port=80),
    data_dir="data",
    overrides={},
    workers=0,
    replicas_wanted=3,
)


def partition(number: int, state: str, in_sync: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "partition": number,
        "state": state,
        "epoch": 4,
        "leader": -1,
        "log_start_offset": 0,
        "applied_offset": 0,
        "high_watermark": 9,
        "end_offset": 9,
        "voters": (0, 1, 2),
        "learners": (),
        "in_sync": in_sync,
        "is_voter": True,
        "lease_ms": 0,
        "waiting_ms": 0,
    }


def coordinator(*partitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "pid": 1,
        "state": "Running",
        "failure": "",
        "connections": 0,
        "linked": [],
        "sync_ms": {"p50": 1.5, "max": 230.0},
        "disk": {
            "log_bytes": 3 << 20,
            "free_bytes": 40 << 30,
            "total_bytes": 100 << 30,
            "set_aside": 1,
        },
        "partitions": list(partitions),
    }


def traces_line(*traces: tuple[str, bool]) -> list[str]:
    statuses = {
        node_id: {**coordinator(), "traces": {"go": go, "is_failing": is_failing}}
        for node_id, (go, is_failing) in enumerate(traces)
    }
    lines = as_text(cluster_status(SPEC, [1, 2, 3], statuses, [])).splitlines()
    return [line for line in lines if line.startswith("traces")]


def test_one_line_says_where_traces_go_and_whose_export_failed() -> None:
    backend, nowhere = "to http://collector:4318 by http/protobuf", "nowhere"
    assert traces_line() == [], "coordinators of an older version do not say it"
    assert traces_line((nowhere, False), (nowhere, False)) == ["traces    nowhere"]
    assert traces_line((backend, False), (backend, True)) == [
        f"traces    {backend}; the last export of coordinator 1 failed, see its log"
    ]
    assert traces_line((nowhere, False), (backend, False), (nowhere, False)) == [
        f"traces    nowhere from coordinator 0,2; {backend} from coordinator 1"
    ]


def two_of_three() -> dict[str, Any]:
    first = [partition(n, "Leader", (0, 1)) for n in (-1, 0, 2)]
    second = [partition(n, "Follower") for n in (-1, 0, 2)]
    statuses = {
        0: coordinator(*first, partition(1, "Follower")),
        1: coordinator(*second, partition(1, "Leader", (0, 1, 2))),
    }
    return cluster_status(SPEC, [1, 2, 3], statuses, [])


def test_the_status_says_who_runs_which_version_while_they_differ() -> None:
    first = {**coordinator(), "version": "0.1.0", "link_versions": {1: 5}}
    for other, line in (
        ("0.1.0", []),
        ("0.2.0", ["versions: 0.1.0 on coordinator 0,2; 0.2.0 on coordinator 1"]),
    ):
        statuses = {0: first, 1: {**first, "version": other}, 2: first}
        status = cluster_status(SPEC, [1, 2, 3], statuses, [])
        assert status["coordinators"][0]["link_versions"] == {"1": 5}  # as in JSON
        assert [row for row in as_text(status).splitlines() if row.startswith("versions")] == line


def test_what_a_later_version_says_of_a_partition_is_left_out() -> None:
    row = asdict(PartitionStatus(**partition(0, "Leader", (0, 1))))
    assert partition_status({**row, "added": "later"}) == PartitionStatus(**row)
    del row["is_slow"]
    assert not partition_status(row).is_slow


def test_the_status_of_a_coordinator_that_names_no_version_is_taken() -> None:
    status = cluster_status(SPEC, [1, 2, 3], {0: coordinator()}, [])
    assert status["coordinators"][0]["version"] == "unknown"
    assert "versions" not in as_text(status)


def test_the_status_shows_how_long_syncs_take_and_whether_leaders_may_answer() -> None:
    rows = [
        {**partition(0, "Leader", (0, 1, 2)), "lease_ms": 120},
        {**partition(1, "Leader", (0, 1, 2)), "waiting_ms": 1_500},
        partition(2, "Leader", (0, 1, 2)),
    ]
    lines = as_text(cluster_status(SPEC, [1, 2, 3], {0: coordinator(*rows)}, [])).splitlines()
    assert any("syncs take 1.5 ms, at most 230" in line for line in lines)
    said = [line.split("of 0,1,2")[-1] for line in lines if line.startswith("partition")]
    assert said == [
        ", lease for 120 ms",
        "partition 1: leader 0, epoch 4, in sync 0,1,2 of 1,2,0"
        ", NO LEASE: answers have waited for 1500 ms",
        "partition 2: leader 0, epoch 4, in sync 0,1,2 of 2,0,1, at rest without lease",
    ]


def test_the_status_shows_the_size_of_a_log_and_the_room_on_its_disk() -> None:
    status = cluster_status(SPEC, [1, 2, 3], {0: coordinator()}, [])
    assert ", log 3.0 MiB, 40 GiB of 100 GiB free, 1 log set aside" in as_text(status)
    assert status["coordinators"][0]["disk"]["set_aside"] == 1
    older = {name: value for name, value in coordinator().items() if name != "disk"}
    status = cluster_status(SPEC, [1, 2, 3], {0: older}, [])
    assert status["coordinators"][0]["disk"] == {}
    assert "free" not in as_text(status)


def test_a_partition_with_fewer_replicas_than_wanted_is_under_replicated() -> None:
    status = two_of_three()
    assert status["under_replicated"] == [-1, 0, 2, *SHARE_STATE.numbers(3)]  # nobody told of these
    assert [row["in_sync"] for row in status["partitions"]] == [[0, 1], [0, 1, 2], [0, 1]]
    told = "under-replicated: the catalogue, partition 0, partition 2, share state partition 0, "
    assert told in as_text(status)


def test_who_does_not_answer_leads_nothing_and_stands_by_for_nothing() -> None:
    rows = two_of_three()["coordinators"]
    assert [(row["leads"], row["stands_by"]) for row in rows] == [
        ([0, 2], [1]),
        ([1], [0, 2]),
        ([], []),
    ]
    assert rows[2]["state"] == "Restarting"


def test_without_a_leader_a_partition_has_none() -> None:
    row = cluster_status(SPEC, [0, 0, 0], {}, [])["partitions"][0]
    assert (row["leader"], row["in_sync"], row["under_replicated"]) == (None, [], True)


def test_too_few_coordinators_for_the_replicas_asked_for_are_said_in_a_sentence() -> None:
    small = replace(SPEC, places=SPEC.places[:1])
    assert small.replicas == 1
    wanted = (
        "offsets.topic.replication.factor is 3, but there is 1 coordinator: "
        "each partition has 1 replica"
    )
    assert small.shortage == wanted
    assert as_text(cluster_status(small, [1], {}, [])).endswith(wanted + ".")


def test_replicas_stand_by_for_their_neighbours() -> None:
    assert SPEC.placement() == ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    single = replace(SPEC, replicas_wanted=1)
    assert single.placement() == ((0,), (1,), (2,))
    assert single.catalog_voters() == (0,)


def test_a_minority_of_each_partitions_replicas_may_be_lost() -> None:
    assert SPEC.can_lose({1})
    assert not SPEC.can_lose({1, 2})
    assert not replace(SPEC, replicas_wanted=1).can_lose({1})
    five = replace(SPEC, places=SPEC.places + SPEC.places[:2], replicas_wanted=5)
    assert five.can_lose({0, 4})


def test_who_came_with_another_directory_than_it_was_formed_of_is_no_voter() -> None:
    formed = ("a", "b", "c")
    assert len(SPEC.identity(1, "b", formed).voters[2]) == 3
    assert SPEC.identity(1, "x", formed).voters == {}


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


def well() -> dict[str, Any]:
    """Return the status of a cluster of three that is all well."""
    numbers = [-1, *range(3), *SHARE_STATE.numbers(3)]
    leads = coordinator(*(partition(n, "Leader", (0, 1, 2)) for n in numbers))
    stands_by = coordinator(*(partition(n, "Follower") for n in numbers))
    return cluster_status(SPEC, [1, 2, 3], {0: leads, 1: stands_by, 2: stands_by}, [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda status: None, ExitCode.OK),
        (lambda status: status["coordinators"][1].update(state="Draining"), ExitCode.OK),
        (lambda status: status["coordinators"][1].update(state="Restarting"), ExitCode.DEGRADED),
        (lambda status: status["under_replicated"].append(2), ExitCode.DEGRADED),
        (lambda status: status.update(shortage="too few hosts"), ExitCode.DEGRADED),
        (lambda status: status.update(host_problems=["no spare host"]), ExitCode.DEGRADED),
        (lambda status: status["partitions"][2].update(leader=None), ExitCode.NO_LEADER),
        (lambda status: status["share_state"][0].update(leader=None), ExitCode.NO_LEADER),
        (lambda status: status["catalog"].update(leader=None), ExitCode.NO_LEADER),
    ],
)
def test_the_exit_code_says_whether_all_is_well(
    change: Callable[[dict[str, Any]], object], code: ExitCode
) -> None:
    status = well()
    change(status)
    assert exit_code(status) is code
