"""Runs on disk: the history of a run as Parquet files, with what the checks need to know of it.

A run is a folder ``run_id=ID``, with a folder for each kind of row and the file ``_run.json``. It
is written aside, below a hidden name, and renamed when it is whole.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

import msgspec
from msgspec import DecodeError, ValidationError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bench.histories.schema import SCHEMA, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FACTS: Final = "_run.json"
"""Spark does not read files whose names begin with an underscore or a dot."""

PREFIX: Final = "run_id="
ASIDE: Final = ".partial-"
WHY_CHARACTERS_MAX: Final = 300
RUN_ID: Final = re.compile(r"[\w.-]{1,100}")


class HistoryError(Exception):
    """A history cannot be written or read; the message is one sentence that says why."""


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks need to know of a run, beside its rows.

    Costs count from ``changed_ms`` to ``ended_ms``. ``clock_error_ms``: how far the clocks of the
    members' drivers may differ; 0 if one machine ran them all. ``missing_members`` were lost with
    the process that drove them, and have no rows. ``rows`` counts the rows by kind.
    """

    run_id: str
    what: str
    changed_ms: int
    ended_ms: int
    clock_error_ms: int = 0
    missing_members: int = 0
    version: int = VERSION
    rows: dict[str, int] = {}


def write_run(history: DataFrame, facts: RunFacts, directory: Path) -> Path:
    """Write a run into ``directory`` and return its folder; other runs may be there already."""
    return write_parts([history], facts, directory)


def write_parts(parts: Iterable[DataFrame], facts: RunFacts, directory: Path) -> Path:
    """Do the same with one or more parts of a run: each is written before the next is made."""
    with RunWriter(facts.run_id, directory) as writer:
        for part in parts:
            writer.append(part)
        return writer.finish(facts)


class RunWriter:
    """Writes a run aside, part by part, inside a ``with`` block; only a finished one is kept.

    The processes of Spark's tasks write the files, so all of them, and this one, must see
    ``directory`` under the same path. A task's files are there when it has ended, or not at all.
    Raises HistoryError.
    """

    def __init__(self, run_id: str, directory: Path) -> None:
        if not RUN_ID.fullmatch(run_id):
            raise HistoryError(f"A run cannot be named {run_id!r}: use letters and digits.")
        self._final = directory / f"{PREFIX}{run_id}"
        self._aside = directory / f"{ASIDE}{run_id}"
        if self._final.exists():
            raise HistoryError(f"{self._final} exists: remove it, or give the run another name.")
        self._session: SparkSession | None = None

    def __enter__(self) -> Self:
        shutil.rmtree(self._aside, ignore_errors=True)
        return self

    def __exit__(self, *_error: object) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)

    def append(self, part: DataFrame) -> None:
        """Write some rows."""
        with self._sentence():
            part.write.mode("append").partitionBy("kind").parquet(str(self._aside))
        self._session = part.sparkSession

    def finish(self, facts: RunFacts) -> Path:
        """Let the run appear under its name, and return its folder."""
        assert self._session is not None
        with self._sentence():
            whole = msgspec.structs.replace(facts, rows=_counts(self._session, self._aside))
            (self._aside / FACTS).write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
            self._aside.rename(self._final)
        return self._final

    @contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except (OSError, PySparkException, Py4JError) as error:
            where = self._final.parent
            raise HistoryError(f"A run cannot be written to {where}: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """Return the first line of what an error says: Spark's are long."""
    return str(error).strip().splitlines()[0][:WHY_CHARACTERS_MAX]


def runs_in(directory: Path) -> list[Path]:
    """Return the runs of a directory, which may be the folder of a run; none is partial."""
    if (directory / FACTS).is_file():
        return [directory]
    found = sorted(path.parent for path in directory.glob(f"{PREFIX}*/{FACTS}"))
    if not found:
        raise HistoryError(f"There is no whole run in {directory}.{_partial(directory)}")
    return found


def read_facts(run: Path) -> RunFacts:
    """Return the facts of a run."""
    try:
        facts = msgspec.json.decode((run / FACTS).read_bytes(), type=RunFacts)
    except (OSError, DecodeError, ValidationError) as error:
        raise HistoryError(f"{run / FACTS} cannot be read: {error}.") from None
    if facts.version != VERSION:
        raise HistoryError(
            f"{run} has version {facts.version} of the schema, and this program reads {VERSION}."
        )
    return facts


def read_run(session: SparkSession, run: Path, facts: RunFacts) -> DataFrame:
    """Return the rows of a run; raises HistoryError if it does not have all of them."""
    counts = _counts(session, run)
    for kind in sorted({*counts, *facts.rows}):
        there, written = counts.get(kind, 0), facts.rows.get(kind, 0)
        if there != written:
            raise HistoryError(
                f"{run} has {there} rows of kind {kind}, and {written} were written."
            )
    return _open(session, run)


def _open(session: SparkSession, run: Path) -> DataFrame:
    return session.read.schema(SCHEMA).parquet(str(run))


def _counts(session: SparkSession, run: Path) -> Counter[str]:
    """Count the rows by kind; Spark reads the ends of the files for it."""
    rows = _open(session, run).groupBy("kind").count().collect()
    return Counter({row["kind"]: row["count"] for row in rows})


def _partial(directory: Path) -> str:
    if not directory.is_dir():
        return " It is not a directory."
    partial = sorted(directory.glob(f"{ASIDE}*"))
    return f" {partial[0].name} was not finished." if partial else ""
