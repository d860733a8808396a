"""What is shown while a benchmark runs."""

import io

import pytest

from bench.report.progress import note, turns


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_server_and_how_many_turns_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with turns("closed [loop]", 4) as begin:
        for server in ("rollcall", "kafka", "rollcall"):
            begin(server)
            drawn = screen.getvalue()
        assert screen.getvalue() == drawn, "nothing is drawn during a turn"
    assert "closed [loop]: kafka" in drawn
    assert "1/4" in drawn
    assert "2/4" in drawn


def test_a_file_or_pipe_gets_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with turns("case", 1) as begin:
        begin("rollcall")
    note("Starting ...")
    assert capsys.readouterr().err == ""
