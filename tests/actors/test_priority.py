"""A lower CPU priority is that of every thread of a process, not of the one that asks for it."""

import subprocess
import sys

import pytest

NICENESS_OF_THREADS = """
import os, threading
from pathlib import Path
from actors.priority import THREADS, lower_priority

def niceness():
    return sorted(os.getpriority(os.PRIO_PROCESS, int(each.name)) for each in THREADS.iterdir())

go_on = threading.Event()
before = [threading.Thread(target=go_on.wait) for _ in range(3)]
for each in before:
    each.start()
at_first = os.getpriority(os.PRIO_PROCESS, 0)
asker = threading.Thread(target=lower_priority, args=(2,))
asker.start()
asker.join()
later = threading.Thread(target=go_on.wait)
later.start()
print([each - at_first for each in niceness()])
lower_priority(40)
print(set(niceness()))
go_on.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one priority")
def test_all_threads_are_nicer_and_those_that_start_later() -> None:
    """It runs in a process of its own: who is not root cannot take a priority back."""
    said = subprocess.run(
        [sys.executable, "-c", NICENESS_OF_THREADS], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["[2, 2, 2, 2, 2]", "{19}"]
