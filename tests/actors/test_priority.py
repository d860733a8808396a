"""A lower CPU priority is that of every thread of a process, not of the one that asks for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from actors import priority

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
wanted = min(os.getpriority(os.PRIO_PROCESS, 0) + 2, 19)
asker = threading.Thread(target=lower_priority, args=(2,))
asker.start()
asker.join()
later = threading.Thread(target=go_on.wait)
later.start()
print([each == wanted for each in niceness()])
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
    assert said.stdout.splitlines() == [str([True] * 5), "{19}"]


def test_where_threads_are_not_listed_it_is_that_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    niceness = {0: 3}
    monkeypatch.setattr(priority, "THREADS", Path("/nonexistent"))
    monkeypatch.setattr(priority.os, "getpriority", lambda _, who: niceness[who])
    monkeypatch.setattr(priority.os, "setpriority", lambda _, who, to: niceness.update({who: to}))
    priority.lower_priority(5)
    assert niceness == {0: 8}
