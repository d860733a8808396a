"""Where Spark runs the tasks of a rehearsal: here, in processes of this machine, on a cluster.

A master is what ``--master`` of ``spark-submit`` is, in three of its forms.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from bench.load.spark import ONE_MACHINE, start_session, warm_up
from bench.paths import TOP
from bench.rehearsals.spark_jobs import bounded, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from bench.client.cluster_client import Address

IN_PROCESS: Final = re.compile(r"local\[(\*|[1-9]\d{0,3})\]")
ON_MACHINE: Final = re.compile(r"local-cluster\[([1-9]\d{0,2}),\s*([1-9]\d{0,2}),\s*(\d{3,6})\]")
STANDALONE: Final = re.compile(r"spark://([\w.-]+|\[[\da-fA-F:]+\]):(\d{1,5})")
FORMS: Final = "local[N], local-cluster[WORKERS,CORES,MEBIBYTES] or spark://HOST:PORT"

TRIES: Final = 2
"""Spark runs a lost task once more, which does nothing; otherwise it would end all of them."""
REACHED_S: Final = 10.0
MEMORY: Final = "2g"
"""Spark's heap in this process's JVM, where histories are checked, too."""
WARM_S: Final = 300.0
"""How long Spark may take to have processes that import our modules."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""``spark-submit`` gives a program this variable, and has a session's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMaster:
    """A master by its URL. ``cores`` are those of all workers, None: nobody here knows.

    ``settings`` are Spark's; ``address`` is where a standalone master listens.
    """

    url: str
    cores: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    address: Address | None = None

    @classmethod
    def parse(cls, text: str) -> SparkMaster:
        """Return the master of a text; raises ValueError with a sentence."""
        if found := IN_PROCESS.fullmatch(text):
            cores = (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
            return cls(url=f"local[{cores},{TRIES}]", cores=cores, settings=ONE_MACHINE)
        if found := ON_MACHINE.fullmatch(text):
            workers, each, memory = map(int, found.groups())
            own = {**ONE_MACHINE, "spark.executor.memory": f"{memory}m"}
            return cls(url=text, cores=workers * each, settings=own)
        if (found := STANDALONE.fullmatch(text)) and 0 < int(found[2]) <= 65_535:
            return cls(url=text, address=(found[1].strip("[]"), int(found[2])))
        raise ValueError(f"{text!r} is no master of Spark: use {FORMS}.")

    def check(self, tasks: int) -> None:
        """Raise BadInputError if it cannot run so many tasks at a time, or does not answer."""
        if self.cores is not None and self.cores < tasks:
            raise BadInputError(
                f"--spark {tasks} needs {tasks} cores, and --master has {self.cores}: all tasks"
                " run at the same time."
            )
        if self.address is not None:
            try:
                socket.create_connection(self.address, REACHED_S).close()
            except OSError as error:
                why = error.strerror or error
                raise BadInputError(f"{self.url} cannot be reached: {why}.") from None

    def session_settings(self) -> Mapping[str, str]:
        """Return the settings of a session that runs its tasks there."""
        ours = {
            "spark.master": self.url,
            "spark.executorEnv.PYTHONPATH": str(TOP),
            "spark.driver.memory": MEMORY,
        }
        if self.address is not None:
            ours["spark.driver.host"] = _our_address(self.address)
        return {**ours, **self.settings}


def master(text: str) -> SparkMaster:
    """Return the master of a command's argument; argparse tells what is none."""
    try:
        return SparkMaster.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def is_submitted() -> bool:
    """Whether ``spark-submit`` runs this program, and so says where its tasks run."""
    return SUBMITTED in os.environ


@contextmanager
def session_of(master: SparkMaster | None, tasks: int, module: str) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; without a master it is the one of ``spark-submit``.

    Its processes import a module. Raises StartError.
    """
    settings = {
        "spark.speculation": "false",  # a task is its members: there is no second one
        "spark.cores.max": str(tasks),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # tasks on all workers
        "spark.sql.shuffle.partitions": str(tasks),
    }
    with told("Spark cannot be started"):
        session = start_session({**settings, **(master.session_settings() if master else {})})
    work = Path(os.environ.get("SPARK_HOME") or _home()) / "work"
    application = str(session.sparkContext.applicationId)
    try:
        with (
            told(f"Spark runs no task within {WARM_S:g} s"),
            bounded(session.sparkContext, WARM_S),
        ):
            warm_up(session, module)
        yield session
    finally:
        session.stop()
        if master is not None and ON_MACHINE.fullmatch(master.url):
            _remove(work, application)


def _home() -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())


def _remove(work: Path, application: str) -> None:
    """Remove what the workers of a local cluster leave beside Spark's programs."""
    shutil.rmtree(work / application, ignore_errors=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


def _our_address(other: Address) -> str:
    """Return the address of this machine by which another one is reached; nothing is sent."""
    family = socket.getaddrinfo(*other, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(other)
        return str(probe.getsockname()[0])
