"""Run in a copy of the project in which docs/how-to/add-a-benchmark.md was followed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import cli
from bench.servers.server import Server, serving_processes
from tests.bench.one_node import OneNode

NAME = "list-groups"


def test_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = OneNode(tmp_path).start()

    @contextmanager
    def running(_: Mapping[str, str]) -> Iterator[Server]:
        (pid,) = serving_processes((node.address,))
        yield Server(name="rollcall", bootstrap=(node.address,), root=pid, serving=(pid,))

    monkeypatch.setattr(cli, "running_rollcall", running)
    try:
        assert cli.main([NAME, "--rounds", "1", "--seconds", "0.2"]) == 0
    finally:
        node.kill()
    assert "requests_per_s" in capsys.readouterr().out


def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list"]) == 0
    assert NAME in capsys.readouterr().out
