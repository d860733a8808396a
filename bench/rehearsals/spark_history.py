"""The history of a run over Spark: the rows of lives are written where its tasks kept them.

Each process of Spark writes the rows of the tasks that it ran, as Parquet files; only the few rows
about the run as a whole come from here. The directory must be the same one for all hosts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from bench.histories.schema import SCHEMA
from bench.histories.store import HistoryError, RunWriter
from bench.rehearsals.spark_jobs import bounded
from bench.scenarios.history import facts_of, rows_of_run
from bench.servers.server import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Scenario


WRITES_S: Final = 900.0
"""How long Spark may take to write, or to count, the rows of a run."""


@dataclass(frozen=True, slots=True)
class WrittenHistory:
    """Where the history of a run is; None: it could not be written, and ``failure`` says why."""

    folder: Path | None
    failure: str = ""

    def found(self) -> Path:
        """Return its folder; raises StartError if there is none."""
        if self.folder is None:
            raise StartError(self.failure)
        return self.folder


class SparkHistory:
    """Writes the history of one run inside a ``with`` block; a failure does not end the run."""

    def __init__(self, session: SparkSession, run_id: str, directory: Path) -> None:
        self._session = session
        self._run_id = run_id
        try:
            self._writer = RunWriter(run_id, directory)
        except HistoryError as error:
            raise StartError(str(error)) from None
        self._failure = ""

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.__exit__(*error)

    def append(self, rows: DataFrame) -> None:
        """Let the tasks' processes write these rows."""
        try:
            with bounded(self._session.sparkContext, WRITES_S):
                self._writer.append(rows)
        except HistoryError as error:
            self._failure = self._failure or str(error)

    def finish(
        self, scenario: Scenario, plan: ScenarioPlan, record: ScenarioRecord
    ) -> WrittenHistory:
        """Add what is said of the run as a whole, and let the history appear."""
        about = list(rows_of_run(scenario, plan, record))
        self.append(self._session.createDataFrame(about, SCHEMA).coalesce(1))
        if not self._failure:
            try:
                facts = facts_of(self._run_id, scenario, record)
                with bounded(self._session.sparkContext, WRITES_S):
                    return WrittenHistory(self._writer.finish(facts))
            except HistoryError as error:
                self._failure = str(error)
        return WrittenHistory(None, self._failure)
