"""What the controller's actor tells coordinators, given what they say of themselves."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.deployment import controller as controller_module
from actors.deployment import mover
from actors.deployment.controller import SEEN_MS, Controller
from actors.deployment.status import as_text
from actors.errors import FailureError
from failover.control.leadership_planner import Campaign
from failover.partition_kinds import CATALOG, PLACED
from failover.partitions.status import PartitionStatus
from tests.failover.control.test_healing import leads, row
from tests.waiting import WITHIN_S, until_async

SPEC = ClusterSpec(
    cluster_id="controlled",
    places=on_one_host("127.0.0.1", (1 for _ in range(3))),
    console=Address(host="127.0.0.1", port=0),
    data_dir="/nonexistent",
    overrides={},
    workers=0,
    replicas_wanted=3,
)
AT_HOME = {CATALOG.first: 0, **{kind.number(n): n for kind in PLACED for n in range(3)}}
ON_NODE_2 = dict.fromkeys(AT_HOME, 2)


def status(rows: list[PartitionStatus], *, is_damaged: bool = False) -> dict[str, Any]:
    return {
        "state": "Failed" if is_damaged else "Running", "pid": 1, "is_damaged": is_damaged,
        "partitions": [asdict(one) for one in rows], "failure": "", "connections": 0, "linked": [],
    }  # fmt: skip


class Cluster:
    """Coordinators that answer with a status and remember what they are told."""

    def __init__(self, statuses: dict[int, dict[str, Any]]) -> None:
        self.statuses = statuses
        self.told: list[tuple[str, str]] = []
        self.asked = 0

    async def ask(self, name: str, method: str, *_: object, wait_s: float = 0) -> Any:
        if method == "status":
            self.asked += 1
            return self.statuses[int(name.rsplit("-", 1)[1])]
        if method == "metrics":
            return {}
        self.told.append((name, method))
        return None


@pytest.mark.parametrize("is_up", [True, False], ids=["just started", "its port is closed"])
@pytest.mark.parametrize("is_voter", [False, True], ids=["empty learner", "voter in sync"])
def test_a_damaged_node_begins_empty_only_when_a_majority_without_it_is_sound(
    is_voter: bool, is_up: bool
) -> None:
    """S7: node 0 runs, but as an empty learner; node 1 is damaged; node 2 has everything."""
    statuses = {
        0: status([row(n, is_voter=is_voter) for n in AT_HOME]),
        1: status([], is_damaged=True),
        2: status([leads(0, 2, partition=n) for n in AT_HOME]),
    }

    async def test() -> None:
        cluster = Cluster(statuses)
        controller = Controller(SPEC, cluster)
        controller._nodes[1].is_up = is_up
        looking = asyncio.create_task(controller._look())

        async def has_looked() -> bool:
            return cluster.asked >= 6

        await until_async(has_looked, WITHIN_S, "the controller has looked twice")
        looking.cancel()
        assert (("coordinator-1", "start_empty") in cluster.told) is is_voter

    asyncio.run(test())


class Willing(Cluster):
    """Coordinators of which each hands over what it is told to."""

    def __init__(self, leader: int) -> None:
        self.leaders = dict.fromkeys(AT_HOME, leader)
        super().__init__({})
        self._show()

    def _show(self) -> None:
        self.statuses = {
            node_id: status(
                [
                    leads(0, 1, 2, partition=n) if node_id == leader else row(n)
                    for n, leader in self.leaders.items()
                ]
            )
            for node_id in range(3)
        }

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        if method == "transfer":
            partition, to = arguments
            assert name == f"coordinator-{self.leaders[partition]}"
            self.leaders[partition] = to
            self._show()
        return await super().ask(name, method, *arguments, wait_s=wait_s)


@pytest.mark.parametrize(("enabled", "home"), [("true", AT_HOME), ("false", ON_NODE_2)])
def test_a_cluster_that_starts_is_ready_when_preferred_nodes_lead(
    enabled: str, home: dict[int, int]
) -> None:
    """The node that is up first leads everything, groups and catalogue, if nothing may be moved."""
    spec = replace(SPEC, overrides={"auto.leader.rebalance.enable": enabled})

    async def test() -> None:
        cluster = Willing(leader=2)
        controller = Controller(spec, cluster)
        looking = asyncio.create_task(controller._look())
        await asyncio.wait_for(controller.settle(), WITHIN_S)
        looking.cancel()
        assert cluster.leaders == home

    asyncio.run(test())


class Silent(Cluster):
    """Coordinators whose first answers do not arrive: the network has just been mended."""

    def __init__(self, statuses: dict[int, dict[str, Any]], lost: int) -> None:
        super().__init__(statuses)
        self.lost = lost

    async def ask(self, name: str, method: str, *arguments: object, wait_s: float = 0) -> Any:
        if method == "status" and name == "coordinator-0" and self.lost:
            self.lost -= 1
            raise TimeoutError
        return await super().ask(name, method, *arguments, wait_s=wait_s)


def test_an_overview_asks_only_what_the_last_look_does_not_say() -> None:
    async def test() -> None:
        cluster = Cluster({n: status([row(one) for one in AT_HOME]) for n in range(3)})
        controller = Controller(SPEC, cluster)

        async def asks(told: int) -> int:
            before = cluster.asked
            found = await controller.overview()
            assert [each["state"] for each in found["coordinators"]].count("Running") == told
            return cluster.asked - before

        assert await asks(3) == 3, "it has not looked yet"
        looking = asyncio.create_task(controller._look())

        async def has_looked() -> bool:
            return controller._seen_ms > 0

        await until_async(has_looked, WITHIN_S, "the controller has looked")
        looking.cancel()
        assert await asks(3) == 0
        node = controller._nodes[2]
        node.is_up, node.pid = False, 1
        assert await asks(2) == 2, "one has died since"
        node.is_up = True
        assert await asks(3) == 0
        controller._seen_ms -= 2 * SEEN_MS
        assert await asks(3) == 3, "it has not looked for long"

    asyncio.run(test())


def test_a_coordinator_that_was_cut_off_is_asked_until_it_answers() -> None:
    """It runs on as before, and has no reason to announce itself again."""

    async def test() -> None:
        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)

        connections: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        spec = replace(SPEC, places=on_one_host("127.0.0.1", [port, 1, 1]))
        controller = Controller(spec, Silent({0: status([])}, lost=2))
        node = controller._nodes[0]
        node.pid, node.is_up = 1, False
        watching = asyncio.create_task(controller._watch(node))

        async def is_up() -> bool:
            return node.is_up

        await until_async(is_up, WITHIN_S, "it is known to be up")
        assert len(connections) == 1
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await controller.stop()
        connections[0].close()
        server.close()

    asyncio.run(test())


class Hosts:
    """Three hosts and one that joined; moves and restorations are recorded."""

    def __init__(self, living: str = "abcd") -> None:
        self.absent_ids: set[int] = set()
        self.done: list[tuple[str, int]] = []
        self.asked_for_homes = 0
        self.newest_homes = ""
        self._living = living

    def living(self) -> dict[str, None]:
        return dict.fromkeys(self._living)

    def at_home(self, spec: ClusterSpec, node_ids: Sequence[int]) -> ClusterSpec:
        self.asked_for_homes += 1
        if not self.newest_homes:
            raise FailureError("No host answers.")
        for node_id in node_ids:
            spec = moved(spec, node_id, self.newest_homes[node_id])
        return spec

    def absent(self, node_ids: Sequence[int]) -> list[int]:
        return [node_id for node_id in node_ids if node_id in self.absent_ids]

    def restore(self, spec: ClusterSpec, node_id: int) -> ClusterSpec:
        self.done.append(("restore", node_id))
        self.absent_ids.clear()
        return spec

    def start_empty(self, spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
        self.done.append((f"start empty on {host}", node_id))
        return moved(spec, node_id, host)

    def move(self, spec: ClusterSpec, node_id: int, host: str, limits: object) -> ClusterSpec:
        self.done.append((f"move to {host}", node_id))
        return moved(spec, node_id, host)


def moved(spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
    return spec.with_place(node_id, replace(spec.places[node_id], ray_host=host))


def on_hosts(homes: str) -> ClusterSpec:
    """Return a cluster with these hosts, with two more coordinators than replicas."""
    spec = replace(SPEC, places=on_one_host("127.0.0.1", (1 for _ in homes)))
    for node_id, host in enumerate(homes):
        spec = moved(spec, node_id, host)
    return spec


def in_sync(spec: ClusterSpec, drained: int = -1) -> dict[int, dict[str, Any]]:
    """Return what all coordinators say; each leads what it should, except a drained one."""
    nodes = range(spec.partitions)
    statuses = {node_id: status([]) for node_id in nodes}
    numbers = {n: spec.nodes_of(n) for kind in PLACED for n in kind.numbers(spec.partitions)}
    for number, held in {**numbers, CATALOG.first: spec.catalog_voters()}.items():
        led = leads(*held, partition=number)
        leader = next(node_id for node_id in held if node_id != drained)
        for node_id in held:
            follower = replace(row(number), leader=leader, epoch=led.epoch)
            found = replace(led, leader=leader) if node_id == leader else follower
            statuses[node_id]["partitions"].append(asdict(found))
    return statuses


def controlled(homes: str) -> tuple[Controller, Cluster, Hosts]:
    spec = on_hosts(homes)
    cluster, hosts = Cluster(in_sync(spec)), Hosts()
    return Controller(spec, cluster, hosts), cluster, hosts


class HandsOver(Cluster):
    """Coordinators that hand over what they are told to."""

    def __init__(self, spec: ClusterSpec) -> None:
        super().__init__(in_sync(spec))
        self._spec = spec

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        if method == "transfer":
            self.statuses = in_sync(self._spec, drained=int(name.rsplit("-", 1)[1]))
        return await super().ask(name, method, *arguments, wait_s=wait_s)


class ElectsLater(Cluster):
    """A coordinator hands over all but ``left``; others lead only after some looks."""

    def __init__(self, spec: ClusterSpec, left: Sequence[int] = ()) -> None:
        super().__init__(in_sync(spec))
        self._drained = in_sync(spec, drained=0)
        self._left = list(left)
        self._has_handed_over = False
        self._looks = 0

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        if method == "hand_over":
            self._has_handed_over = True
            rows = self.statuses[0]["partitions"]
            self.statuses[0] = {
                **self.statuses[0],
                "partitions": [
                    one if one["partition"] in self._left else {**one, "state": "Follower"}
                    for one in rows
                ],
            }
            return self._left
        if method == "status" and name.endswith("-1") and self._has_handed_over:
            self._looks += 1
            if self._looks == 3:
                self.statuses |= {1: self._drained[1], 2: self._drained[2]}
        return await super().ask(name, method, *arguments, wait_s=wait_s)


def test_a_drain_waits_for_the_leaders_of_what_was_handed_over() -> None:
    """For a moment nobody leads it: the old leader has stepped down, the election is under way."""

    async def test() -> None:
        controller = Controller(SPEC, ElectsLater(SPEC))
        rows = await controller.drain(0)
        assert rows
        assert {row.partition: row.leader for row in rows if row.leader is None} == {}

    asyncio.run(test())


def test_a_drain_says_what_could_not_be_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rollcall.controller")

    async def test() -> None:
        controller = Controller(SPEC, ElectsLater(SPEC, left=[CATALOG.first]))
        rows = await controller.drain(0)
        assert [row.partition for row in rows if row.leader is None] == [CATALOG.first]
        controller.announce(0, pid=7)

    asyncio.run(test())
    began, ended, restarted = caplog.messages
    assert began == "coordinator 0 is being drained: it leads 3 partitions"
    assert ended == (
        "coordinator 0 is drained: 2 of its 3 leaderships went to others, 2 to coordinator 1;"
        " no new leader is known of the catalogue"
    )
    assert restarted == "the drain of coordinator 0 has ended: it has restarted"


def test_the_end_of_a_drain_and_orders_are_logged_as_sentences(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rollcall.controller")

    async def test() -> None:
        controller = Controller(SPEC, Cluster({}))
        await controller.end_drain(2)
        await controller._give([Campaign(1, 0), Campaign(1, -1)])

    asyncio.run(test())
    assert caplog.messages == [
        "the drain of coordinator 2 has ended: it may lead again",
        "coordinator 1 is asked to stand for election in partition 0 and the catalogue",
    ]


def test_a_console_that_is_not_at_its_port_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def told(port: int) -> Address:
        spec = replace(SPEC, console=Address(host="127.0.0.1", port=80))
        controller = Controller(spec, Cluster({}))
        controller.console_at(Address(host="127.0.0.1", port=port))
        return controller.spec.console

    assert asyncio.run(told(80)).port == 80
    assert caplog.messages == []
    assert asyncio.run(told(81)).port == 81
    assert caplog.messages == [
        "The console's port 80 cannot be used on its host: until the console starts again, it is at"
        " http://127.0.0.1:81."
    ]


def test_a_controller_that_starts_again_asks_where_the_console_is() -> None:
    where = Address(host="127.0.0.1", port=8_080)

    class WithConsole(Cluster):
        async def ask(self, name: str, method: str, *rest: object, wait_s: float = 0) -> Any:
            if name == "console":
                return where
            return await super().ask(name, method, *rest, wait_s=wait_s)

    async def test() -> None:
        controller = Controller(SPEC, WithConsole({}))
        await controller.start()

        async def is_known() -> bool:
            return controller.spec.console == where

        await until_async(is_known, WITHIN_S, "the controller knows where the console is")
        await controller.stop()

    asyncio.run(test())


def test_a_coordinator_moves_after_its_leaderships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "SPARE_LOOK_S", 0.01)

    async def test() -> None:
        cluster, hosts = HandsOver(on_hosts("abcabc")), Hosts()
        controller = Controller(on_hosts("abcabc"), cluster, hosts)
        looking = asyncio.create_task(controller._look())
        (first,) = await controller.mover.moves()
        with pytest.raises(FailureError, match="have changed"):
            await controller.mover.move(1, "d", 1_000)
        assert (await controller.status())["balance"] == (
            "Hosts without coordinators: d; `rollcall balance` moves 1 coordinator."
        )
        await controller.mover.move(first.node_id, first.host, 1_000)
        assert {told for told in cluster.told if told[1] == "transfer"} == {
            ("coordinator-0", "transfer")
        }
        assert hosts.done == [("move to d", 0)]
        assert await controller.mover.moves() == ()
        assert (await controller.status())["balance"] == ""
        looking.cancel()

    asyncio.run(test())


def test_a_host_that_is_to_be_taken_away_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "SPARE_LOOK_S", 0.01)

    async def test() -> None:
        cluster, hosts = HandsOver(on_hosts("abcabc")), Hosts()
        controller = Controller(on_hosts("abcabc"), cluster, hosts)
        looking = asyncio.create_task(controller._look())
        moves = await controller.mover.moves(["b"])
        assert [(move.node_id, move.home, move.host) for move in moves[:2]] == [
            (1, "b", "d"),
            (4, "b", "d"),
        ]
        with pytest.raises(FailureError, match="have changed"):
            await controller.mover.move(1, "d", 1_000)  # a plain balance moves another one
        for move in moves:
            await controller.mover.move(move.node_id, move.host, 1_000, ["b"])
        assert hosts.done == [("move to d", 1), ("move to d", 4)]
        assert await controller.mover.moves(["b"]) == ()
        status = await controller.status()
        assert status["hosts"] == {"a": [0, 3], "b": [], "c": [2, 5], "d": [1, 4]}
        assert "host b: no coordinators\nhost c: coordinators 2,5\n" in as_text(status)
        looking.cancel()

    asyncio.run(test())


def test_without_room_a_host_is_not_emptied_unless_replicas_may_share_one() -> None:
    async def test() -> None:
        controller, _, hosts = controlled("abca")
        with pytest.raises(FailureError, match="There is not enough room without b, d: several"):
            await controller.mover.moves(["b", "d"])
        assert [move.node_id for move in await controller.mover.moves(["b", "d"], True)] == [1]
        assert hosts.done == []

    asyncio.run(test())


def test_a_coordinator_that_leads_or_is_needed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "SPARE_LOOK_S", 0.01)
    monkeypatch.setattr(mover, "SPARE_LOOKS", 2)

    async def test() -> None:
        cluster, hosts = Cluster(in_sync(on_hosts("abcabc"))), Hosts()
        controller = Controller(on_hosts("abcabc"), cluster, hosts)
        with pytest.raises(FailureError, match="may lack records, or cannot lead"):
            await controller.mover.move(0, "d", 1_000)
        assert hosts.done == []

    asyncio.run(test())


def test_nothing_moves_while_something_is_wrong() -> None:
    async def test() -> None:
        controller, cluster, _ = controlled("abcabc")
        statuses = dict(cluster.statuses)
        cluster.statuses = {**statuses, 4: {**statuses[4], "state": "Draining"}}
        with pytest.raises(FailureError, match="coordinator 4 is Draining"):
            await controller.mover.moves()
        rows = [one for one in statuses[2]["partitions"] if one["state"] != "Leader"]
        cluster.statuses = {**statuses, 2: {**statuses[2], "partitions": rows}}
        with pytest.raises(FailureError, match="partition 2 is under-replicated"):
            await controller.mover.moves()

    asyncio.run(test())


@pytest.mark.parametrize("is_stopped", [False, True], ids=["gone", "stopped"])
def test_a_coordinator_whose_move_was_interrupted_is_created_again(
    is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller that stopped it to move it died before it could create it."""
    monkeypatch.setattr(controller_module, "PATIENCE_MS", 0)

    async def test() -> None:
        controller, cluster, hosts = controlled("abc")
        hosts.absent_ids = {1}
        found = {**cluster.statuses.pop(1), "state": "Stopped", "partitions": []}
        if is_stopped:
            cluster.statuses[1] = found
        looking = asyncio.create_task(controller._look())

        async def is_restored() -> bool:
            return hosts.done == [("restore", 1)]

        await until_async(is_restored, WITHIN_S, "it is created")
        looking.cancel()


