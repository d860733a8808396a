"""A server under test that is known to its clients by nothing but a bootstrap string.

Rollcall is the default. ``ROLLCALL_TEST_SERVER=kafka`` runs the same tests against one real Kafka
broker, which is how a test proves that it asks for what Kafka does: a test that Kafka fails is
wrong.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from bench.servers import processes
from bench.servers.kafka_jars import kafka_classpath
from tests.clients import wire
from tests.waiting import WITHIN_S, patient, until

START_S = patient(90)
STOP_S = patient(30)

COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "true",
    "num.partitions": "2",
}


class Server(Protocol):
    """What a test may do to a server besides talking to it."""

    bootstrap: str

    def start(self) -> None:
        """Start, with whatever data an earlier start has left, and wait until it answers."""

    def stop(self) -> None:
        """Stop cleanly, as an operator does."""

    def kill_coordinator(self, group_id: str) -> None:
        """``kill -9`` the process that coordinates this group, and see that it is brought back."""

    def kill_everything(self) -> None:
        """``kill -9`` every process at once; nothing comes back before :meth:`start`."""

    def close(self) -> None:
        """End every process that was started here."""


def free_ports(count: int) -> list[int]:
    """Find that many ports in a row that nobody listens on.

    Not among those that the kernel gives to outgoing connections, or one of these may be in the way
    when a server comes back.
    """
    while True:
        start = random.randrange(12_000, 30_000)
        ports = [start + i for i in range(count)]
        if all(_is_free(port) for port in ports):
            return ports


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to stop; what is left of it and of its children after a while is killed."""
    family = _family(process)
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    _kill(family)
    process.wait(WITHIN_S)


def _family(process: subprocess.Popen[bytes]) -> dict[int, int | None]:
    """Give the process and its descendants, each with its start time, which tells it apart."""
    return {pid: processes.started(pid) for pid in processes.descendants(process.pid)}


def _kill(family: Mapping[int, int | None]) -> None:
    """``kill -9`` those of a family that still live, and wait until none does."""

    def living() -> list[int]:
        return [p for p, began in family.items() if began and processes.started(p) == began]

    for pid in living():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not living(), WITHIN_S, "killed processes are gone")


class RollcallServer:
    """A cluster of ours in the foreground, started by the command a user types."""

    def __init__(self, directory: Path, settings: Mapping[str, str], coordinators: int = 3) -> None:
        self._directory = directory
        self._settings = {"offsets.topic.num.partitions": str(coordinators), **settings}
        self._data = directory / "data"
        self._port = free_ports(coordinators)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._killed: set[int] = set()
        self.bootstrap = ""
        self.console = ""

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        log = (self._directory / "server.log").open("ab")
        command = [_rollcall(), "up", "--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--data-dir", str(self._data)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self._log = log
        ready = self._directory / "stdout.log"
        with ready.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=log)
        self.bootstrap = until(lambda: self._ready(ready), START_S, "rollcall up prints READY")

    def _ready(self, out: Path) -> str:
        assert self._process is not None
        for line in out.read_text().splitlines():
            if line.startswith("READY "):
                fields = dict(f.split("=", 1) for f in line.split()[1:])
                self.console = fields["console"]
                return fields["bootstrap"]
        code = self._process.poll()
        assert code is None, f"rollcall up ended with {code}: {self._said()}"
        return ""

    def _said(self) -> str:
        return (self._directory / "server.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        if self._process is None:
            return
        terminate(self._process)
        self._forget()

    def kill_coordinator(self, group_id: str) -> None:
        assert self._process is not None
        found = until(
            lambda: wire.coordinator_of(self.bootstrap, group_id),
            30,
            f"a coordinator of {group_id}",
        )
        pid = self._listening(wire.address(found[1])[1])
        self._killed.add(pid)
        _kill({pid: processes.started(pid)})

    def drain(self, node_id: int) -> None:
        """Move all leaderships away from a coordinator, as an operator does."""
        command = [_rollcall(), "drain", str(node_id), "--data-dir", str(self._data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_replicated(self) -> bool:
        """Whether nobody is missing and every partition has all its replicas in sync.

        Read from the console, which says what ``rollcall status --json`` prints, only sooner.
        """
        try:
            with urllib.request.urlopen(f"{self.console}/status.json", timeout=WITHIN_S) as answer:
                status = json.load(answer)
        except OSError:
            return False
        rows = status["coordinators"]
        return (
            all(row["state"] == "Running" and row["pid"] not in self._killed for row in rows)
            and all(row["leader"] is not None for row in (status["catalog"], *status["partitions"]))
            and all(len(row["in_sync"]) == len(rows) for row in status["partitions"])
            and not status["under_replicated"]
        )

    def _listening(self, port: int) -> int:
        """Find which of our processes serves a port, as fast as the kernel can say it."""
        assert self._process is not None
        pid = processes.listener(port, processes.descendants(self._process.pid))
        assert pid is not None, f"no process of this cluster listens on port {port}"
        return pid

    def kill_everything(self) -> None:
        assert self._process is not None
        _kill(_family(self._process))
        self._process.wait(WITHIN_S)
        self._forget()

    def close(self) -> None:
        self.stop()

    def _forget(self) -> None:
        self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


def _rollcall() -> str:
    return str(Path(sys.executable).parent / "rollcall")


class KafkaServer:
    """One real Kafka broker, for proving the tests themselves."""

    def __init__(self, directory: Path, settings: Mapping[str, str], coordinators: int = 3) -> None:
        self._directory = directory
        self._port, self._controller = free_ports(2)
        self._settings = {"offsets.topic.num.partitions": str(coordinators), **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        conf = self._directory / "server.properties"
        logs = self._directory / "logs"
        if not conf.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            conf.write_text("".join(f"{k}={v}\n" for k, v in self._properties(logs).items()))
            tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID]
            assert self._java(*tool, "--config", conf).wait() == 0, self._said()
        self._process = self._java("kafka.Kafka", conf)
        until(self._answers, START_S, "the broker answers")

    def _properties(self, logs: Path) -> dict[str, str]:
        return {
            "node.id": "0",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"0@127.0.0.1:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": str(logs),
            "offsets.topic.replication.factor": "1",
            "unstable.api.versions.enable": "true",
            **self._settings,
        }

    def _java(self, *arguments: object) -> subprocess.Popen[bytes]:
        jvm = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        jvm += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with (self._directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                ["java", *jvm, "-cp", kafka_classpath(), *map(str, arguments)],
                stdout=log,
                stderr=log,
            )

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._said()
        with suppress(OSError), wire.Wire(self.bootstrap):
            return True
        return False

    def _said(self) -> str:
        return (self._directory / "server.log").read_text()[-3000:]

    def stop(self) -> None:
        if self._process is not None:
            terminate(self._process)
            self._process = None

    def kill_coordinator(self, group_id: str) -> None:
        self.kill_everything()
        self.start()

    def kill_everything(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill_everything()


CLUSTER_ID = "QUJDREVGR0hJSktMTU5PUA"


def server(
    directory: Path, settings: Mapping[str, str] | None = None, coordinators: int = 3
) -> Server:
    """Make the server that ``ROLLCALL_TEST_SERVER`` names, not yet started."""
    kinds = {"rollcall": RollcallServer, "kafka": KafkaServer}
    kind = kinds[os.environ.get("ROLLCALL_TEST_SERVER", "rollcall")]
    return kind(directory, {**COMMON, **(settings or {})}, coordinators)


def is_kafka() -> bool:
    """Say whether the tests run against real Kafka."""
    return os.environ.get("ROLLCALL_TEST_SERVER") == "kafka"
