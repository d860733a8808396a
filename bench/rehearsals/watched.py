"""``python -m bench.rehearsals.watched SCENARIO``: a scenario on Kafka beside ``rollcall watch``.

A Kafka of one broker is started, and watched while the scenario is rehearsed there. The figures are
what the watching used, and how far behind it was when the last record had been written; what it
told is counted. Its stories and the verdict stay with ``--keep``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.clock import wall_ms
from actors.errors import CommandError
from actors.watching.place import PlaceFile
from bench.client.blocking_client import BlockingClient
from bench.interruption import Interrupted, interruptible
from bench.report.rounds import BenchRow
from bench.report.tables import document, table
from bench.result_files import result_path, write_aside
from bench.scenarios.files import found
from bench.servers.kafka import kafka_cluster
from bench.servers.processes import cpu_seconds
from bench.servers.reading import ReadProgress, written
from bench.servers.rollcall import command
from bench.servers.server import StartError
from bench.servers.usage import SampledUsage
from bench.servers.watched import PLACE, STORIES, counted, stop_watching, wait_until_read, watching
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.report.rounds import Figures
    from bench.scenarios.scenario import Scenario

OK, FAILURE, BAD_INPUT = 0, 1, 2
NAME: Final = "watched"
MIB: Final = 1 << 20
PARTITIONS: Final = 50
"""Kafka's default of offsets.topic.num.partitions."""

VERDICT: Final = "verdict.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse and watch one scenario; return the exit code."""
    asked = _parser().parse_args(arguments)
    directory = asked.keep or Path(tempfile.mkdtemp(prefix="rollcall-watched-"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with interruptible():
            measured = watched(asked.scenario, asked.spark, directory)
    except DrillError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as stop:
        print(f"rollcall: The rehearsal was {stop}.", file=sys.stderr)
        return stop.exit_code
    except (StartError, CommandError, KafkaError, OSError) as error:
        print(f"rollcall: The rehearsal could not be watched: {error}", file=sys.stderr)
        return FAILURE
    finally:
        if asked.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    rows = [
        BenchRow(
            case=Path(asked.scenario).stem, server="rollcall watch", rounds=(measured.figures,)
        )
    ]
    print(table(rows))
    if asked.json:
        told = {**document(NAME, rows), "told": measured.told, "rehearsed": measured.rehearsed}
        write_aside(asked.json, json.dumps(told, indent=2) + "\n")
    return OK


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRehearsal:
    """What watching used, what it told, and what the rehearsal's members lived through."""

    figures: Figures
    told: Mapping[str, Any]
    rehearsed: Mapping[str, Any]


def watched(name: str, spark: int, directory: Path) -> WatchedRehearsal:
    """Rehearse a scenario on a Kafka that is watched.

    Seconds are those from the first record to the end of reading: how long the rehearsal's verdict
    takes does not count.
    """
    scenario = found(name)
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_cluster(1, _configs(scenario)))
        host, port = kafka.bootstrap[0]
        bootstrap = f"{host}:{port}"
        with BlockingClient(kafka.bootstrap[0]) as client:
            client.coordinator("any")  # now there is a topic to watch
        process = stack.enter_context(watching(bootstrap, directory))
        before_s, began_ms = cpu_seconds([process.pid]), wall_ms()
        usage = SampledUsage(process.pid)
        stack.callback(usage.stop)
        progress = ReadProgress(PlaceFile(directory / PLACE), process.pid)
        stack.callback(progress.stop)
        rehearsed = _rehearse(name, spark, bootstrap, directory)
        load = written(bootstrap, range(PARTITIONS), began_ms)
        there = wait_until_read(bootstrap, directory, process)
        progress.stop()
        usage.stop()
        stop_watching(process)
    records = sum(there.ends.values()) - sum(there.starts.values())
    seconds, cpu_s = (progress.read_ms - load.first_ms) / 1000, progress.cpu_s - before_s
    told = counted((directory / STORIES).read_text().splitlines())
    return WatchedRehearsal(
        figures={
            "seconds_s": seconds,
            "behind_s": (progress.read_ms - load.last_ms) / 1000,
            "records": float(records),
            "records_per_s": records / seconds,
            "stories": float(told["stories"]),
            "watch_cpu_s": cpu_s,
            "watch_cpu_percent": 100 * cpu_s / seconds,
            "watch_peak_mib": usage.peak_bytes / MIB,
        },
        told=told,
        rehearsed=rehearsed,
    )


def _configs(scenario: Scenario) -> dict[str, str]:
    share_state = {"num.partitions": 1, "replication.factor": 1, "min.isr": 1}
    return {
        **{f"share.coordinator.state.topic.{name}": str(n) for name, n in share_state.items()},
        "offsets.topic.num.partitions": str(PARTITIONS),
        **scenario.broker_configs(),
    }


def _rehearse(name: str, spark: int, bootstrap: str, directory: Path) -> Mapping[str, Any]:
    """Rehearse the scenario there; return the document of its verdict, which may be bad."""
    verdict = directory / VERDICT
    verdict.unlink(missing_ok=True)
    words = ["rehearse", name, "--bootstrap", bootstrap, "--json", str(verdict)]
    words += ["--spark", str(spark)] if spark else []
    subprocess.run(command(words), check=False, stdout=sys.stderr)
    if not verdict.exists():
        raise StartError("the scenario was not completed: see above")
    rehearsed: Mapping[str, Any] = json.loads(verdict.read_text())
    return rehearsed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.watched",
        description="Rehearse a scenario on Apache Kafka, and measure `rollcall watch` beside it.",
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a name, or a .toml file")
    parser.add_argument(
        "--spark", type=int, default=0, metavar="N",
        help="let N tasks of a local Spark drive the members, which may be ten thousands",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the figures to FILE"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep stories and verdict in DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
