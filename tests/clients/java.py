"""Kafka's own Java tools, run from the jars that Maven fetched."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.servers.kafka_jars import NoJavaError, kafka_classpath
from tests.waiting import LONG_SESSION_MS, WITHIN_S, patient

PROGRAMS = Path(__file__).parent.parent / "java" / "clients"
JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


TOOL_MS = int(patient(30) * 1000)
"""What ``--timeout`` gives Kafka's tools for each of their requests; 30 seconds is the default."""


def java(*arguments: object) -> list[str]:
    """Give the command that runs a class (or a source file) with Kafka's jars, or skip the test."""
    try:
        classpath = kafka_classpath()
    except NoJavaError as missing:
        pytest.skip(str(missing))
    return ["java", *JVM, "-cp", classpath, *map(str, arguments)]


def run_java(*arguments: object, deadline_s: float = patient(60)) -> str:
    """Run to the end and give what was printed; the exit code has to be 0."""
    command = java(*arguments)
    done = subprocess.run(command, capture_output=True, timeout=deadline_s, check=False, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]} {done.stderr[-3000:]}"
    return done.stdout


def consumer_groups(bootstrap: str, *arguments: object) -> str:
    """Run what ``kafka-consumer-groups.sh`` runs."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return run_java(tool, "--bootstrap-server", bootstrap, "--timeout", TOOL_MS, *arguments)


def rollcall(*arguments: str) -> str:
    """Run our own command to its end."""
    command = [Path(sys.executable).parent / "rollcall", *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=patient(60))
    return done.stdout


def table(printed: str) -> list[dict[str, str]]:
    """Read the tool's table: headings, then one row per line; cells hold no blanks."""
    lines = [line for line in printed.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if line.startswith("GROUP ")), None)
    assert start is not None, printed
    names = lines[start].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
    return [dict(zip(names, line.split(), strict=False)) for line in lines[start + 1 :]]


class VerifiableConsumer:
    """Kafka's system-test consumer; it tells what happens to it as one JSON object per line."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, *arguments: object) -> None:
        command = java(
            "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap,
            "--topic", topic, "--group-id", group_id, "--group-protocol", "classic",
            "--session-timeout", str(LONG_SESSION_MS), *arguments,
        )  # fmt: skip
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def assigned(self) -> set[int]:
        """Partitions that it was given and not told to give up since."""
        owned: set[int] = set()
        for event in list(self.events):
            if event["name"] == "partitions_assigned":
                owned |= {p["partition"] for p in event["partitions"]}
            if event["name"] == "partitions_revoked":
                owned -= {p["partition"] for p in event["partitions"]}
        return owned

    def names(self) -> list[str]:
        """Give the names of all events so far."""
        return [event["name"] for event in list(self.events)]

    def stop(self) -> None:
        """Shut down cleanly, as SIGTERM makes it do."""
        self._process.terminate()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)

    def kill(self) -> None:
        """End it without a word to the group."""
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


Closing = Callable[[Callable[[], object]], object]
