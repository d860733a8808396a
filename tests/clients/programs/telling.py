"""What the riding programs in Python share: how they are told what to do and how they tell.

Run as ``PROGRAM key=value ... member=LABEL,GROUP[,INSTANCE] ...``. Each event is one line,
``AT_MS LABEL EVENT topic/partition[=offset],...``; times are of the monotonic clock, which every
process of a machine shares. Committed offsets are such times as well, so that the next owner of a
partition commits a larger one. ``close LABEL`` on standard input closes a member, ``open
LABEL`` opens it (again), ``restart LABEL`` does both; the end of the input closes all. The members
named by ``closed=LABEL,...`` are not open at the beginning.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from queue import Queue
from typing import Protocol

from tests.waiting import patient

Partition = tuple[str, int]

COMMIT_EVERY_MS = 100
OPEN_S = patient(60)
CLOSE_S = patient(20)


class Rider(Protocol):
    """One open consumer; used by one thread."""

    def poll(self) -> None:
        """Serve the client for a short while: rebalance callbacks run in here."""

    def owned(self) -> set[Partition]:
        """Partitions that it has now."""

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Commit and wait for the answer; gives those acknowledged. Raises what went wrong."""

    def close(self) -> None:
        """Close as an application does."""


class Teller:
    """Writes one member's events to standard output."""

    _lock = threading.Lock()

    def __init__(self, label: str) -> None:
        self._label = label

    def __call__(self, event: str, what: str = "") -> None:
        with Teller._lock:
            sys.stdout.write(f"{now_ms()} {self._label} {event} {what}\n")
            sys.stdout.flush()

    def partitions(self, event: str, partitions: set[Partition]) -> None:
        """Tell of partitions."""
        self(event, ",".join(f"{t}/{p}" for t, p in sorted(partitions)))

    def offsets(self, event: str, offsets: Mapping[Partition, int]) -> None:
        """Tell of offsets."""
        self(event, ",".join(f"{t}/{p}={o}" for (t, p), o in sorted(offsets.items())))


class Settings:
    """What the program was told on its command line."""

    def __init__(self) -> None:
        pairs = [word.split("=", 1) for word in sys.argv[1:]]
        self.values = {key: value for key, value in pairs if key not in ("member", "closed")}
        self.closed = [
            label for key, value in pairs if key == "closed" for label in value.split(",")
        ]
        self.members = [value.split(",") for key, value in pairs if key == "member"]


Opener = Callable[[Mapping[str, str], str, str | None, Teller], Rider]


def ride(opener: Opener) -> None:
    """Run every member in a thread of its own, and do what standard input says."""
    settings = Settings()
    orders: dict[str, Queue[str]] = {label: Queue() for label, *_ in settings.members}
    threads = []
    for label, group_id, *instance in settings.members:
        tell = Teller(label)
        made = (settings.values, group_id, instance[0] if instance else None, tell)
        if label not in settings.closed:
            orders[label].put("open")
        run = partial(_obey, orders[label], partial(opener, *made), tell)
        threads.append(threading.Thread(target=run, daemon=True))
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        order, label = line.split()
        orders[label].put(order)
    for queue in orders.values():
        queue.put("end")
    for thread in threads:
        thread.join(CLOSE_S)


def _obey(orders: Queue[str], opened: Callable[[], Rider], tell: Teller) -> None:
    """Do as ordered until the end. An exception is printed and ends the process: nobody waits."""
    try:
        _open_and_close(orders, opened, tell)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _open_and_close(orders: Queue[str], opened: Callable[[], Rider], tell: Teller) -> None:
    order = orders.get()
    while order != "end":
        if order == "close":
            order = orders.get()
            continue
        rider = until_opened(opened, tell)
        order = _live(rider, tell, orders)
        rider.close()
        tell("CLOSED")


def until_opened(opened: Callable[[], Rider], tell: Teller) -> Rider:
    """Open a member, again if it fails within ``OPEN_S``, as a supervisor of services does.

    A library may give up while it looks for a broker, because the machine or a failover is slow.
    """
    end = time.monotonic() + OPEN_S
    while True:
        try:
            return opened()
        except Exception as error:
            tell("UNOPENED", repr(error).replace("\n", " "))
            if time.monotonic() > end:
                raise


def _live(rider: Rider, tell: Teller, orders: Queue[str]) -> str:
    """Poll, and commit what is owned every so often, until there is an order."""
    due_ms = 0
    while orders.empty():
        rider.poll()
        owned = rider.owned()
        if not owned or now_ms() < due_ms:
            continue
        due_ms = now_ms() + COMMIT_EVERY_MS
        offsets = dict.fromkeys(owned, now_ms())
        tell.offsets("SENT", offsets)
        try:
            tell.offsets("COMMITTED", rider.commit(offsets))
        except Exception as error:
            tell("FAILED", repr(error).replace("\n", " "))
    return orders.get()


def now_ms() -> int:
    """Milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000
