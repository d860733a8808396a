"""`rollcall bench telemetry` and `console-cost` in small: the same rounds, on one coordinator."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from actors.console.source import GroupDetail
from actors.telemetry.transports import FILE
from bench import cli
from bench.cases import console_cost, telemetry
from bench.cases.members import Pace
from bench.cases.telemetry import (
    AGAINST_OFF,
    AT_EQUAL_SPEED,
    GENERATOR,
    OTHER_THREADS,
    PER_CPU_S,
    SERVER,
    TELEMETRY,
    beside_off,
    environments,
    hanging_backend,
)
from bench.report.rounds import BenchRow, BenchSettings, compared
from bench.servers.open_pages import EventStreams, events_of
from bench.servers.server import Server, StartError, serving_processes
from tests.actors.console.served import served
from tests.actors.console.sources import FakeSource, detail
from tests.bench.one_node import OneNode
from tests.waiting import WITHIN_S, until

OF_ALL = ["off", "off again", "files", "hanging"]
FEW = BenchSettings(rounds=1, seconds=0.2)


class AnyGroup(FakeSource):
    """It has every group that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.groups_asked: set[str] = set()

    async def group(self, group_id: str) -> GroupDetail | None:
        self.groups_asked.add(group_id)
        return detail(group_id)


@contextmanager
def one_node(directory: Path, environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    node = OneNode(directory, environ).start()
    try:
        (pid,) = serving_processes((node.address,))
        yield Server(name="rollcall", bootstrap=(node.address,), root=pid, serving=(pid,))
    finally:
        node.kill()


def test_telemetry_is_measured_off_in_files_and_with_a_backend_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mapping[str, str]] = []

    def running(_: Mapping[str, str], *, environ: Mapping[str, str]) -> object:
        started.append(environ)
        return one_node(tmp_path / f"{len(started)}", environ)

    monkeypatch.setattr(telemetry, "running_rollcall", running)
    monkeypatch.setattr(telemetry, "WARM_UP_SECONDS", 0.2)
    monkeypatch.setattr(telemetry, "GROUPS", 1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://somebody")
    rows = telemetry.bench_telemetry(FEW, False)
    assert [set(each) & {FILE, "OTEL_EXPORTER_OTLP_ENDPOINT"} for each in started] == [
        set(),
        set(),
        {FILE},
        {"OTEL_EXPORTER_OTLP_ENDPOINT"},
    ]
    assert [row.case.rpartition(": ")[2] for row in rows] == OF_ALL * 2
    assert all(row.rounds[0]["requests"] > 0 for row in rows)
    assert all(row.rounds[0][AGAINST_OFF] == 0 for row in rows[::4])
    assert all(row.rounds[0][TELEMETRY] == 0 for row in rows[::4])
    assert all(0 <= row.rounds[0][OTHER_THREADS] < 100 for row in rows)
    counted = {"rebalances_per_s", "late_rebalances"}
    assert [counted <= row.rounds[0].keys() for row in rows] == [False] * 4 + [True] * 4


def test_rebalances_are_due_by_the_clock_and_counted() -> None:
    pace = Pace(100.0)
    begins = (100.2, 100.44, 101.1, 101.1)  # due at 100.2, 100.4, 100.6 and 100.8
    late = []
    for now_s in begins:
        pace.begins(now_s)
        late.append(pace.late)
    assert (pace.count, late) == (4, [0, 0, 1, 2])
    assert pace.due_s == pytest.approx(101.0), "those that were late delay no later one"


def test_each_round_is_compared_with_that_without_telemetry() -> None:
    names = (PER_CPU_S, OTHER_THREADS, SERVER, GENERATOR)

    def row(server: str, *values: tuple[float, float, float, float]) -> BenchRow:
        rounds = tuple(dict(zip(names, each, strict=True)) for each in values)
        return BenchRow(case="c", server=server, rounds=rounds)

    off = row("off", (100.0, 1.0, 1.0, 0.5), (200.0, 3.0, 1.0, 0.5))
    files = row("files", (97.0, 3.5, 1.0, 0.5), (210.0, 3.0, 1.0, 0.45))
    rows = compared([off, files], "telemetry", beside_off)
    assert [row.case for row in rows] == ["c, telemetry: off", "c, telemetry: files"]
    assert [each[AGAINST_OFF] for each in rows[1].rounds] == pytest.approx([-3.0, 5.0])
    assert [each[AT_EQUAL_SPEED] for each in rows[1].rounds] == pytest.approx([0.0, -10.0])
    assert [each[TELEMETRY] for each in rows[1].rounds] == pytest.approx([2.5, 0.0])


def test_a_cluster_that_exports_nothing_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "EXPORTED_S", 0.1)
    with pytest.raises(StartError, match="'files' exported nothing"):
        telemetry._check(lambda: any(tmp_path.iterdir()), "files")


