"""``make demo MEMBERS=N``: a cluster, its members, ``kill -9`` of a coordinator, and the effect.

Three coordinators come up, each partition with a leader and two hot standbys. Spark drives the
members (half of them static), the coordinator of some of their groups is killed in the middle, and
a report shows what each member kept. The exit code is 0 only if no group rebalanced, no member lost
its id, generation or partitions, and no acknowledged commit was lost.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.load.driver import now_ms
from bench.pages.document import Figure, Mark, ReportDocument, RunReport
from bench.pages.files import write_reports
from bench.rehearsals.spark_jobs import told
from bench.servers.processes import listener
from bench.servers.rollcall import call, parse_ready
from bench.servers.server import StartError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from pyspark.sql import DataFrame, SparkSession

    from bench.load.spark import Crowd
    from bench.report.summary import Summary

LOAD_SECONDS: Final = 45
JOINS_PER_SECOND: Final = 200
"""The load of a large crowd lasts longer by this: at least this many join in a second."""
MEMBERS_MIN: Final = 20
TOLD_EVERY_S: Final = 10
SETTLE_SECONDS: Final = 3
"""The time between all groups being Stable and the kill."""
AFTERMATH_SECONDS_MIN: Final = 20
"""The load must continue at least this long after the kill, for a meaningful report."""
COME_BACK_SECONDS_MAX: Final = 30
"""How long after the load a coordinator may still be unavailable."""
OK, LOST = 0, 1
TITLE: Final = "the short demo"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The kill in the middle: its time, the node, and the groups that it coordinated."""

    time_ms: int
    pid: int
    address: Address
    group_ids: tuple[str, ...]


def run(members: int, report: Path) -> int:
    """Run the demo with so many members, and write its page; return the exit code.

    Raises StartError and OSError.
    """
    if members < MEMBERS_MIN:
        raise StartError(f"--members must be at least {MEMBERS_MIN}: there are ten groups.")
    with ExitStack() as cleanup:
        return _demo(members, report, cleanup)


