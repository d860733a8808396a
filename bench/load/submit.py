"""The load as a program for ``spark-submit``: members on the hosts of a Spark cluster, judged.

``spark-submit --master spark://HOST:7077 .../bench/load/submit.py --bootstrap HOST:PORT``: the
members join groups of their own on a running cluster, go on for a while once all groups are Stable,
and leave; the verdict is that of a drill without a fault. With ``--watched-by`` a drill decides
when the load ends, and judges what was found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.telemetry.run_traces import RunStep, TracedRun, trace_run
from actors.waiting import poll
from bench.client.cluster_client import ClusterClient, addresses_in
from bench.load import crowd_over_spark
from bench.load.crowd_over_spark import SparkLoad, crowd_of, judged
from bench.load.driver import now_ms
from bench.load.rehearsal import patience_ms
from bench.load.watching import LoadWatcher
from bench.result_files import result_path, write_aside
from failover.drills.checked import DrillError
from failover.drills.drill import Drill, Expect
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

    from bench.client.cluster_client import Address
    from failover.drills.drill import Workload
    from failover.drills.verdict import Verdict

OK, FAILURE, BAD_INPUT = 0, 1, 2
ENDS_S: Final = 60.0
"""How long the tasks may take to have their members' histories."""

MEMBERS_MAX: Final = 1_000_000
TASKS_MAX: Final = 1_000
SECONDS_MAX: Final = 86_400
DIGITS: Final = re.compile("[0-9]{1,9}")

UNHEARD_MS: Final = 5_000
"""A heartbeat may come so much later than its interval, in 99 of 100 members."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load; return the exit code: 1 if the verdict is not clean, 2 without one."""
    asked = _parser().parse_args(arguments)
    if asked.watched_by is None and (why := _unreachable(asked.bootstrap)):
        print(f"The load could not be completed: {why}", file=sys.stderr)
        return BAD_INPUT
    try:
        from py4j.protocol import Py4JError
        from pyspark import SparkContext
    except ModuleNotFoundError:
        print("The load needs PySpark: install rollcall[load].", file=sys.stderr)
        return BAD_INPUT
    try:
        with SparkContext(appName="rollcall load") as context:
            if asked.watched_by is not None:
                found = crowd_over_spark.run(context, _load(asked, asked.watched_by))
                asked.findings.write_text(json.dumps(asdict(found)))
                return OK
            began_ms = now_ms()
            steps: list[RunStep] = []
            verdict = _alone(asked, context, steps)
            print(verdict.text(), flush=True)
            if asked.json is not None:
                write_aside(asked.json, json.dumps(verdict.document(), indent=2) + "\n")
            trace_run(
                TracedRun(
                    kind="load",
                    name="spark",
                    started_ms=began_ms,
                    ended_ms=now_ms(),
                    is_clean=verdict.is_clean,
                    steps=steps,
                )
            )
    except (DrillError, KafkaError, OSError) as error:
        print(f"The load could not be completed: {error}", file=sys.stderr)
        return BAD_INPUT
    except Py4JError as error:
        said = str(getattr(error, "java_exception", error)).splitlines()
        print(f"The load could not be completed: Spark says {said[0]}", file=sys.stderr)
        return BAD_INPUT
    return OK if verdict.is_clean else FAILURE


def _unreachable(bootstrap: Sequence[Address]) -> str:
    """Return why no broker can be reached, before Spark starts; "" if one can be."""
    try:
        ClusterClient(bootstrap).ask(lambda _: None)
    except OSError as error:
        brokers = ",".join(f"{host}:{port}" for host, port in bootstrap)
        return f"{brokers} cannot be reached: {error.strerror or error}."
    return ""


