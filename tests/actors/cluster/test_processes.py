"""Processes are told apart from later ones of their id, and a whole family is ended."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.cli import discovery
from actors.cluster import processes, ray_node, registry
from actors.deployment import supervisor
from actors.errors import BadInputError, FailureError
from tests.waiting import WITHIN_S, until

SLEEP = "import time; time.sleep(600)"
DEAF = f"import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); {SLEEP}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DEAF!r}])"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def begin(code: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_family_is_found_by_its_mark_and_ended_however_deaf(start: Start, tmp_path: Path) -> None:
    mark = f"{ray_node.MARK}={tmp_path}"
    parent = start(PARENT, **{ray_node.MARK: str(tmp_path)})
    stranger = start(SLEEP, **{ray_node.MARK: f"{tmp_path}-2"})
    assert parent.stdout is not None
    assert parent.stdout.readline() == "1\n"
    family = processes.with_environment(mark)
    assert {pid for pid, _ in family} == set(processes.descendants(parent.pid))
    assert processes.end(lambda: ray_node.processes_in(tmp_path)) == set()
    assert not any(map(processes.is_alive, family))
    assert stranger.poll() is None


def test_a_later_process_of_the_same_id_is_another(start: Start) -> None:
    process = start(SLEEP)
    pid, began = processes.identified(process.pid)
    assert processes.is_alive((pid, began))
    assert not processes.is_alive((pid, began - 1))
    processes.send((pid, began - 1), signal.SIGKILL)
    assert process.poll() is None


def a_cluster(data_dir: Path, **fields: object) -> registry.RegisteredCluster:
    row = {
        "cluster_id": data_dir.name,
        "data_dir": str(data_dir),
        "address": "",
        "bootstrap": "127.0.0.1:1",
        "partitions": 1,
        "workers": 0,
        "node": None,
        "owner": None,
    }
    return registry.RegisteredCluster(**{**row, **fields})  # type: ignore[arg-type]


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "list"
    directory.mkdir()
    monkeypatch.setattr(registry, "_directory", lambda: directory)
    return directory


def test_what_a_killed_start_left_is_ended_by_the_next_command(
    start: Start, listed: Path, tmp_path: Path
) -> None:
    node = ray_node.RayNode(address="", directory=str(tmp_path / "ray"), processes=())
    left = start(SLEEP, **{ray_node.MARK: node.directory})
    (tmp_path / "ray").mkdir()
    began = a_cluster(tmp_path / "a", node=node, owner=(left.pid, 1), is_ready=False)
    registry.save(began)
    assert registry.find(None, tmp_path / "usual") is None
    until(lambda: left.poll() is not None, WITHIN_S, "the process is gone")
    assert not (tmp_path / "ray").exists()
    assert list(listed.iterdir()) == []


def test_a_cluster_of_which_one_ray_process_is_dead_is_none(
    start: Start, listed: Path, tmp_path: Path
) -> None:
    one, other = start(SLEEP), start(SLEEP)
    roots = tuple(processes.identified(each.pid) for each in (one, other))
    node = ray_node.RayNode(address="x", directory=str(tmp_path / "ray"), processes=roots)
    registry.save(a_cluster(tmp_path / "a", node=node))
    assert registry.find(None, tmp_path / "usual") is not None
    one.kill()
    until(lambda: not processes.is_alive(roots[0]), WITHIN_S, "one is dead")
    assert registry.find(None, tmp_path / "usual") is None


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::ffff:127.0.0.1]:1"])
def test_a_cluster_on_a_ray_that_is_gone_is_forgotten(
    address: str, listed: Path, tmp_path: Path
) -> None:
    registry.save(a_cluster(tmp_path / "a", address=address))
    assert registry.find(None, tmp_path / "usual") is None
    assert list(listed.iterdir()) == []


def test_what_a_killed_start_created_on_another_ray_is_not_forgotten(
    listed: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ray:
        address = f"127.0.0.1:{ray.getsockname()[1]}"
        left = a_cluster(tmp_path / "a", address=address, owner=(os.getpid(), 1), is_ready=False)
        registry.save(left)
        with pytest.raises(FailureError, match="was killed: run `rollcall down` to remove"):
            discovery.find_cluster(tmp_path / "a")
        assert discovery.find_cluster(tmp_path / "a", is_ready=False) == left


def test_a_cluster_that_is_being_started_is_let_alone(listed: Path, tmp_path: Path) -> None:
    owner = processes.identified(os.getpid())
    registry.save(a_cluster(tmp_path / "a", owner=owner, is_ready=False))
    found = registry.find(tmp_path / "a", tmp_path / "usual")
    assert found is not None
    assert not found.is_orphan


def test_processes_that_do_not_end_are_named(
    listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_node, "stop", lambda node: {(12, 1), (13, 1)})
    node = ray_node.RayNode(address="", directory=str(tmp_path / "ray"), processes=())
    cluster = a_cluster(tmp_path / "a", node=node)
    registry.save(cluster)
    with pytest.raises(FailureError, match="processes 12, 13 are still running"):
        registry.kill_cluster(cluster)
    assert registry.load(cluster.data_dir) == cluster


# --- children


def finished(work: Callable[[], None]) -> supervisor.ChildExit:
    child = supervisor.Child(work)
    return until(child.poll, WITHIN_S, "the child ends")  # type: ignore[return-value]


def test_a_child_tells_how_it_ended() -> None:
    def refuse() -> None:
        raise BadInputError("No.")

    assert finished(lambda: None) == supervisor.ChildExit(0, "")
    assert finished(refuse) == supervisor.ChildExit(2, "No.")
    assert finished(lambda: sys.exit(15)) == supervisor.ChildExit(1, "")
    assert finished(lambda: os.kill(os.getpid(), signal.SIGKILL)) == supervisor.ChildExit(-9, "")
    bug = finished(lambda: print(1 // 0))  # noqa: T201 - never reached
    assert bug.code == 1
    assert bug.sentence.splitlines()[-1].startswith("ZeroDivisionError")


def test_what_a_later_version_wrote_of_a_cluster_is_read(listed: Path, tmp_path: Path) -> None:
    """After a downgrade, `rollcall down` finds the cluster that is to be stopped."""
    node = ray_node.RayNode(address="127.0.0.1:1", directory=str(tmp_path), processes=())
    registry.save(a_cluster(tmp_path / "a", node=node))
    (file,) = listed.glob("*.json")
    row = json.loads(file.read_text())
    file.write_text(json.dumps({**row, "added": 1, "node": {**row["node"], "added": 2}}))
    assert registry.load(str(tmp_path / "a")) == a_cluster(tmp_path / "a", node=node)