def _demo(members: int, report: Path, cleanup: ExitStack) -> int:
    from bench.load.spark import Crowd, local_session, run_load, warm_up

    crowd = Crowd.of(members)
    directory = Path(tempfile.mkdtemp(prefix="rollcall-demo-"))
    cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
    print("Starting three coordinators ...", flush=True)
    bootstrap = _up(directory, cleanup)
    with BlockingClient(bootstrap[0]) as connection:
        for group_id in crowd.group_ids:
            connection.create_topic(group_id, crowd.partitions)
    print("Starting Spark ...", flush=True)
    session = local_session()
    cleanup.callback(session.stop)
    warm_up(session)
    began_ms = now_ms()
    until_ms = began_ms + (LOAD_SECONDS + crowd.members // JOINS_PER_SECOND) * 1000
    print(f"{crowd.members} members join {crowd.groups} groups ...", flush=True)
    with ThreadPoolExecutor(1) as background:
        loading = background.submit(run_load, session, crowd, bootstrap, until_ms)
        kill = _kill_one(bootstrap, crowd, until_ms, loading)
        print(f"kill -9 {kill.pid} ({':'.join(map(str, kill.address))})", flush=True)
        with told("The load on Spark failed"):
            history = _ended(loading, bootstrap, crowd, until_ms)
    with told("Spark cannot judge the histories"):
        summary = _summary(session, history, kill, _committed(bootstrap, crowd.group_ids))
    print(f"\n{summary.text()}")
    if not summary.is_flawless:
        print("The kill had an effect: see the report above.", file=sys.stderr)
    ran_ms = now_ms() - began_ms
    write_reports(
        [report], lambda: killed_report(members, summary, ran_ms, kill.time_ms - began_ms)
    )
    return OK if summary.is_flawless else LOST


def _up(directory: Path, cleanup: ExitStack) -> tuple[Address, ...]:
    data_dir = str(directory / "data")
    cleanup.callback(_down, data_dir)
    return parse_ready(call(["up", "--port", "0", "--data-dir", data_dir, "--detach"]))


def _down(data_dir: str) -> None:
    try:
        call(["down", "--data-dir", data_dir])
    except StartError as error:
        print(error, file=sys.stderr)


def _kill_one(
    bootstrap: Sequence[Address], crowd: Crowd, until_ms: int, loading: Future[DataFrame]
) -> Kill:
    """Wait until every group is Stable, then kill the coordinator of the first one."""
    told_ms = now_ms()
    while (stable := _stable_members(bootstrap[0], crowd)) < crowd.members:
        if loading.done():
            with told("The load on Spark failed"):
                loading.result()
        if now_ms() > told_ms + TOLD_EVERY_S * 1000:
            told_ms = now_ms()
            print(_progress(stable, crowd, until_ms), flush=True)
        if now_ms() > until_ms - (SETTLE_SECONDS + AFTERMATH_SECONDS_MIN) * 1000:
            raise StartError("Not every group was Stable in time.")
        time.sleep(0.5)
    time.sleep(SETTLE_SECONDS)
    coordinators = _coordinators(bootstrap[0], crowd.group_ids)  # leadership may have moved
    address = coordinators[crowd.group_ids[0]]
    pid = listener(address[1])
    if pid is None:
        raise StartError(f"No process listens on port {address[1]}.")
    time_ms = now_ms()
    os.kill(pid, signal.SIGKILL)
    group_ids = tuple(group for group, at in coordinators.items() if at == address)
    return Kill(time_ms=time_ms, pid=pid, address=address, group_ids=group_ids)


def _coordinators(address: Address, group_ids: Sequence[str]) -> dict[str, Address]:
    with BlockingClient(address) as connection:
        return {group_id: connection.coordinator(group_id) for group_id in group_ids}


def _stable_members(bootstrap: Address, crowd: Crowd) -> int:
    """Return how many members are in groups that are Stable."""
    members = 0
    coordinators = _coordinators(bootstrap, crowd.group_ids)
    for address in set(coordinators.values()):
        group_ids = tuple(group for group, at in coordinators.items() if at == address)
        with BlockingClient(address) as connection:
            groups = connection.describe(group_ids)
        members += sum(len(group.members) for group in groups if group.group_state == "Stable")
    return members


def _ended(
    loading: Future[DataFrame], bootstrap: Sequence[Address], crowd: Crowd, until_ms: int
) -> DataFrame:
    """Wait until the load is over, and tell now and then how it is going; return its history."""
    addresses = itertools.cycle(bootstrap)  # one of them was killed
    while True:
        try:
            return loading.result(TOLD_EVERY_S)
        except TimeoutError:
            if loading.done():
                raise
            if now_ms() > until_ms:
                print("  The members have left; Spark gathers their histories", flush=True)
                continue
            with suppress(OSError, KafkaError):
                stable = _stable_members(next(addresses), crowd)
                print(_progress(stable, crowd, until_ms), flush=True)


def _progress(stable: int, crowd: Crowd, until_ms: int) -> str:
    left_s = max(0, until_ms - now_ms()) // 1000
    return f"  {stable} of {crowd.members} members are in Stable groups; {left_s} s are left"


def _committed(
    bootstrap: Sequence[Address], group_ids: Sequence[str]
) -> list[tuple[str, str, int]]:
    """Return every group's committed offsets, once its coordinator can return them."""
    addresses = itertools.cycle(bootstrap)
    return poll(
        lambda: _committed_now(next(addresses), group_ids),
        COME_BACK_SECONDS_MAX,
        is_done=is_answered,
        every_s=0.5,
        retry=(ConnectionError, KafkaError),
    )


def _committed_now(bootstrap: Address, group_ids: Sequence[str]) -> list[tuple[str, str, int]]:
    rows = []
    for group_id, address in _coordinators(bootstrap, group_ids).items():
        with BlockingClient(address) as connection:
            for (topic, index), offset in connection.committed_offsets(group_id).items():
                rows.append((group_id, f"{topic}-{index}", offset))
    return rows


def _summary(
    session: SparkSession,
    history: DataFrame,
    kill: Kill,
    committed: list[tuple[str, str, int]],
) -> Summary:
    from bench.load.history import COMMITTED_SCHEMA
    from bench.report.summary import summarize

    offsets = session.createDataFrame(committed, COMMITTED_SCHEMA)
    return summarize(history, offsets, kill.time_ms, kill.group_ids)


def killed_report(
    members: int, summary: Summary, duration_ms: int, killed_ms: int
) -> ReportDocument:
    """Return the document of the demo's page: figures only, as Spark keeps the histories."""
    return ReportDocument(
        title=TITLE,
        about=f"kill -9 of the coordinator of some of {members} members",
        is_clean=summary.is_flawless,
        verdict=summary.verdict(),
        program="Rollcall",
        made="",
        runs=[
            RunReport(
                name=TITLE,
                how="demo on a live cluster",
                is_clean=summary.is_flawless,
                verdict=summary.verdict(),
                duration_ms=duration_ms,
                changed_ms=killed_ms,
                figures=[
                    Figure(name=name, value=value, limit=most, least=least)
                    for name, value, least, most in summary.figures()
                ],
                marks=[Mark(at_ms=killed_ms, text="kill node", group=None)],
            )
        ],
    )
