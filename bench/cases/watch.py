"""What `rollcall watch` needs beside a real Apache Kafka: memory, CPU time, and how late it is.

One Kafka broker with 50 partitions of ``__consumer_offsets`` is watched from its first record on.
First as many offsets are committed as are asked for, a hundred in each group: the memory that each
adds is what the process has grown by, divided by their number. Then 10,000 members join 100 classic
groups, group by group, and 10,000 others 100 consumer groups, all at once, while the offsets stay.
``behind_s`` is from the last record's time until everything had been read and told; the place tells
that, which is saved once a second. At the end `rollcall watch --once` reads the whole log again.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.clock import wall_ms
from actors.watching.place import PlaceFile
from bench.cases.group_types import long_sessions
from bench.cases.members import heartbeating_group
from bench.cases.modern_groups import create_topic_of, join_at_once
from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load import offsets
from bench.load.kinds import LOAD_KINDS
from bench.report.limits import FigureLimit
from bench.report.progress import note
from bench.report.rounds import BenchRow
from bench.servers.kafka import kafka_cluster
from bench.servers.processes import cpu_seconds, resident_bytes
from bench.servers.reading import ReadProgress, written
from bench.servers.rollcall import command
from bench.servers.server import StartError
from bench.servers.usage import SampledUsage
from bench.servers.watched import PLACE, STORIES, counted, stop_watching, wait_until_read, watching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.report.rounds import BenchSettings, Figures
    from bench.servers.kafka import Kafka

MEMBERS, MEMBERS_EACH = 10_000, 100
PARTITIONS: Final = 50
"""Kafka's default of offsets.topic.num.partitions."""

CONFIGS: Final[Mapping[str, str]] = {
    **long_sessions("consumer"),
    "offsets.topic.num.partitions": str(PARTITIONS),
}
MIB: Final = 1 << 20
PER_OFFSET: Final = "added_per_offset_bytes"
LIMIT: Final = FigureLimit(figure=PER_OFFSET, most=220)
"""What docs/watch.md promises of the process: it has more than the offsets, such as a buffer."""

READ_SECONDS_MAX: Final = 600


def bench_watch(setting: BenchSettings, _with_kafka: bool) -> list[BenchRow]:
    """Measure everything once."""
    members = setting.members or MEMBERS
    groups = -(-members // MEMBERS_EACH)
    commits = -(-setting.records // (PARTITIONS * offsets.PARTITIONS))
    records = commits * PARTITIONS * offsets.PARTITIONS
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollcall-watch-")))
        note("Starting Apache Kafka ...")
        kafka = stack.enter_context(kafka_cluster(1, CONFIGS))
        host, port = kafka.bootstrap[0]
        with BlockingClient(kafka.bootstrap[0]) as client:
            client.coordinator("any")  # now there is a topic to watch
        process = stack.enter_context(watching(f"{host}:{port}", directory))
        watched = _Watched(kafka, f"{host}:{port}", directory, process)
        rows = [
            watched.measure(
                f"{records} offsets are committed",
                lambda: _commit(kafka, commits),
                records,
            ),
            watched.measure(
                f"{groups * MEMBERS_EACH} members join classic groups",
                lambda: _join_classic(kafka, groups),
            ),
            watched.measure(
                f"{groups * MEMBERS_EACH} members join consumer groups",
                lambda: _join_consumer(kafka, groups),
            ),
        ]
        rows.append(watched.read_again())
        stop_watching(process)
        return rows


@dataclass(frozen=True, slots=True)
class _Watched:
    """A Kafka and the process that watches it, whose files are in a directory."""

    kafka: Kafka
    bootstrap: str
    directory: Path
    process: subprocess.Popen[bytes]

    def measure(self, case: str, load: Callable[[], None], committed: int = 0) -> BenchRow:
        """Measure a load from its first record until everything has been read.

        With ``committed``, this load commits so many, and nothing else.
        """
        note(f"{case} ...")
        pid, file = self.process.pid, PlaceFile(self.directory / PLACE)
        records, stories, memory = self._records(), self._stories(), resident_bytes([pid])
        began_ms, cpu_s = wall_ms(), cpu_seconds([pid])
        with ExitStack() as stack:
            usage = SampledUsage(pid)
            stack.callback(usage.stop)
            progress = ReadProgress(file, pid)
            stack.callback(progress.stop)
            load()
            times = written(self.bootstrap, range(PARTITIONS), began_ms)
            read = self._records()
        seconds = (progress.read_ms - times.first_ms) / 1000
        figures = {
            "seconds_s": seconds,
            "records": float(read - records),
            "stories": float(self._stories() - stories),
            "behind_s": (progress.read_ms - times.last_ms) / 1000,
            "watch_cpu_s": progress.cpu_s - cpu_s,
            "watch_peak_mib": usage.peak_bytes / MIB,
        }
        if committed:
            figures[PER_OFFSET] = (resident_bytes([pid]) - memory) / committed
        return _row(case, figures)

    def read_again(self) -> BenchRow:
        """Measure a watch that reads everything from the start, prints the groups, and ends."""
        records, began_s = self._records(), time.perf_counter()
        words = ["watch", "--bootstrap", self.bootstrap, "--once", "--json"]
        process = subprocess.Popen(command(words), stdout=subprocess.DEVNULL)
        usage = SampledUsage(process.pid)
        try:
            code = process.wait(READ_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise StartError(f"the log was not read in {READ_SECONDS_MAX} s") from None
        finally:
            usage.stop()
            process.kill()
            process.wait()
        if code:
            raise StartError(f"`rollcall watch --once` ended with exit code {code}")
        seconds = time.perf_counter() - began_s
        figures = {
            "seconds_s": seconds,
            "records": float(records),
            "records_per_s": records / seconds,
            "watch_cpu_s": usage.cpu_seconds,
            "watch_peak_mib": usage.peak_bytes / MIB,
        }
        return _row("everything is read again, with --once", figures)

    def _records(self) -> int:
        """Wait until all records have been read; return how many there are."""
        there = wait_until_read(self.bootstrap, self.directory, self.process)
        return sum(there.ends.values())

    def _stories(self) -> int:
        told: Mapping[str, Any] = counted((self.directory / STORIES).read_text().splitlines())
        count: int = told["stories"]
        return count


def _row(case: str, figures: Figures) -> BenchRow:
    return BenchRow(case=case, server="rollcall", rounds=(figures,))


def _commit(kafka: Kafka, commits: int) -> None:
    """Commit offsets of so many groups on each partition."""
    for number in range(PARTITIONS):
        groups = offsets.groups_on(number, PARTITIONS, f"offsets-{number}")
        offsets.fill(kafka.bootstrap[0], groups, commits * offsets.PARTITIONS)


def _join_classic(kafka: Kafka, groups: int) -> None:
    reactor = Reactor()
    try:
        with BlockingClient(kafka.bootstrap[0]) as connection:
            for number in range(groups):
                heartbeating_group(f"classic-{number}", MEMBERS_EACH, connection, reactor)
    finally:
        reactor.close()


def _join_consumer(kafka: Kafka, groups: int) -> None:
    kind = LOAD_KINDS["consumer"]
    create_topic_of(kafka.server, kind, MEMBERS_EACH)
    join_at_once(kafka.server, kind, "consumer", groups, MEMBERS_EACH)
