"""The thread of the members' event loop."""

import gc
import os
import threading

import pytest

from actors.priority import EVENT_LOOP_NICENESS
from bench.client import loop_thread
from bench.client.loop_thread import MEMBERS_NICENESS, LoopThread
from tests.waiting import WITHIN_S, until

NEW = 1_000


@pytest.mark.skipif(os.getuid() != 0, reason="only root may lower a niceness")
def test_members_get_a_processor_before_a_coordinator_does() -> None:
    thread = LoopThread("members")
    thread.start()
    try:
        number = thread.ask(threading.get_native_id)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, number) == own - MEMBERS_NICENESS
        assert MEMBERS_NICENESS > EVENT_LOOP_NICENESS
    finally:
        thread.end()


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
