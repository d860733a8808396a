"""Pages of figures only: of checks of histories, and of benchmarks."""

from bench.histories.checks import CHECKS, Severity
from bench.histories.store import RunFacts
from bench.histories.verdict import (
    CauseTotal,
    CheckFinding,
    CheckOutcome,
    CostTotal,
    HistoryVerdict,
)
from bench.pages.checked import check_report
from bench.pages.measured import bench_report
from bench.pages.page import page
from bench.report.rounds import BenchRow

FACTS = RunFacts(
    run_id="r", what="something <b> happened", changed_ms=1_000, ended_ms=61_000, rows={"joined": 7}
)
RULE = next(name for name, check in CHECKS.items() if check.severity is Severity.BROKEN)
SUSPECT = next(name for name, check in CHECKS.items() if check.severity is Severity.SUSPECT)


def verdict(rule: int = 0, suspect: int = 0, exceeded: tuple[str, ...] = ()) -> HistoryVerdict:
    example = CheckFinding("g", "t-0", 1, "t-0 had <two> owners")
    return HistoryVerdict(
        facts=FACTS,
        outcomes=(
            CheckOutcome(check=RULE, count=rule, examples=(example,) if rule else ()),
            CheckOutcome(check=SUSPECT, count=suspect),
        ),
        costs=(CostTotal(cost="moved", value=3, worst=3, worst_group="g"),),
        causes=(CauseTotal("a member joined", 2, 10, 20),),
        exceeded=exceeded,
    )


def test_a_clean_check_has_its_figures_and_one_sentence() -> None:
    made = check_report([verdict(suspect=1)])
    assert made.is_clean
    assert made.verdict == f"No promise was broken (2 checks). Suspect is {SUSPECT}: 1."
    figures = {each.name: (each.value, each.limit) for each in made.runs[0].figures}
    assert figures["moved"] == (3, None)
    assert figures[RULE] == (0, 0)
    assert figures["rebalances: a member joined"] == (2, None)
    assert made.runs[0].duration_ms == 60_000


def test_broken_promises_are_on_the_page_with_examples_escaped() -> None:
    made = check_report([verdict(rule=2), verdict()])
    assert not made.is_clean
    assert made.verdict == "1 of 2 runs are clean."
    text = page(made)
    assert "g: t-0 had &lt;two&gt; owners" in text
    assert "happened <b>" not in text


def test_an_exceeded_limit_is_the_verdict() -> None:
    made = check_report([verdict(exceeded=("moved is 3, and at most 1 is allowed.",))])
    assert (made.is_clean, made.verdict) == (False, "moved is 3, and at most 1 is allowed.")


def test_a_benchmark_has_its_medians_with_the_servers_side_by_side() -> None:
    rows = [
        BenchRow(
            case="join",
            server=server,
            rounds=({"p99_ms": 1.0}, {"p99_ms": 3.0}, {"p99_ms": value}),
        )
        for server, value in (("rollcall", 2.0), ("kafka", 9.0))
    ]
    made = bench_report("joins", "how fast members join", rows, 5_000)
    assert [(run.name, run.figures[0].value) for run in made.runs] == [
        ("rollcall", 2.0), ("kafka", 3.0),
    ]  # fmt: skip
    assert "join: p99_ms" in page(made)
