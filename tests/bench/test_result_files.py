"""Where results are written: checked before the work by each command, and in one piece."""

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from bench.result_files import result_path, write_aside

COMMANDS = (
    ("bench.cli", ["heartbeats"]),
    ("bench.cases.assignors", []),
    ("bench.cases.histories", []),
    ("bench.cases.hostile", []),
    ("bench.check", ["/proc/none"]),
    ("bench.drills", ["kill-leader"]),
    ("bench.hosts.footprint", []),
    ("bench.load.submit", []),
    ("bench.rehearsals.watched", ["steady"]),
    ("bench.rehearse", ["steady"]),
)


@pytest.mark.parametrize(("module", "words"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_a_result_that_cannot_be_written_is_refused_before_the_work(
    module: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        import_module(module).main([*words, "--json", "/proc/none/result.json"])
    assert stop.value.code == 2
    assert "cannot be written: there is no such directory" in capsys.readouterr().err


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="name a file"):
        result_path(str(tmp_path))


def test_a_name_alone_is_in_this_directory() -> None:
    assert result_path("result.json") == Path("result.json")


def test_a_link_and_a_pipe_are_written_to(tmp_path: Path) -> None:
    link, target, pipe = tmp_path / "link", tmp_path / "target", tmp_path / "pipe"
    link.symlink_to(target)
    write_aside(link, "a")
    assert link.is_symlink() and target.read_text() == "a"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        write_aside(pipe, "b")
        assert read.result() == "b"
    assert pipe.is_fifo()
