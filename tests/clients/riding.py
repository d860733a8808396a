"""Members in processes of their own that poll and commit without pause, and what they lived."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.clients import wire
from tests.clients.java import PROGRAMS, java
from tests.waiting import WITHIN_S, patient, until

Partition = tuple[str, int]
Offsets = dict[Partition, int]

SETTLE_S = patient(60)
CLOSE_S = patient(120)
COORDINATORS = 3
CLIENTS = ("confluent-kafka", "kafka-python", "java")


@dataclass
class Life:
    """What one member has told since :meth:`forget`; written by its reader's thread only."""

    label: str
    group_id: str
    instance_id: str | None = None
    owned: set[Partition] = field(default_factory=set)
    callbacks: list[tuple[str, frozenset[Partition]]] = field(default_factory=list)
    sent: Offsets = field(default_factory=dict)
    acknowledged: Offsets = field(default_factory=dict)
    commits: int = 0
    last_commit_ms: int | None = None
    longest_gap_ms: int = 0
    trouble: Counter[str] = field(default_factory=Counter)
    closed: int = 0

    def forget(self) -> None:
        """Reset the counters, except for acknowledged offsets."""
        self.callbacks = []
        self.commits = self.longest_gap_ms = 0
        self.trouble = Counter()

    def rejoins(self) -> int:
        """How often it was given an assignment."""
        return sum(event == "ASSIGNED" for event, _ in self.callbacks)

    def hear(self, at_ms: int, event: str, what: str) -> None:
        """Take one line."""
        if event in ("SENT", "COMMITTED"):
            offsets = _offsets(what)
            (self.sent if event == "SENT" else self.acknowledged).update(offsets)
            if event == "COMMITTED":
                self._committed(at_ms)
        elif event in ("ASSIGNED", "REVOKED", "LOST"):
            partitions = frozenset(_partition(word) for word in what.split(",") if word)
            self._called_back(event, partitions)
        elif event == "CLOSED":
            self.closed += 1
            self.owned = set()
            self.last_commit_ms = None
        else:
            self.trouble[f"{event} {what}"] += 1

    def _committed(self, at_ms: int) -> None:
        if self.last_commit_ms is not None:
            self.longest_gap_ms = max(self.longest_gap_ms, at_ms - self.last_commit_ms)
        self.last_commit_ms = at_ms
        self.commits += 1

    def _called_back(self, event: str, partitions: frozenset[Partition]) -> None:
        self.callbacks.append((event, partitions))
        self.owned = self.owned | partitions if event == "ASSIGNED" else self.owned - partitions


def _partition(word: str) -> Partition:
    topic, _, number = word.rpartition("/")
    return topic, int(number)


def _offsets(what: str) -> Offsets:
    pairs = (word.split("=") for word in what.split(","))
    return {_partition(partition): int(offset) for partition, offset in pairs}


