"""A real Apache Kafka 4.3.1 for comparison: one node, or three brokers and a KRaft controller.

The settings are fair: Kafka's own JVM flags for servers and a heap that is touched before use (a
heap that is paged in during a run makes Java look slow): 1 GiB, and half of that for each of three
replicas. ``__consumer_offsets`` has as many partitions and replicas as ours in the same benchmark,
and everything else has Kafka's defaults. With several brokers the controller is a separate process,
so that a broker can be killed without it. Partitions that are too many for the open files of one
process are shared by several brokers; one of them coordinates all groups.
"""

from __future__ import annotations

import contextlib
import math
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.servers import processes
from bench.servers.java import java_command
from bench.servers.kafka_jars import NoJavaError, kafka_classpath
from bench.servers.server import Server, StartError, serving_processes, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_SECONDS: Final = 60
OTHER_FILES: Final = 4_000
"""What a broker may open beside the files of partitions: connections, jars, its own topics."""

CLUSTER_ID: Final = "cm9sbGNhbGwtYmVuY2gtMQ"
CONTROLLER_ID: Final = 100
RUNTIME_LOG: Final = "org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime"
"""The logger that reports how long a partition took to load."""
JVM: Final = (
    "-server", "-XX:+AlwaysPreTouch", "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    f"-Dorg.slf4j.simpleLogger.log.{RUNTIME_LOG}=info",
)  # fmt: skip
PROPERTIES: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "group.initial.rebalance.delay.ms": "0",
}
SINGLE: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
REPLICATED: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
"""For three brokers: an offset is acknowledged when two of three have it, as with our majority."""

UNREPLICATED: Final[Mapping[str, str]] = {
    **SINGLE,
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
}
"""For several brokers that only share the files of many partitions."""

SINGLE_HEAP_MIB: Final = 1024


@dataclass(slots=True, kw_only=True)
class _Node:
    """One process: its settings and its directory; ``port`` is its listener for clients."""

    config: Path
    log: Path
    heap_mib: int
    port: int
    process: subprocess.Popen[bytes] | None = None