def _alone(asked: argparse.Namespace, context: SparkContext, steps: list[RunStep]) -> Verdict:
    """Run the load without a drill: it ends some seconds after all groups are Stable.

    ``steps`` gets how long each part of it took.
    """
    began_ms = now_ms()
    workload = _crowd(asked)
    host = str(context.getConf().get("spark.driver.host"))
    with LoadWatcher(host, asked.tasks) as watcher, ThreadPoolExecutor(1) as background:
        load = _load(asked, watcher.address)
        cluster = ClusterClient(load.bootstrap)
        for group_id in workload.group_ids(load.prefix):
            cluster.create_topic(group_id, workload.partitions_each)
        running = background.submit(crowd_over_spark.run, context, load)
        try:
            wait_until_stable(watcher, workload, running.done)
            hosts = ", ".join(sorted({*watcher.hosts}))
            print(f"{asked.members} members on {hosts}: every group is Stable.", flush=True)
            since_ms = now_ms()
            steps.append(RunStep("join", began_ms, since_ms, f"{asked.members} members"))
            time.sleep(asked.seconds)
            ends_ms = now_ms()
            steps.append(RunStep("stay", since_ms, ends_ms, f"{asked.seconds} s"))
            watcher.end(since_ms, ENDS_S)
        except BaseException:
            context.cancelAllJobs()
            raise
        found = running.result()
    steps.append(RunStep("end", ends_ms, now_ms()))
    return judged(_without_a_fault(workload), found, replicated_ms=0)


def wait_until_stable(
    watcher: LoadWatcher, workload: Workload, has_ended: Callable[[], bool]
) -> None:
    """Wait until all groups of a watched load are Stable; raises DrillError."""

    def why_not() -> list[str]:
        if lost := watcher.lost():
            raise DrillError(" ".join(lost))
        if has_ended():
            raise DrillError("The load on Spark ended before every group was Stable.")
        return watcher.unstable_groups(workload.members, workload.partitions_each)

    within_ms = patience_ms(workload)
    if why := poll(why_not, within_ms / 1000, is_done=lambda found: not found):
        raise DrillError(f"Not every group was Stable within {within_ms / 1000:g} s. {why[0]}")


def _crowd(asked: argparse.Namespace) -> Workload:
    return crowd_of(asked.members, asked.consumer_share)


def _load(asked: argparse.Namespace, watcher: Address) -> SparkLoad:
    return SparkLoad(
        bootstrap=tuple(asked.bootstrap),
        workload=_crowd(asked),
        prefix=asked.prefix,
        tasks=asked.tasks,
        watcher=watcher,
    )


def _without_a_fault(workload: Workload) -> Drill:
    limit = workload.heartbeat_interval_ms + UNHEARD_MS
    return Drill(
        name="load",
        about="nothing happens to the cluster",
        workload=workload,
        steps=(),
        expect=Expect(unheard_p99_ms_max=limit),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-submit submit.py", description="Members of consumer groups, driven by Spark."
    )
    parser.add_argument(
        "--bootstrap", required=True, type=_addresses, metavar="HOST:PORT,...",
        help="where the cluster is",
    )  # fmt: skip
    parser.add_argument(
        "--members", type=_up_to(MEMBERS_MAX), default=1_000, metavar="N",
        help="the number of members (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--consumer-share", type=_share, default=0.0, metavar="SHARE",
        help="the share of the groups that are consumer groups, from 0 (the default) to 1",
    )  # fmt: skip
    parser.add_argument(
        "--tasks", type=_up_to(TASKS_MAX), default=2, metavar="N",
        help="the processes that drive them: as many as Spark has cores (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=_up_to(SECONDS_MAX), default=60, metavar="N",
        help="how long they go on once all groups are Stable (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the verdict to FILE"
    )
    parser.add_argument(
        "--prefix", default=f"load-{os.getpid()}-{now_ms() % 1_000_000}",
        help="how the names of groups and topics begin",
    )  # fmt: skip
    parser.add_argument("--watched-by", type=_address, help=argparse.SUPPRESS)
    parser.add_argument("--findings", type=Path, help=argparse.SUPPRESS)
    return parser


def _addresses(text: str) -> list[Address]:
    return addresses_in(text)


def _address(text: str) -> Address:
    (address,) = addresses_in(text)
    return address


def _share(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (share := float(text)) <= 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")


def _up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not DIGITS.fullmatch(text) or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
