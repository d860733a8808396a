"""Check one run in a session of Spark: its settings, and the verdict on the run.

Commands import this module before it is known whether PySpark is there.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench.report.progress import note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.histories.prepared import PreparedHistory
    from bench.histories.verdict import CostLimit, HistoryVerdict

MEMORY: Final = "2g"

SHUFFLE_PARTITIONS_MAX: Final = 32
"""So many parts fit in little memory; Spark joins those that turn out to be small."""

PARTITION_ROWS: Final = 250_000
"""A history is split into a part for each so many rows: a task for fewer is not worth its start."""


SMALL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
    }
)
"""For a history in one part: of its checks' time, most is Spark's planning, which Java compiles.

The quick compiler, one thread that collects garbage, and plans that are made once take half of the
processor time that they take otherwise.
"""

INTERPRETED_ROWS: Final = 25_000
INTERPRETED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
)
"""For a history of few rows: to compile its plans takes longer than to interpret them."""


def check_settings(rows: int, memory: str = MEMORY) -> Mapping[str, str]:
    """Return the settings of a session that checks runs of at most so many rows."""
    partitions = min(SHUFFLE_PARTITIONS_MAX, 1 + rows // PARTITION_ROWS)
    return {
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        **(SMALL if partitions == 1 else {}),
        **(INTERPRETED if rows <= INTERPRETED_ROWS else {}),
    }


def check_run(session: SparkSession, run: Path, limits: Sequence[CostLimit] = ()) -> HistoryVerdict:
    """Run all checks over one run on disk, and compute its costs; raises HistoryError."""
    from bench.histories.verdict import judge_history

    return judge_history(opened(session, run), limits)


def opened(session: SparkSession, run: Path) -> PreparedHistory:
    """Return a run on disk, ready to be checked; raises HistoryError if it cannot be read."""
    from bench.histories.prepared import PreparedHistory
    from bench.histories.store import read_facts, read_run

    facts = read_facts(run)
    note(f"Checking {sum(facts.rows.values()):,} rows of {facts.run_id} ...")
    return PreparedHistory(read_run(session, run, facts), facts)
