"""A Kafka Streams application with ``group.protocol=streams``: as far as no records let it.

It joins, has its repartition and changelog topics created, shares its tasks with a second process,
survives a ``kill -9`` of its coordinator, and takes the tasks over when the other process closes.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.servers.kafka_jars import NoJavaError, streams_classpath
from tests.clients import servers, wire
from tests.clients.confluent import create_topics
from tests.clients.java import JVM, PROGRAMS, TOOL_MS, run_java
from tests.program import Program
from tests.waiting import patient, until

PATIENCE_S = patient(120)
"""Two JVMs start, restore nothing, and rebalance at heartbeats."""

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
"""What ``kafka-streams-groups.sh`` runs."""

TASKS = {f"{subtopology}_{index}" for subtopology in range(2) for index in range(3)}

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka has no replicas"),
]


class Application(Program):
    """One process of the application."""

    def __init__(self, bootstrap: str, name: str, topic: str, directory: Path) -> None:
        try:
            classpath = streams_classpath()
        except NoJavaError as missing:
            pytest.skip(str(missing))
        source = str(PROGRAMS / "StreamsApplication.java")
        super().__init__(
            ["java", *JVM, "-cp", classpath, source, bootstrap, name, topic, str(directory)]
        )

    def running(self) -> set[str]:
        """Return the active tasks while it is running; none while it rebalances."""
        last = self.lines[-1] if self.lines else ""
        if not last.startswith("RUNNING active="):
            return set()
        return {each for each in last.split()[1].removeprefix("active=").split(",") if each}


def printed_state(bootstrap: str, group_id: str) -> str:
    """Describe the group by Kafka's tool, which takes a JVM's start: many heartbeats."""
    asked = ("--describe", "--state", "--group", group_id)
    return run_java(TOOL, "--bootstrap-server", bootstrap, "--timeout", TOOL_MS, *asked)


def test_two_processes_share_the_tasks_through_a_kill_of_their_coordinator(
    doomed: servers.Server, name: str, tmp_path: Path
) -> None:
    bootstrap = doomed.bootstrap
    create_topics(bootstrap, [name], 3)
    with ExitStack() as stack:

        def started(number: int) -> Application:
            application = Application(bootstrap, name, name, tmp_path / str(number))
            stack.callback(application.kill)
            return application

        first = started(1)
        until(lambda: first.running() == TASKS, PATIENCE_S, "the first has all tasks")
        for topic in (f"{name}-counts-repartition", f"{name}-counts-changelog"):
            assert wire.partitions(bootstrap.split(",")[0], topic) == 3
        second = started(2)
        until(
            lambda: second.running() and second.running() == TASKS - first.running(),
            PATIENCE_S,
            "both share the tasks",
        )
        assert "Stable" in printed_state(bootstrap, name)
        until(doomed.is_replicated, PATIENCE_S, "every partition is in sync")
        before, kept = wire.describe_streams(bootstrap, name), first.running()
        seen = len(first.lines)
        doomed.kill_coordinator(name)
        assert wire.describe_streams(bootstrap, name) == before
        assert "Stable" in printed_state(bootstrap, name)  # some heartbeats later
        assert (first.running(), first.lines[seen:]) == (kept, []), first.lines[seen:]
        second.leave()
        until(lambda: first.running() == TASKS, PATIENCE_S, "the first has all tasks again")
