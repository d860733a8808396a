"""An idle consumer of each client costs next to nothing, on the client's side.

A client that does not find what it believes it needs may spin: librdkafka did so while Produce was
not listed. Measured is CPU time, which other work on the machine hardly changes; all clients are
measured at once.
"""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from bench.servers.processes import cpu_seconds, descendants
from tests.clients.confluent import create_topics
from tests.clients.java import PROGRAMS, java
from tests.clients.programs.idle_member import KINDS
from tests.clients.test_franz_go import program
from tests.waiting import WITHIN_S, patient, until

__all__ = ("program",)

WINDOW_S = 10.0
SHARE_MAX = 0.01
"""Of one processor, of a client that is at rest. One that spins takes 1."""

SHARES_MAX = {
    "aiokafka": 0.016,
    "kafka-python": 0.04,
    "Java classic": 0.04,
    "Java consumer": 0.03,
    "Java share": 0.03,
}
"""Of those that come near 0.01 or above it: twice what they took on a busy machine.

Three brokers of Kafka 4.3.1 cost them as much: kafka-python 0.011 to 0.014 (here 0.011 to 0.017),
Java classic 0.032 right after it joined and 0.007 a minute later (here 0.031 and 0.008)."""

REST_S = patient(60)
"""Time to come to rest: a virtual machine compiles at first, members find each other."""

PARTITIONS = 4

Where = tuple[str, str, str]
"""Bootstrap, group and topic."""


class Idle:
    """One process with one consumer."""

    def __init__(self, command: list[str]) -> None:
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    def is_assigned(self) -> bool:
        assert self._process.poll() is None, self._lines
        return any("assigned" in line.lower() for line in self._lines)

    def used_s(self) -> float:
        """Give the CPU seconds that it has taken so far."""
        return cpu_seconds(descendants(self._process.pid))

    def close(self) -> None:
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def of_python(kind: str) -> Callable[[pytest.FixtureRequest, Where], list[str]]:
    module = "tests.clients.programs.idle_member"
    return lambda _, where: [sys.executable, "-m", module, kind, *where]


def of_java(protocol: str) -> Callable[[pytest.FixtureRequest, Where], list[str]]:
    def command(_: pytest.FixtureRequest, where: Where) -> list[str]:
        bootstrap, group, topic = where
        flags = ("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic)
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        return java(tool, *flags, "--group-protocol", protocol)

    return command


def share_of_java(_: pytest.FixtureRequest, where: Where) -> list[str]:
    return java(PROGRAMS / "ShareMember.java", *where, "idle")


def of_go(request: pytest.FixtureRequest, where: Where) -> list[str]:
    return [str(request.getfixturevalue("program")), *where, "idle"]


CLIENTS: Mapping[str, Callable[[pytest.FixtureRequest, Where], list[str]]] = {
    **{kind: of_python(kind) for kind in KINDS},
    "Java classic": of_java("classic"),
    "Java consumer": of_java("consumer"),
    "Java share": share_of_java,
    "franz-go": of_go,
}


@pytest.fixture(scope="module")
def shares(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Mapping[str, float | str]]:
    """Start every client; give what part of a processor each uses, or why it is not there."""
    clients: dict[str, Idle] = {}
    found: dict[str, float | str] = {}
    run = uuid.uuid4().hex[:8]
    with ExitStack() as stack:
        for number, (name, command) in enumerate(CLIENTS.items()):
            group = f"idle-{number}-{run}"
            create_topics(bootstrap, [group], PARTITIONS)
            try:
                clients[name] = Idle(command(request, (bootstrap, group, group)))
            except pytest.skip.Exception as why:
                found[name] = str(why)
            else:
                stack.callback(clients[name].close)
        for name, one in clients.items():
            until(one.is_assigned, REST_S, f"{name} owns partitions")
        began_s = time.monotonic()
        while True:
            found |= _shares(clients)
            if all(found[name] <= _most(name) for name in clients):  # type: ignore[operator]
                break
            if time.monotonic() - began_s > REST_S:
                break
        yield found


def _most(client: str) -> float:
    return SHARES_MAX.get(client, SHARE_MAX)


def _shares(clients: Mapping[str, Idle]) -> dict[str, float]:
    began_s = time.monotonic()
    before = {name: one.used_s() for name, one in clients.items()}
    until(lambda: time.monotonic() - began_s > WINDOW_S, WINDOW_S + 10, "the time is over")
    passed_s = time.monotonic() - began_s
    return {name: (one.used_s() - before[name]) / passed_s for name, one in clients.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_idle_consumer_costs_next_to_nothing(
    shares: Mapping[str, float | str], client: str
) -> None:
    share = shares[client]
    if isinstance(share, str):
        pytest.skip(share)
    print(f"{client}: {share:.4f} of a processor")  # noqa: T201 - the figure is what one wants
    assert share <= _most(client)
