"""Real Apache Kafka 4.3.1 beside us: one node, broker and KRaft controller in one process.

The settings are fair: Kafka's own JVM flags for servers and 1 GiB of heap, touched before use (a
heap that is paged in during a run makes Java look slow). ``__consumer_offsets`` has one partition
on one replica, as ours in the same benchmark, and Kafka's defaults hold for all the rest.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import processes
from bench.asking import Connection
from bench.java import java_command
from bench.kafka_jars import NoJavaError, kafka_classpath
from bench.server import Server, StartError, serving_processes, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_SECONDS: Final = 60
CLUSTER_ID: Final = "cm9sbGNhbGwtYmVuY2gtMQ"
JVM: Final = (
    "-server", "-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch", "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)  # fmt: skip
PROPERTIES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "0",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@contextlib.contextmanager
def running_kafka(overrides: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start Kafka in a directory of its own and hand it over once it answers; stop it after."""
    java = java_command()
    directory = Path(tempfile.mkdtemp(prefix="rollcall-kafka-"))
    try:
        port, controller_port = processes.free_port(), processes.free_port()
        config = _write_config(directory, port, controller_port, overrides or {})
        classpath = _classpath()
        _format(java, classpath, config)
        with (directory / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [java, *JVM, "-cp", classpath, "kafka.Kafka", str(config)],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            bootstrap = (("127.0.0.1", port),)
            _wait_until_it_answers(process, bootstrap[0], directory / "server.log")
            yield Server(
                name="kafka", bootstrap=bootstrap, root=process.pid,
                serving=serving_processes(bootstrap),
            )  # fmt: skip
        finally:
            stop(process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _classpath() -> str:
    try:
        return kafka_classpath()
    except NoJavaError as error:
        raise StartError(f"{error}.") from error


def _write_config(
    directory: Path, port: int, controller_port: int, overrides: Mapping[str, str]
) -> Path:
    properties = {
        **PROPERTIES,
        "controller.quorum.voters": f"0@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(directory / "logs"),
        **overrides,
    }
    config = directory / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return config


def _format(java: str, classpath: str, config: Path) -> None:
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID]
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", classpath, *tool, "--config", str(config)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StartError(f"Kafka's storage could not be formatted: {_last_line(done.stderr)}")


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], address: tuple[str, int], log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(f"Kafka ended at its start: {_last_line(log.read_text())}")
        with contextlib.suppress(OSError), Connection(address) as connection:
            connection.api_versions()
            return
        time.sleep(0.1)
    raise StartError(f"Kafka did not answer within {START_SECONDS} s.")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
