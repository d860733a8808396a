"""A real cluster on a Ray of its own: what a user types, and what happens to its processes."""

import json
import os
import signal
import socket
import struct
import time
import urllib.request
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from actors.cluster import ray_node
from actors.cluster.processes import is_alive, started
from actors.errors import ExitCode
from bench.servers.processes import descendants
from tests.clients.wire import Wire
from tests.conftest import NewCluster, RunningCluster, rollcall
from tests.waiting import WITHIN_S, patient, until

API_VERSIONS, METADATA = 18, 3
IDLE_CONNECTIONS = 10_000


def answers(bootstrap: str) -> bool:
    """Say whether a well-behaved client is served."""
    try:
        with closing(Wire(bootstrap, WITHIN_S)) as wire:
            answer = wire.call(API_VERSIONS, 0, lambda module: module.ApiVersionsRequest())
    except OSError:
        return False
    return int(answer.error_code) == 0


def nodes(bootstrap: str) -> set[tuple[int, int]]:
    """Return the node ids and ports of a metadata answer."""
    with closing(Wire(bootstrap, WITHIN_S)) as wire:
        answer = wire.call(
            METADATA,
            12,
            lambda module: module.MetadataRequest(
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
    return {(int(row.node_id), int(row.port)) for row in answer.brokers}


def test_status_from_a_second_shell_shows_the_whole_cluster(cluster: RunningCluster) -> None:
    def all_answer() -> dict[str, Any] | None:
        status = cluster.status_from_second_shell()
        rows = status["coordinators"] + status["workers"]
        return status if all(row["pid"] for row in rows) else None

    status = until(all_answer, WITHIN_S, "each coordinator and worker says its process")
    assert status is not None
    assert status["bootstrap"] == cluster.bootstrap
    assert len(status["cluster_id"]) == 22
    rows = status["coordinators"]
    assert [row["node_id"] for row in rows] == [0, 1, 2]
    assert [row["leads"] for row in rows] == [[0], [1], [2]]
    assert all(row["state"] == "Running" for row in rows)
    assert [row["stands_by"] for row in rows] == [[1, 2], [0, 2], [0, 1]]
    assert [(row["host"], row["port"]) for row in rows] == cluster.addresses
    assert [row["partition"] for row in status["partitions"]] == [0, 1, 2]
    assert [row["leader"] for row in status["partitions"]] == [0, 1, 2]
    assert all(row["epoch"] >= 1 for row in status["partitions"])
    assert [row["in_sync"] for row in status["partitions"]] == [[0, 1, 2]] * 3
    assert status["under_replicated"] == []
    assert status["shortage"] == ""
    assert len(status["workers"]) == 2
    pids = [row["pid"] for row in rows + status["workers"]]
    assert len(set(pids)) == 5
    assert set(pids) <= set(descendants(cluster.process.pid))


def test_status_for_people_names_each_process(cluster: RunningCluster) -> None:
    said = rollcall("status", "--data-dir", cluster.data_dir).stdout
    assert cluster.bootstrap in said
    assert said.count("coordinator ") == 3
    assert said.count("assignor ") == 2


def test_the_console_says_the_same_over_http(cluster: RunningCluster) -> None:
    with urllib.request.urlopen(
        cluster.ready["console"] + "/status.json", timeout=WITHIN_S
    ) as answer:
        assert json.load(answer)["bootstrap"] == cluster.bootstrap
    for page, words in (("/", "Groups"), ("/cluster", cluster.bootstrap), ("/metrics", "# HELP")):
        with urllib.request.urlopen(cluster.ready["console"] + page, timeout=WITHIN_S) as answer:
            assert words in answer.read().decode()


def test_every_coordinator_lists_all_of_them(cluster: RunningCluster) -> None:
    wanted = {(node_id, port) for node_id, (_, port) in enumerate(cluster.addresses)}
    for host, port in cluster.addresses:
        assert nodes(f"{host}:{port}") == wanted


def test_garbage_harms_nobody_else(cluster: RunningCluster) -> None:
    pids = [row["pid"] for row in cluster.status()["coordinators"]]
    with ExitStack() as stack, closing(Wire(cluster.bootstrap, WITHIN_S)) as other:
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            struct.pack(">i", -7),
            struct.pack(">i", 1_000_001),  # one more than socket.request.max.bytes
            struct.pack(">ihhih", 10, 9_999, 0, 1, -1),
            struct.pack(">ihhih", 10, 11, 9, 1, -1),
            os.urandom(300),
            struct.pack(">i", 900_000) + b"x" * 1_000,  # and then nothing more
        ):
            one = stack.enter_context(socket.create_connection(cluster.addresses[0], WITHIN_S))
            with suppress(OSError):
                one.sendall(garbage)
            answer = other.call(API_VERSIONS, 0, lambda module: module.ApiVersionsRequest())
            assert int(answer.error_code) == 0
    assert [row["pid"] for row in cluster.status()["coordinators"]] == pids


def test_ten_thousand_idle_connections_disturb_nobody(cluster: RunningCluster) -> None:
    address = cluster.addresses[1]
    with ExitStack() as stack:
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(socket.create_connection(address, WITHIN_S))
        until(
            lambda: cluster.status()["coordinators"][1]["connections"] >= IDLE_CONNECTIONS,
            30,
            "all connections are taken",
        )
        assert answers(f"{address[0]}:{address[1]}")
    until(
        lambda: cluster.status()["coordinators"][1]["connections"] < 100,
        30,
        "all connections are let go",
    )


def test_a_killed_coordinator_is_back_on_its_port_with_its_data(new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={"leader.imbalance.check.interval.seconds": "1"}).start()
    host, port = cluster.addresses[1]
    everyone = {(node_id, port) for node_id, (_, port) in enumerate(cluster.addresses)}
    first = cluster.pid_of(1)
    second = killed_and_back(cluster, 1)
    third = killed_and_back(cluster, 1)
    assert len({first, second, third}) == 3
    assert cluster.addresses[1] == (host, port)
    until(
        lambda: cluster.status()["partitions"][1]["leader"] == 1,
        patient(60),
        "it leads its partition again, once all is well",
    )
    until(lambda: nodes(cluster.bootstrap) == everyone, 30, "it is listed again")
    assert "coordinator 1 is back" in cluster.log_lines("controller")


def killed_and_back(cluster: RunningCluster, node_id: int) -> int:
    """Kill a coordinator's process; return the process that serves in its stead."""
    before = cluster.pid_of(node_id)
    host, port = cluster.addresses[node_id]
    os.kill(before, signal.SIGKILL)
    until(lambda: started(before) is None, WITHIN_S, "the process is gone")
    until(lambda: answers(f"{host}:{port}"), patient(60), "it answers again")

    def successor() -> int:
        row = cluster.status()["coordinators"][node_id]
        return int(row["pid"]) if row["state"] == "Running" and row["pid"] != before else 0

    return until(successor, 30, "it runs again")


def test_controller_and_console_may_die_too_and_another_shell_takes_the_cluster_down(
    new_cluster: NewCluster,
) -> None:
    """And then a damaged log is refused in one sentence, where no other replica has it all."""
    cluster = new_cluster("--set", "offsets.topic.num.partitions=1").start()
    family = descendants(cluster.process.pid)
    titles = {pid: _title(pid) for pid in family}
    for actor in ("ControllerActor", "ConsoleActor"):
        os.kill(next(pid for pid, title in titles.items() if actor in title), signal.SIGKILL)
    assert answers(cluster.bootstrap)

    def shown() -> bool:
        rows = cluster.coordinators_if_told()
        return bool(rows and rows[0]["leads"] == [0])

    until(shown, patient(60), "the status is back")

    def is_served() -> bool:
        with (
            suppress(OSError),
            urllib.request.urlopen(
                cluster.ready["console"] + "/status.json", timeout=WITHIN_S
            ) as answer,
        ):
            return bool(json.load(answer)["console"] == cluster.ready["console"])
        return False

    until(is_served, patient(60), "the console is back where it was")
    assert rollcall("down", "--data-dir", cluster.data_dir).returncode == 0
    assert cluster.process.wait(WITHIN_S) == 0
    (cluster.data_dir / "node-0" / "CURRENT").write_text("nonsense\n")
    done = rollcall("up", "--port", "0", "--data-dir", cluster.data_dir)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert "node-0" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_signal_takes_everything_down_and_a_restart_keeps_ports_and_id(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster("--set", "offsets.topic.num.partitions=2").start()
    ready = cluster.ready
    cluster_id = cluster.status()["cluster_id"]
    assert_nothing_is_left(cluster, signal.SIGTERM)
    assert cluster.start().ready == ready
    assert cluster.status()["cluster_id"] == cluster_id
    assert_nothing_is_left(cluster, signal.SIGINT)


def assert_nothing_is_left(cluster: RunningCluster, how: signal.Signals) -> None:
    """Stop a cluster by a signal and see that all its processes are gone."""
    family = [(pid, started(pid) or 0) for pid in descendants(cluster.process.pid)]
    assert len(family) >= 8
    assert cluster.stop(how) == 0
    assert [process for process in family if is_alive(process)] == []
    assert not answers(cluster.bootstrap)


def test_detached_it_runs_on_until_it_is_taken_down(tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = ("up", "--detach", "--port", "0", "--data-dir", data)
    done = rollcall(*up, "--set", "offsets.topic.num.partitions=1")
    try:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("READY bootstrap=127.0.0.1:")
        assert done.stdout.count("\n") == 1
        bootstrap = dict(w.split("=", 1) for w in done.stdout.split()[1:])["bootstrap"]
        assert answers(bootstrap)
        second = rollcall(*up)
        assert second.returncode == 2
        assert "in use by a running cluster" in second.stderr
        status = json.loads(rollcall("status", "--json", "--data-dir", data).stdout)
        pid = status["coordinators"][0]["pid"]
    finally:
        down = rollcall("down", "--data-dir", data)
    assert down.returncode == 0, down.stderr
    assert down.stdout == ""
    assert started(pid) is None
    assert not answers(bootstrap)
    assert rollcall("status", "--data-dir", data).returncode == ExitCode.NO_CLUSTER


WAKES_MAX: Final = 160
"""How often a second the threads of a process may begin to run; at rest it is about 80."""


def test_left_alone_it_is_small_and_comes_to_rest(cluster: RunningCluster) -> None:
    """Not a matter of speed but of shape: no polling anywhere, nothing loaded that is not used."""
    family = descendants(cluster.process.pid)
    resident = sum(_resident_bytes(pid) for pid in family)
    assert resident < 1.5 * 2**30
    status = cluster.status()
    ours = [row["pid"] for row in status["coordinators"] + status["workers"]]
    assert len(ours) == 5
    until(
        lambda: max(_wakes_a_second(ours)) < WAKES_MAX, patient(60), "its processes hardly wake up"
    )


def _wakes_a_second(pids: list[int]) -> list[float]:
    """Count for five seconds how often threads of each process begin to run."""
    began_s, began = time.monotonic(), [_wakes(pid) for pid in pids]
    until(lambda: time.monotonic() - began_s > 5, WITHIN_S, "five seconds have passed")
    took_s = time.monotonic() - began_s
    return [(_wakes(pid) - before) / took_s for pid, before in zip(pids, began, strict=True)]


def _wakes(pid: int) -> int:
    """Count the waits of all its threads but the main one, which Ray wakes every 10 ms."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if thread.name != str(pid):
            with suppress(OSError):
                status = (thread / "status").read_text()
                total += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total


def _resident_bytes(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def test_what_a_killed_ray_left_on_the_disk_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_node, "_short_temp_dir", lambda: str(tmp_path))
    old, young = tmp_path / f"{ray_node.PREFIX}old", tmp_path / f"{ray_node.PREFIX}young"
    for directory in (old, young):
        directory.mkdir()
    os.utime(old, (0, 0))
    ray_node._remove_leftovers()
    assert not old.exists()
    assert young.exists()