class Kafka:
    """A Kafka in its own directory; its nodes can be killed and restarted."""

    def __init__(
        self, directory: Path, brokers: int, overrides: Mapping[str, str], heap_mib: int = 512
    ) -> None:
        """``heap_mib`` is that of each of several brokers."""
        self.directory = directory
        self._lock = threading.Lock()
        self._frozen: Counter[int] = Counter()
        self._java = java_command()
        self._classpath = _classpath()
        self._controller: _Node | None = None
        ports = [processes.free_port() for _ in range(brokers + 1)]
        quorum = f"{0 if brokers == 1 else CONTROLLER_ID}@127.0.0.1:{ports[-1]}"
        common = {**PROPERTIES, "controller.quorum.voters": quorum, **overrides}
        if brokers == 1:
            listeners = _listeners(PLAINTEXT=ports[0], CONTROLLER=ports[1])
            roles = {"process.roles": "broker,controller", **SINGLE, **listeners}
            self._brokers = [_node(directory, 0, {**roles, **common}, ports[0], SINGLE_HEAP_MIB)]
            return
        roles = {"process.roles": "controller", **_listeners(CONTROLLER=ports[-1])}
        self._controller = _node(
            directory, CONTROLLER_ID, {**roles, **common}, ports[-1], heap_mib // 2
        )
        self._brokers = []
        for number, port in enumerate(ports[:-1]):
            roles = {"process.roles": "broker", **REPLICATED, **_listeners(PLAINTEXT=port)}
            self._brokers.append(_node(directory, number, {**roles, **common}, port, heap_mib))

    @property
    def _nodes(self) -> list[_Node]:
        return [*([self._controller] if self._controller else []), *self._brokers]

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Every broker's address; broker *i* is the *i*-th."""
        return tuple(("127.0.0.1", broker.port) for broker in self._brokers)

    @property
    def server(self) -> Server:
        """The brokers in the form that benchmarks use."""
        root = self._brokers[0].process
        assert root is not None
        serving = serving_processes(self.bootstrap)
        return Server(name="kafka", bootstrap=self.bootstrap, root=root.pid, serving=serving)

    def start(self) -> None:
        """Format each node's directory, start all nodes, and wait until every broker answers."""
        for node in self._nodes:
            self._format(node)
        for node in self._nodes:
            self._launch(node)
        for number in range(len(self._brokers)):
            self._wait_until_it_answers(number)

    def stop(self) -> None:
        """Stop the running nodes."""
        for node in reversed(self._nodes):
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)  # a frozen process cannot stop
                stop(node.process)

    def kill(self, number: int) -> None:
        """``kill -9`` of a broker."""
        process = self._brokers[number].process
        assert process is not None
        process.kill()
        process.wait()

    def runs(self, number: int) -> bool:
        """Whether a broker's process is there."""
        process = self._brokers[number].process
        return process is not None and process.poll() is None

    def freeze(self, number: int) -> subprocess.Popen[bytes]:
        """Send SIGSTOP to a broker; return what to thaw."""
        process = self._brokers[number].process
        assert process is not None
        with self._lock:
            self._frozen[process.pid] += 1
            process.send_signal(signal.SIGSTOP)
        return process

    def thaw(self, process: subprocess.Popen[bytes]) -> None:
        """End one freeze: SIGCONT if no other one of this process goes on."""
        with self._lock:
            self._frozen[process.pid] -= 1
            if not self._frozen[process.pid]:
                process.send_signal(signal.SIGCONT)

    def start_again(self, number: int) -> None:
        """Restart a killed broker with a new log file; does not wait for it."""
        self._launch(self._brokers[number])

    def shut_down(self, number: int) -> None:
        """Stop a broker as its script does: a controlled shutdown."""
        process = self._brokers[number].process
        assert process is not None
        stop(process)

    def restart(self, number: int) -> None:
        """Shut a broker down, and start it again."""
        self.shut_down(number)
        self.start_again(number)

    def log_path(self, number: int) -> Path:
        """Return the log file of a broker's current run."""
        return self._brokers[number].log

    def _launch(self, node: _Node) -> None:
        heap = (f"-Xms{node.heap_mib}m", f"-Xmx{node.heap_mib}m")
        with node.log.open("wb") as log:
            node.process = subprocess.Popen(
                [self._java, *JVM, *heap, "-cp", self._classpath, "kafka.Kafka", str(node.config)],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _format(self, node: _Node) -> None:
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID]
        done = subprocess.run(
            [self._java, "-XX:TieredStopAtLevel=1", "-cp", self._classpath, *tool,
             "--config", str(node.config)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            said = _last_line(done.stderr)
            raise StartError(f"Kafka's storage could not be formatted: {said}")

    def _wait_until_it_answers(self, number: int) -> None:
        node = self._brokers[number]
        assert node.process is not None
        process = node.process

        def look() -> None:
            if process.poll() is not None:
                raise StartError(f"Kafka ended at its start: {_last_line(node.log.read_text())}")
            with BlockingClient(self.bootstrap[number]) as connection:
                connection.api_versions()

        try:
            poll(look, START_SECONDS, is_done=is_answered, every_s=0.1, retry=(OSError,))
        except OSError:
            raise StartError(f"Kafka did not answer within {START_SECONDS} s.") from None


def brokers_for(partitions: int) -> int:
    """Return how many brokers are needed for so many partitions: each is a file that stays open."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return max(1, math.ceil(partitions / max(files_max - OTHER_FILES, 1)))


@contextlib.contextmanager
def running_kafka(overrides: Mapping[str, str] | None = None, brokers: int = 1) -> Iterator[Server]:
    """Start Kafka without replication, yield it once it answers, and stop it at the end.

    The server's first address is that of the broker with the group coordinator.
    """
    with kafka_cluster(
        brokers, {**(UNREPLICATED if brokers > 1 else {}), **(overrides or {})}, SINGLE_HEAP_MIB
    ) as kafka:
        server = kafka.server
        if brokers > 1:
            with BlockingClient(server.address) as connection:
                first = connection.coordinator("any")
            others = (address for address in server.bootstrap if address != first)
            server = replace(server, bootstrap=(first, *others))
        yield server


@contextlib.contextmanager
def kafka_cluster(
    brokers: int, overrides: Mapping[str, str] | None = None, heap_mib: int = 512
) -> Iterator[Kafka]:
    """Start Kafka in its own directory and yield it once it answers; stop it at the end."""
    directory = Path(tempfile.mkdtemp(prefix="rollcall-kafka-"))
    try:
        kafka = Kafka(directory, brokers, overrides or {}, heap_mib)
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def need_kafka() -> None:
    """Raise a one-sentence error if Kafka cannot be started; its jars are there afterwards."""
    java_command()
    _classpath()


def _classpath() -> str:
    try:
        return kafka_classpath()
    except NoJavaError as error:
        raise StartError(f"{error}.") from error
    except (RuntimeError, OSError) as error:
        raise StartError(" ".join(str(error).split())) from error


def _listeners(**ports: int) -> dict[str, str]:
    addresses = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    clients = [address for address in addresses if address.startswith("PLAINTEXT")]
    listeners = {"listeners": ",".join(addresses)}
    if clients:
        listeners |= {
            "advertised.listeners": ",".join(clients),
            "inter.broker.listener.name": "PLAINTEXT",
        }
    return listeners


def _node(
    directory: Path, node_id: int, settings: Mapping[str, str], port: int, heap_mib: int
) -> _Node:
    home = directory / f"node-{node_id}"
    home.mkdir()
    properties = {"node.id": str(node_id), "log.dirs": str(home / "logs"), **settings}
    config = home / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return _Node(config=config, log=home / "server.log", heap_mib=heap_mib, port=port)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