def test_the_telemetry_of_the_benchmark_is_not_that_of_its_clusters(tmp_path: Path) -> None:
    ours = {"PATH": "p", "OTEL_TRACES_EXPORTER": "otlp", FILE: "f"}
    off, again, files, hanging = environments(ours, tmp_path, "http://h").values()
    assert off == again == {"PATH": "p", "OTEL_SDK_DISABLED": "true"}
    assert files == {"PATH": "p", FILE: str(tmp_path / "traces.jsonl")}
    assert hanging["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://h"


def test_a_backend_that_hangs_accepts_and_says_nothing() -> None:
    with hanging_backend() as backend:
        address = ("127.0.0.1", int(backend.url.rpartition(":")[2]))
        with socket.create_connection(address) as connection:
            connection.sendall(b"POST /v1/traces HTTP/1.1\r\n\r\n")
            until(lambda: backend.accepted == 1, WITHIN_S, "it is accepted")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)


def test_the_pages_of_the_console_are_opened_and_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_cost, "looking", lambda: nullcontext(EventStreams()))
    monkeypatch.setattr(console_cost, "SETTLE_S", 0.1)
    monkeypatch.setattr(console_cost, "GROUPS", 2)
    monkeypatch.setattr(console_cost, "MEMBERS_EACH", 5)
    source = AnyGroup()
    with one_node(tmp_path) as node, served(source) as url:
        server = Server(
            name="rollcall",
            bootstrap=node.bootstrap,
            root=os.getpid(),
            serving=node.serving,
            metrics=f"{url}/metrics",
        )
        closed, opened, asked = console_cost.bench_console_cost(
            [server], BenchSettings(rounds=1, seconds=1.0)
        )
    assert closed.case.endswith("5 pages by their streams: closed")
    assert opened.case.endswith("5 pages by their streams: open")
    assert closed.rounds[0][console_cost.ADDED] == 0
    assert opened.rounds[0].keys() >= {"rebalances_per_s", "late_rebalances"}
    assert console_cost.ASKED_PER_S not in opened.rounds[0], "the console is not counted"
    assert asked.case.endswith("asked for without a browser")
    assert asked.rounds[0][console_cost.ASKED_PER_S] > 1
    assert source.groups_asked >= {"console-0", "console-1"}
    assert any(each.startswith("rebalancing-") for each in source.groups_asked)
    assert {"groups", "cluster"} <= set(source.asked)


def test_a_page_that_is_never_brought_up_to_date_is_not_measured() -> None:
    with (
        served(FakeSource()) as url,
        pytest.raises(StartError, match="page /nothing is not"),
        EventStreams().opened(url, ["/nothing"]),
    ):
        pass


def test_the_streams_of_pages() -> None:
    assert [events_of(each) for each in ("/", "/group?id=a", "/cluster")] == [
        "/events?page=groups",
        "/events?page=group&id=a",
        "/events?page=cluster",
    ]


def test_what_telemetry_costs_is_compared_with_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is the same: what a machine measures once is no verdict."""
    out = tmp_path / "out.json"
    for cost, is_kept, said in ((2.9, True, "kept"), (3.1, False, "NOT KEPT: 3.1 (c)")):
        row = BenchRow(case="c", server="rollcall", rounds=({TELEMETRY: cost},))
        bench = replace(cli.BENCHES["telemetry"], run=lambda *_, row=row: [row])
        monkeypatch.setattr(cli, "BENCHES", {"telemetry": bench})
        assert cli.main(["telemetry", "--json", str(out)]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == f"limit: telemetry_cpu_percent of at most 3: {said}"
        (limit,) = json.loads(out.read_text())["limits"]
        assert (limit["figure"], limit["most"]) == (TELEMETRY, 3.0)
        assert limit["is_kept"] is is_kept


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list"]) == 0
    told = capsys.readouterr().out
    assert "telemetry " in told
    assert "console-cost " in told
