"""The histories of a rehearsal's runs: each is written, and checked by Spark at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.histories.session import check_settings, opened
from bench.scenarios.history import facts_of, history_rows, run_id_of, write_history
from bench.scenarios.verdicts.verdict import HistoryResult
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.histories.verdict import CheckOutcome
    from bench.rehearsals.runs import Run


def with_histories(
    runs: Sequence[Run],
    directory: Path,
    say: Callable[[str], None],
) -> tuple[list[Run], StartError | None]:
    """Write the history of each run, and return the runs with what the checks found in it.

    A run's folder is named by the words that tell it apart. If one cannot be written or checked,
    it and the runs after it are returned as they were, with the error.
    """
    checked: list[Run] = []
    try:
        _check_each(runs, directory, say, checked)
    except StartError as error:
        return [*checked, *runs[len(checked) :]], error
    return checked, None


def _check_each(
    runs: Sequence[Run], directory: Path, say: Callable[[str], None], checked: list[Run]
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from bench.histories.store import HistoryError, first_line
    from bench.histories.verdict import found_in
    from bench.load.spark import local_session

    most = max(sum(len(life.timeline.events) for life in run.record.lives) for run in runs)
    session = local_session(check_settings(most))
    try:
        for run in runs:
            scenario, record = run.planned.scenario, run.record
            if run.history is not None:  # tasks of Spark have written it
                folder = run.history.found()
            else:
                facts = facts_of(run_id_of(scenario.name, run.words), scenario, record)
                rows = history_rows(scenario, run.planned.plan, record)
                folder = write_history(session, directory, facts, rows)
            say(f"the history is in {folder}")
            history = opened(session, folder)
            found = history_result(sum(history.facts.rows.values()), found_in(history))
            checked.append(replace(run, verdict=replace(run.verdict, history=found)))
    except HistoryError as error:
        raise StartError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise StartError(f"Spark cannot check the history: {first_line(error)}") from None
    finally:
        session.stop()


def history_result(rows: int, outcomes: Sequence[CheckOutcome]) -> HistoryResult:
    """Return what a rehearsal tells of what the checks of its history found."""
    from bench.histories.checks import CHECKS, Severity

    found: dict[Severity, dict[str, list[str]]] = {each: {} for each in Severity}
    for each in outcomes:
        if each.count:
            found[CHECKS[each.check].severity][each.check] = _sentences(each)
    return HistoryResult(
        rows=rows,
        counts={each.check: each.count for each in outcomes},
        broken=found[Severity.BROKEN],
        suspect=found[Severity.SUSPECT],
    )


def _sentences(outcome: CheckOutcome) -> list[str]:
    return [f"{each.group_id}: {each.text}" for each in outcome.examples]
