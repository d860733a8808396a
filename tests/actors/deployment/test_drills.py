"""What the controller does for drills, and what it refuses, without Ray."""

import asyncio
from dataclasses import asdict, replace
from typing import Any

import pytest

from actors.deployment import drills
from actors.deployment.controller import Controller
from actors.deployment.drills import DRILLS, Drills
from actors.errors import FailureError
from failover.partition_kinds import GROUPS
from tests.actors.deployment.test_controller import SPEC, Cluster, in_sync, status
from tests.failover.control.test_healing import leads

FIRST = GROUPS.number(0)


class Drilled(Cluster):
    """Three coordinators: all serve, each leads what it prefers, and does what it is told."""

    def __init__(self) -> None:
        super().__init__(in_sync(SPEC))
        self.controller = Controller(SPEC, self)
        for node in self.controller._nodes:
            node.pid, node.starts = 100 + node.node_id, 1
        self.is_deaf = False

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        node_id = int(name.rpartition("-")[2]) if name[-1].isdigit() else -1
        if self.is_deaf and method != "status":
            raise TimeoutError
        if method == "die":
            self.down(node_id)
            raise ValueError("it is dead")
        if method == "hand_over":
            self.statuses = in_sync(SPEC, drained=node_id)
            self.statuses[node_id]["state"] = "Draining"
            return []
        if method == "take_back":
            self.statuses[node_id]["state"] = "Running"
        if method == "transfer":
            partition, to = arguments
            led = asdict(replace(leads(0, 1, 2, partition=partition), epoch=99))
            self.statuses[to]["partitions"].append(led)
        return await super().ask(name, method, *arguments, wait_s=wait_s)

    def down(self, node_id: int) -> None:
        """Let a coordinator be gone."""
        self.controller._nodes[node_id].is_up = False
        self.statuses = in_sync(SPEC, drained=node_id)
        del self.statuses[node_id]

    async def drill(self, name: str, *arguments: int) -> str:
        """Carry out a drill."""
        return await self.controller.drills.carry_out(name, *arguments)


def said(name: str, *arguments: int, cluster: Drilled | None = None) -> str:
    """Return what was done, or why not."""

    async def test() -> str:
        drilled = cluster or Drilled()
        try:
            return await drilled.drill(name, *arguments)
        except FailureError as error:
            return f"refused: {error}"

    return asyncio.run(test())


def test_each_drill_says_what_it_did() -> None:
    async def test() -> None:
        cluster = Drilled()
        told = await cluster.drill("drain", 0)
        assert told.startswith("Coordinator 0 drains; now led: ")
        assert "partition 0 by 1" in told
        assert "refused" not in await cluster.drill("end-drain", 0)
        assert ("coordinator-0", "take_back") in cluster.told
        cluster = Drilled()
        assert await cluster.drill("move-leader", FIRST, 2) == (
            "The leader of partition 0 was moved from 0 to 2."
        )
        assert await cluster.drill("kill", 1) == (
            "Coordinator 1 (process 101) was killed; it is started again."
        )

    asyncio.run(test())


def test_a_kill_that_could_cost_a_majority_is_refused() -> None:
    async def test() -> None:
        cluster = Drilled()
        await cluster.drill("kill", 1)
        with pytest.raises(FailureError, match=r"^Coordinator 1 does not serve: with another one"):
            await cluster.drill("kill", 2)
        with pytest.raises(FailureError, match=r"^Coordinator 1 does not serve: "):
            await cluster.drill("kill", 1)
        assert 2 in cluster.statuses

    asyncio.run(test())


@pytest.mark.parametrize("lacks", [(0,), (0, 2)])
def test_a_kill_of_one_of_few_replicas_in_sync_is_refused(lacks: tuple[int, ...]) -> None:
    async def test() -> None:
        cluster = Drilled()
        for row in cluster.statuses[0]["partitions"]:
            if row["partition"] == FIRST:
                row["in_sync"] = lacks
        with pytest.raises(FailureError, match=r"partition 0 would have no majority: in sync are"):
            await cluster.drill("kill", 0)
        if 2 not in lacks:
            with pytest.raises(FailureError, match="no majority"):
                await cluster.drill("kill", 2)

    asyncio.run(test())


def test_a_kill_while_a_partition_has_no_leader_is_refused() -> None:
    cluster = asyncio.run(_made())
    cluster.statuses[0] = status([])
    assert said("kill", 1, cluster=cluster).endswith(" has no leader.")


async def _made() -> Drilled:
    return Drilled()


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("kill", (3,), "There is no coordinator 3."),
        ("drain", (-1,), "There is no coordinator -1."),
        ("end-drain", (0,), "Coordinator 0 is not Draining, but Running."),
        ("move-leader", (77_777, 1), "There is no partition 77777."),
        ("move-leader", (FIRST, 0), "Coordinator 0 leads partition 0 already."),
        ("move-leader", (FIRST, 5), "Coordinator 5 cannot take over partition 0: in sync are"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    name: str, arguments: tuple[int, ...], why: str
) -> None:
    assert said(name, *arguments).startswith(f"refused: {why}")


def test_a_coordinator_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drills, "SEEN_S", 0.1)

    async def test() -> None:
        cluster = Drilled()
        cluster.is_deaf = True
        for name, arguments in (("drain", (0,)), ("move-leader", (FIRST, 1))):
            with pytest.raises(FailureError, match=r"^A coordinator does not answer"):
                await cluster.drill(name, *arguments)
        with pytest.raises(FailureError, match=r"\(process 101\) could not be killed\.$"):
            await cluster.drill("kill", 1)

    asyncio.run(test())


def test_one_drill_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        may_end = asyncio.Event()

        async def wait(_: Drills, node_id: int) -> str:
            await may_end.wait()
            return f"done {node_id}"

        monkeypatch.setitem(DRILLS, "drain", wait)  # type: ignore[arg-type]
        cluster = Drilled()
        first = asyncio.create_task(cluster.drill("drain", 0))
        await asyncio.sleep(0)
        with pytest.raises(FailureError, match="Another drill is under way"):
            await cluster.drill("kill", 1)
        may_end.set()
        assert await first == "done 0"
        assert "was killed" in await cluster.drill("kill", 1)

    asyncio.run(test())
