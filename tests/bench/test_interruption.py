"""A command that was asked to stop says so, even if it cannot stop in time."""

import os
import threading

import pytest

from bench import interruption


def test_a_command_that_does_not_stop_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(interruption, "PATIENCE_S", 0)
    monkeypatch.setattr(interruption.os, "_exit", codes.append)
    read, write = os.pipe()
    os.write(write, b"\2")
    interruption._end_late(read, threading.Event())
    os.close(write)
    assert codes == [interruption.NO_VERDICT]
    assert capfd.readouterr().err == (
        "rollcall: The command did not stop within 0 s, so it was ended: what it started or made"
        " may be left.\n"
    )


def test_a_command_that_stops_in_time_says_it_itself(capfd: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.write(write, b"\2")
    is_over = threading.Event()
    is_over.set()
    interruption._end_late(read, is_over)
    os.close(write)
    assert capfd.readouterr().err == ""