class Riders:
    """One process of members that use one client library.

    ``members`` are (label, group id, instance id or None); settings are the library's own. Members
    whose labels are in ``closed`` wait to be opened.
    """

    def __init__(
        self,
        client: str,
        bootstrap: str,
        subscribe: str,
        members: Iterable[tuple[str, str, str | None]],
        *,
        protocol: str = "classic",
        settings: Mapping[str, str] | None = None,
        closed: Sequence[str] = (),
    ) -> None:
        self.client = client
        self.lives: dict[str, Life] = {}
        self._story: list[str] = []
        words = [f"bootstrap={bootstrap}", f"subscribe={subscribe}", f"protocol={protocol}"]
        words += [f"{name}={value}" for name, value in (settings or {}).items()]
        for label, group_id, instance_id in members:
            self.lives[label] = Life(label, group_id, instance_id)
            words.append("member=" + ",".join(w for w in (label, group_id, instance_id) if w))
        words += [f"closed={','.join(closed)}"] if closed else []
        self._process = subprocess.Popen(
            [*_program(client), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at_ms, label, event, *what = line.rstrip("\n").split(" ", 3)
            self.lives[label].hear(int(at_ms), event, what[0] if what else "")
            if event not in ("SENT", "COMMITTED"):
                self._story.append(line)

    def check(self) -> None:
        """Fail at once if the process has ended by itself."""
        assert self._process.poll() is None, f"{self.client} ended: {self._process.returncode}"

    def of(self, group_id: str) -> list[Life]:
        """Give the lives of a group's members."""
        return [life for life in self.lives.values() if life.group_id == group_id]

    def groups(self) -> list[str]:
        """Give the group ids."""
        return list(dict.fromkeys(life.group_id for life in self.lives.values()))

    def order(self, what: str, label: str) -> None:
        """Tell a member to ``open``, to ``close`` as an application does, or to ``restart``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {label}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Close every member and wait for the end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(CLOSE_S)
        self._end()

    def kill(self) -> None:
        """``kill -9`` and print what became of the members; nothing if it has ended."""
        if self._process.poll() is None:
            print(self.client, "".join(self._story), sep="\n")  # noqa: T201
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._end()

    def _end(self) -> None:
        self._reader.join(WITHIN_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _program(client: str) -> list[str]:
    if client == "java":
        # Its warnings are of connections that broke, which the tests do on purpose.
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return java(quiet, PROGRAMS / "Riders.java")
    return [sys.executable, "-m", f"tests.clients.programs.{client.replace('-', '_')}_riders"]


def are_shared_out(lives: Sequence[Life], everything: set[Partition]) -> bool:
    """Every partition has one owner, no member two more than another, and all have committed."""
    sizes = [len(life.owned) for life in lives]
    return (
        set().union(*(life.owned for life in lives)) == everything
        and sum(sizes) == len(everything)
        and max(sizes) - min(sizes) <= 1
        and all(life.owned <= set(life.acknowledged) for life in lives)
    )


def acknowledged(lives: Iterable[Life]) -> Offsets:
    """Return the largest acknowledged offset of every partition, by any member."""
    return _largest(life.acknowledged for life in lives)


def lost(bootstrap: str, group_id: str, promised: Offsets) -> list[str]:
    """Compare what a group's coordinator knows with what its members were promised before."""
    found = wire.offsets_once_back(bootstrap, group_id)
    return [
        f"{group_id} {partition}: acknowledged {offset}, found {found.get(partition, -1)}"
        for partition, offset in promised.items()
        if found.get(partition, -1) < offset
    ]


def invented(bootstrap: str, lives: Sequence[Life]) -> list[str]:
    """Find offsets of a group, all of whose members have ended, that none of them has sent."""
    found = wire.offsets_once_back(bootstrap, lives[0].group_id)
    sent = _largest(life.sent for life in lives)
    return [f"{p}: found {o}, sent {sent.get(p)}" for p, o in found.items() if o > sent.get(p, -1)]


def _largest(several: Iterable[Mapping[Partition, int]]) -> Offsets:
    largest: Offsets = {}
    for offsets in several:
        for partition, offset in dict(offsets).items():
            largest[partition] = max(offset, largest.get(partition, -1))
    return largest


def wait_until_committing(
    riders: Sequence[Riders], what: str, deadline_s: float = SETTLE_S
) -> None:
    """Wait until every member has got another commit acknowledged from now on."""
    everyone = [
        (f"{one.client} {label}", life) for one in riders for label, life in one.lives.items()
    ]
    before = {who: life.commits for who, life in everyone}

    def missing() -> list[str]:
        for one in riders:
            one.check()
        return [who for who, life in everyone if life.commits <= before[who]]

    until(lambda: not missing(), deadline_s, f"{what}: every member commits again")


def group_on_partition_0(name: str) -> str:
    """Give a group id with this beginning that Kafka's hash puts on partition 0."""
    return next(
        candidate
        for candidate in (f"{name}-{i}" for i in range(1000))
        if java_hash(candidate) % COORDINATORS == 0
    )


def java_hash(text: str) -> int:
    """Give what ``String.hashCode`` gives for ASCII, without its sign bit."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
