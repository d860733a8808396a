"""Runs on disk: the history of a run as Parquet files, with what the checks need to know of it.

A run is a folder ``run_id=ID``, with a folder for each kind of row and the file ``_run.json``. It
is written aside, below a hidden name, and renamed when it is whole.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import DecodeError, ValidationError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bench.histories.schema import SCHEMA, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable
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
    members' drivers may differ; 0 if one machine ran them all. ``rows`` counts the rows by kind.
    """

    run_id: str
    what: str
    changed_ms: int
    ended_ms: int
    clock_error_ms: int = 0
    version: int = VERSION
    rows: dict[str, int] = {}


def write_run(history: DataFrame, facts: RunFacts, directory: Path) -> Path:
    """Write a run into ``directory`` and return its folder; other runs may be there already."""
    return write_parts([history], facts, directory)


def write_parts(parts: Iterable[DataFrame], facts: RunFacts, directory: Path) -> Path:
    """Do the same with one or more parts of a run: each is written before the next is made."""
    if not RUN_ID.fullmatch(facts.run_id):
        raise HistoryError(f"A run cannot be named {facts.run_id!r}: use letters and digits.")
    final, aside = directory / f"{PREFIX}{facts.run_id}", directory / f"{ASIDE}{facts.run_id}"
    if final.exists():
        raise HistoryError(f"{final} exists: remove it, or give the run another name.")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        for part in parts:
            part.write.mode("append").partitionBy("kind").parquet(str(aside))
            session = part.sparkSession
        whole = msgspec.structs.replace(facts, rows=_counts(session, aside))
        (aside / FACTS).write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
        aside.rename(final)
    except (OSError, PySparkException, Py4JError) as error:
        why = str(error).strip().splitlines()[0][:WHY_CHARACTERS_MAX]
        raise HistoryError(f"A run cannot be written to {directory}: {why}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return final


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
