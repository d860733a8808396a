"""Cold reload: every process is killed, and a coordinator reads its partition from the disk.

One partition on one replica holds a million committed offsets (or the requested number). The load
time is the one that each server logs. The table also has the time from the kill to the first
answered OffsetFetch, which includes the start of the process.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.load.offsets import PARTITIONS, fill, groups_on
from bench.report.progress import note
from bench.report.rounds import BenchRow, Figures
from bench.servers.kafka import kafka_cluster
from bench.servers.restartable_cluster import rollcall_cluster, wait_until_whole
from bench.servers.rollcall import ONE_COORDINATOR
from bench.servers.server import StartError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.report.rounds import BenchSettings
    from bench.servers.restartable_cluster import Address

PREFIX: Final = "offsets"
ANSWER_SECONDS_MAX: Final = 300
LOG_SECONDS_MAX: Final = 10
POLL_SECONDS: Final = 0.02
OURS: Final = re.compile(r"loaded in (?P<ms>\d+) ms")
THEIRS: Final = re.compile(
    r"Finished loading of metadata from __consumer_offsets-0 .*? in (?P<ms>\d+)ms "
    r"where (?P<waited>\d+)ms"
)


def bench_reload(setting: BenchSettings, with_kafka: bool) -> list[BenchRow]:
    """Measure ours, then Kafka."""
    rows = [_row("rollcall", setting, tuple(_ours(setting)))]
    if with_kafka:
        rows.append(_row("kafka", setting, tuple(_theirs(setting))))
    return rows


def _row(server: str, setting: BenchSettings, rounds: tuple[Figures, ...]) -> BenchRow:
    return BenchRow(case=f"{setting.records} offsets", server=server, rounds=rounds)


def _ours(setting: BenchSettings) -> Iterator[Figures]:
    with rollcall_cluster(ONE_COORDINATOR) as cluster:
        (address,) = cluster.bootstrap
        log = cluster.live.data_dir / "logs" / "coordinator-0.log"
        note(f"rollcall: {setting.records} offsets are committed ...")
        fill(address, groups_on(0, 1, PREFIX), setting.records)
        for number in range(setting.rounds):
            note(f"rollcall: kill {number + 1} of {setting.rounds} ...")
            wait_until_whole(cluster)
            told = len(_text(log))
            begun = time.perf_counter()
            cluster.kill(address)
            answered_s = _first_answer(address) - begun
            said = _logged(log, told, OURS)
            yield _figures(setting, float(said["ms"]), answered_s)


def _theirs(setting: BenchSettings) -> Iterator[Figures]:
    with kafka_cluster(1) as kafka:
        (address,) = kafka.bootstrap
        note(f"kafka: {setting.records} offsets are committed ...")
        fill(address, groups_on(0, 1, PREFIX), setting.records)
        for number in range(setting.rounds):
            note(f"kafka: kill {number + 1} of {setting.rounds} ...")
            begun = time.perf_counter()
            kafka.kill(0)
            kafka.start_again(0)
            answered_s = _first_answer(address) - begun
            said = _logged(kafka.log_path(0), 0, THEIRS)
            yield _figures(setting, float(said["ms"]) - float(said["waited"]), answered_s)


def _figures(setting: BenchSettings, load_ms: float, answered_s: float) -> Figures:
    return {
        "load_ms": load_ms,
        "records_per_s": setting.records / max(load_ms, 1) * 1000,
        "kill_to_answer_ms": answered_s * 1000,
    }


def _first_answer(address: Address) -> float:
    """Return when all offsets of the first group could be fetched again."""
    group_id = next(groups_on(0, 1, PREFIX))

    def look() -> int:
        with BlockingClient(address) as connection:
            return len(connection.committed_offsets(group_id))

    failures = (OSError, KafkaError)
    try:
        found = poll(
            look, ANSWER_SECONDS_MAX, is_done=is_answered, every_s=POLL_SECONDS, retry=failures
        )
    except failures:
        raise StartError(f"No offset could be fetched within {ANSWER_SECONDS_MAX} s.") from None
    if found != PARTITIONS:
        raise StartError(f"{found} of {PARTITIONS} offsets of {group_id} are there.")
    return time.perf_counter()


def _logged(log: Path, after: int, sentence: re.Pattern[str]) -> re.Match[str]:
    """Return the log message once it appears after the first ``after`` characters of the log."""
    found = poll(lambda: sentence.search(_text(log), after), LOG_SECONDS_MAX, every_s=POLL_SECONDS)
    if found is None:
        raise StartError("The log does not say how long the partition took to load.")
    return found


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
