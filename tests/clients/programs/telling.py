"""What the riding programs in Python share: how they are told what to do and how they tell.

Run as ``PROGRAM key=value ... member=LABEL,GROUP[,INSTANCE] ...``. Each event is one line,
``AT_MS LABEL EVENT topic/partition[=offset],...``; times are of the monotonic clock, which every
process of a machine shares. Committed offsets are such times as well, so that whoever owns a
partition next commits a larger one. ``restart LABEL`` on standard input closes a member and opens
it anew; the end of the input closes all.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

Partition = tuple[str, int]

COMMIT_EVERY_MS = 100


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
        self.values = {key: value for key, value in pairs if key != "member"}
        self.members = [value.split(",") for key, value in pairs if key == "member"]


Opener = Callable[[Mapping[str, str], str, str | None, Teller], Rider]


def ride(opener: Opener) -> None:
    """Open every member, each in a thread of its own, and do what standard input says."""
    settings = Settings()
    restarts: dict[str, threading.Event] = {}
    closing = threading.Event()
    threads = []
    for label, group_id, *instance in settings.members:
        restarts[label] = threading.Event()

        def run(
            label: str = label, group_id: str = group_id, instance: list[str] = instance
        ) -> None:
            tell = Teller(label)
            while not closing.is_set():
                rider = opener(settings.values, group_id, instance[0] if instance else None, tell)
                _live(rider, tell, lambda: closing.is_set() or restarts[label].is_set())
                restarts[label].clear()
                rider.close()
                tell("CLOSED")

        threads.append(threading.Thread(target=run, daemon=True))
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        restarts[line.split()[1]].set()
    closing.set()
    for thread in threads:
        thread.join(20)


def _live(rider: Rider, tell: Teller, is_over: Callable[[], bool]) -> None:
    """Poll, and commit what is owned every so often, until it is over."""
    due_ms = 0
    while not is_over():
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


def now_ms() -> int:
    """Milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000
