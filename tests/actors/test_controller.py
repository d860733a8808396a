"""What the controller's actor tells coordinators, given what they say of themselves."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from actors.controller import Controller
from actors.spec import Address, ClusterSpec
from failover.status import PartitionStatus
from tests.failover.test_healing import leads, row
from tests.waiting import until_async

SPEC = ClusterSpec(
    cluster_id="controlled",
    listeners=tuple(Address(host="127.0.0.1", port=1) for _ in range(3)),
    console=Address(host="127.0.0.1", port=0),
    data_dir="/nonexistent",
    overrides={},
    workers=0,
    secret=b"",
    replicas_wanted=3,
)
EVERYTHING = range(-1, 3)


def status(rows: list[PartitionStatus], *, is_damaged: bool = False) -> dict[str, Any]:
    return {
        "state": "Failed" if is_damaged else "Running", "pid": 1, "is_damaged": is_damaged,
        "partitions": [asdict(one) for one in rows], "failure": "", "connections": 0, "linked": [],
    }  # fmt: skip


class Cluster:
    """Coordinators that answer with a status and remember what they are told."""

    def __init__(self, statuses: Mapping[int, dict[str, Any]]) -> None:
        self.statuses = statuses
        self.told: list[tuple[str, str]] = []
        self.asked = 0

    async def ask(self, name: str, method: str, *_: object, wait_s: float = 0) -> Any:
        if method == "status":
            self.asked += 1
            return self.statuses[int(name.rsplit("-", 1)[1])]
        self.told.append((name, method))
        return None


@pytest.mark.parametrize("is_voter", [False, True], ids=["empty learner", "voter in sync"])
def test_a_damaged_node_begins_empty_only_when_a_majority_without_it_is_sound(
    is_voter: bool,
) -> None:
    """S7: node 0 runs, but as an empty learner; node 1 is damaged; node 2 has everything."""
    statuses = {
        0: status([row(n, is_voter=is_voter) for n in EVERYTHING]),
        1: status([], is_damaged=True),
        2: status([leads(0, 2, partition=n) for n in EVERYTHING]),
    }

    async def test() -> None:
        cluster = Cluster(statuses)
        looking = asyncio.create_task(Controller(SPEC, cluster)._look())

        async def has_looked() -> bool:
            return cluster.asked >= 6

        await until_async(has_looked, 10, "the controller has looked twice")
        looking.cancel()
        assert (("coordinator-1", "start_anew") in cluster.told) is is_voter

    asyncio.run(test())
