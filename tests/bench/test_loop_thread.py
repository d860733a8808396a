"""The event loop of members does not stop to look for garbage in what they remember."""

import gc

import pytest

from bench.client import loop_thread
from bench.client.loop_thread import LoopThread
from tests.waiting import WITHIN_S, until

NEW = 1_000


def test_what_members_remember_is_taken_from_the_collector_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_thread, "FREEZE_S", 0.01)
    first = gc.get_freeze_count()
    kept: list[list[int]] = []
    thread = LoopThread("members")
    thread.start()
    try:
        for times in (1, 2, 3):
            kept += [[] for _ in range(NEW)]
            until(
                lambda wanted=first + times * NEW: gc.get_freeze_count() >= wanted,
                WITHIN_S,
                "they are frozen",
            )
    finally:
        thread.end()
