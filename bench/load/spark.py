"""The load, spread over Spark tasks: each drives its share of the members in its own process.

Every group has members in every task, so only the DataFrame has a group's whole history. Local
mode, one task per core, suits a laptop; only :func:`local_session` depends on it. Other places
where Spark runs are in :mod:`bench.rehearsals.masters`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.coordinator import gc_tuning
from bench.load.driver import LoadSpec, drive
from bench.load.history import SCHEMA
from bench.paths import TOP
from protocol.members.classic import MemberConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from bench.load.driver import HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The members: ``members`` in ``groups`` groups, every other one of a group static.

    Each group reads one topic, named like the group, with ``partitions`` partitions. A member sends
    a heartbeat and a commit every ``interval_ms``.
    """

    members: int = 1_000
    groups: int = 10
    partitions: int = 200
    interval_ms: int = 1_000
    session_timeout_ms: int = 30_000

    @classmethod
    def of(cls, members: int) -> Crowd:
        """Return a crowd for a laptop: the larger it is, the less often each member sends."""
        return cls(
            members=members,
            groups=max(10, members // 100),
            interval_ms=max(1_000, members // 2),
        )

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The group ids, which are also the topic names."""
        return tuple(f"crowd-{number}" for number in range(self.groups))

    def share(self, task: int, tasks: int) -> tuple[MemberConfig, ...]:
        """Return the members that ``task`` drives.

        Tasks take a dynamic and a static member of each group in turn, so that their shares are
        alike.
        """
        group_ids = self.group_ids
        placed = (divmod(number, self.groups) for number in range(self.members))
        return tuple(
            self._config(group_ids[group], number)
            for number, group in placed
            if number // 2 % tasks == task
        )

    def _config(self, group_id: str, number: int) -> MemberConfig:
        name = f"{group_id}-{number:04d}"
        return MemberConfig(
            group_id=group_id,
            topics=(group_id,),
            client_id=name,
            instance_id=name if number % 2 else None,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.interval_ms,
        )


ONE_MACHINE: Final[Mapping[str, str]] = MappingProxyType(
    {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
)
LOCAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        **ONE_MACHINE,
        "spark.master": "local[*]",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    }
)
"""Spark in this process, one task per core."""


def local_session(settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Start Spark in local mode, one task per core, on 127.0.0.1 and silent.

    ``settings`` are further ones of Spark, or others than these.
    """
    return start_session({**LOCAL, **settings})


def start_session(settings: Mapping[str, str]) -> SparkSession:
    """Start Spark with these settings, silent; what they do not say is as the user configured it.

    A program of ``spark-submit`` that says no master runs where it was submitted to.
    """
    from pyspark.sql import SparkSession

    logs = Path(__file__).with_name("spark-log4j2.properties")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(TOP), os.environ.get("PYTHONPATH")))
    )  # Spark's workers import our packages, installed or not
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (host := settings.get("spark.driver.host")) is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", host)
    builder = (
        SparkSession.builder.appName("rollcall load")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dlog4j2.configurationFile={logs.as_uri()}",
        )
    )
    handled = signal.getsignal(signal.SIGINT)
    session: SparkSession = builder.config(map=dict(settings)).getOrCreate()
    if handled is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handled)  # Spark has put a handler of its own in its place
    return session


def warm_up(session: SparkSession, module: str = drive.__module__) -> None:
    """Let Spark start its Python workers, and import a module: that takes seconds."""
    tasks = session.sparkContext.defaultParallelism
    session.sparkContext.parallelize(range(tasks), tasks).foreach(partial(_import, module))


def _import(module: str, _number: int) -> None:
    importlib.import_module(module)


def run_load(
    session: SparkSession, crowd: Crowd, bootstrap: tuple[tuple[str, int], ...], until_ms: int
) -> DataFrame:
    """Drive the crowd until ``until_ms`` (Unix time) and return the history of each member."""
    tasks = session.sparkContext.defaultParallelism
    numbers = session.sparkContext.parallelize(range(tasks), tasks)
    rows = numbers.mapPartitions(partial(_drive_shares, crowd, tasks, bootstrap, until_ms))
    history = session.createDataFrame(rows, SCHEMA).cache()
    history.count()  # the load runs now, and only once
    return history


def _drive_shares(
    crowd: Crowd,
    tasks: int,
    bootstrap: tuple[tuple[str, int], ...],
    until_ms: int,
    numbers: Iterable[int],
) -> Iterator[HistoryRow]:
    """Drive the members of the tasks in ``numbers``; runs in a Spark worker."""
    gc_tuning.freeze_heap()
    for number in numbers:
        load = LoadSpec(
            bootstrap=bootstrap,
            members=crowd.share(number, tasks),
            partitions_of=dict.fromkeys(crowd.group_ids, crowd.partitions),
            until_ms=until_ms,
            seed=number,
            commit_interval_ms=crowd.interval_ms,
        )
        yield from drive(load)
