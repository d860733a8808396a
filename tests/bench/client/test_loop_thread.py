"""The thread of the members' event loop."""

import os
import threading

import pytest

from actors.priority import EVENT_LOOP_NICENESS
from bench.client.loop_thread import LoopThread


@pytest.mark.skipif(os.getuid() != 0, reason="only root may lower a niceness")
def test_members_get_a_processor_as_soon_as_a_coordinator_does() -> None:
    thread = LoopThread("members")
    thread.start()
    try:
        number = thread.ask(threading.get_native_id)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, number) == own - EVENT_LOOP_NICENESS
    finally:
        thread.end()
