"""The pages of the console, about a watched Kafka."""

from __future__ import annotations

import http.client
import socket
import urllib.request
from contextlib import closing

import pytest

from actors.console.hosts import KnownHosts
from actors.errors import FailureError
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching.console import WatchedSource
from actors.watching.ends import PartitionEnds
from actors.watching.serving import ConsoleThread
from actors.watching.session import Options, WatchSession
from tests.actors.watching.test_console import Ends, commit
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, Told
from tests.protocol.watching.records import generation
from tests.waiting import WITHIN_S

HOST = "127.0.0.1"


def watched_source() -> WatchedSource:
    metrics = GroupMetrics()
    log = Log(*START, generation(2, A, B), commit(0, 5))
    log.script = [None]
    options = Options(bootstrap=BOOTSTRAP, is_from_beginning=True, metrics=metrics)
    session = WatchSession(log, options, Told())
    session.run(log.stop)
    return WatchedSource(session, BOOTSTRAP, PartitionEnds(Ends()), metrics)


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=WITHIN_S) as answer:
        text: str = answer.read().decode()
    return text


def test_the_same_pages_are_served() -> None:
    with closing(ConsoleThread(watched_source(), HOST, 0)) as console:
        assert f"Kafka at {BOOTSTRAP}" in page(console.port, "/")
        group = page(console.port, "/group?id=g")
        assert "it is new in generation 2" in group
        assert "t-0" in group
        assert "records, 1 offsets" in page(console.port, "/cluster")
        assert 'kafka_consumergroup_members{consumergroup="g"' in page(console.port, "/metrics")


def test_other_host_names_are_refused_and_the_option_adds_some() -> None:
    hosts = KnownHosts(("kafka.example.com",), "--console-hosts")
    with closing(ConsoleThread(watched_source(), HOST, 0, hosts)) as console:
        for host, status in (("kafka.example.com", 200), ("evil.example", 421)):
            asked = http.client.HTTPConnection(HOST, console.port, timeout=WITHIN_S)
            asked.request("GET", "/", headers={"host": host})
            answer = asked.getresponse()
            assert answer.status == status
            assert (b"--console-hosts" in answer.read()) == (status == 421)
            asked.close()


def test_a_port_that_is_taken() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FailureError, match=f"the console cannot listen on {HOST}:{port}"):
            ConsoleThread(watched_source(), HOST, port)