def test_a_restarted_controller_replaces_a_coordinator_that_was_moved_to_a_lost_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was created with the homes of the start, which only coordinators that answer correct."""
    monkeypatch.setattr(controller_module, "PATIENCE_MS", 0)
    monkeypatch.setattr(mover, "RESTORE_AGAIN_S", 0.01)
    spec = replace(on_hosts("abc"), overrides={"replica.replace.after.ms": "1"})

    async def test() -> None:
        cluster, hosts = Cluster(in_sync(spec, drained=1)), Hosts("abc")
        del cluster.statuses[1]
        controller = Controller(spec, cluster, hosts)
        looking = asyncio.create_task(controller._look())

        async def has_asked() -> bool:
            return hosts.asked_for_homes > 1

        await until_async(has_asked, WITHIN_S, "it asks again while no host answers")
        assert hosts.done == [], "its old host lives"
        hosts.newest_homes = "adc"

        async def is_replaced() -> bool:
            return hosts.done == [("start empty on b", 1)]

        await until_async(is_replaced, WITHIN_S, "it is replaced")
        looking.cancel()
        asked = hosts.asked_for_homes
        controller.mover.learn_homes()
        assert hosts.asked_for_homes == asked, "it knows all homes"

    asyncio.run(test())


def test_a_coordinator_that_was_seen_before_and_returns_damaged_begins_empty() -> None:
    """It opens no listener, so nothing but a question shows that it is there again."""
    statuses = {
        0: status([row(n, is_voter=True) for n in AT_HOME]),
        1: status([], is_damaged=True),
        2: status([leads(0, 2, partition=n) for n in AT_HOME]),
    }

    async def test() -> None:
        cluster = Cluster(statuses)
        controller = Controller(SPEC, cluster)
        node = controller._nodes[1]
        node.pid = 1
        controller._went_down(node)

        async def is_told() -> bool:
            return ("coordinator-1", "start_empty") in cluster.told

        await until_async(is_told, WITHIN_S, "it begins empty")
        await controller.stop()

    asyncio.run(test())
