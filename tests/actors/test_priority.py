"""A lower CPU priority is that of every thread of a process, not of the one that asks for it."""

import os
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


LESS_NICE = """
import os, subprocess, sys, threading
from actors.priority import raise_own_priority

def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

found = [niceness()]
main = threading.Thread(target=lambda: (raise_own_priority(2), found.append(niceness())))
main.start()
main.join()
found.append(niceness())
raise_own_priority(2)
started = threading.Thread(target=lambda: found.append(niceness()))
started.start()
started.join()
asks = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]
found.append(int(subprocess.run(asks, capture_output=True, check=True).stdout))
print(*(each - found[0] for each in found))
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="others may not")
def test_one_thread_is_less_nice_and_nothing_that_it_starts() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LESS_NICE], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["0", "-2", "0", "0", "0"]


def test_who_may_not_be_less_nice_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(priority.os, "sched_setscheduler", lambda *_: None)
    monkeypatch.setattr(priority.os, "setpriority", refused)
    priority.raise_own_priority(2)


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
