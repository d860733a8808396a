"""The document of a drill: its figures with their limits, its groups, and what was done to them."""

from bench.load.rehearsal import RehearsalLog
from bench.pages.document import ReportDocument
from bench.pages.drilled import as_scenario, drill_report
from bench.pages.page import page
from failover.drills.drill import Drill, Expect, Workload
from failover.drills.verdict import DrillRecord, MemberTimeline, judge
from tests.bench.pages.histories import A, H, J, R, event

BEGAN = 1_700_000_000_000


def timeline(name, *events, seen_ms):
    return MemberTimeline(
        group_id="g",
        name=name,
        is_static=False,
        events=events,
        seen_ms=None if seen_ms is None else BEGAN + seen_ms,
        holds=events[-1].partitions if seen_ms else (),
    )


def at(time_ms, *rest):
    return event(BEGAN + time_ms, *rest)


def drilled(rebalances_max=5, recorded=True) -> ReportDocument:
    """Return the report of a drill in which x is gone at 4 s, and y has its partition at 5 s."""
    drill = Drill(
        name="kill-leader", about="kill -9 of the leader", steps=(),
        workload=Workload(groups=1, members=1, session_timeout_ms=6_000),
        expect=Expect(rebalances_max=rebalances_max, silent_ms_max=60_000),
    )  # fmt: skip
    g0, g1 = ("g", 0), ("g", 1)
    record = DrillRecord(
        stories=(
            timeline("x", at(0, J), at(100, A, 1, g0), at(3_000, H, 1, g0), seen_ms=None),
            timeline(
                "y", at(0, J), at(100, A, 1, g1), at(4_000, R, 1), at(5_000, A, 2, g0, g1),
                seen_ms=8_000,
            ),
        ),
        committed={},
        fault_ms=BEGAN + 2_000,
        replicated_ms=700,
    )  # fmt: skip
    told = [(BEGAN - 900, "1 member, 1 group"), (BEGAN + 2_100, "kill leader (node 1)"),
            (BEGAN + 9_000, "the members leave")]  # fmt: skip
    log = RehearsalLog(told, {"g": "classic"}, record if recorded else None)
    return drill_report(drill, judge(drill, record), log)


def test_the_figures_are_the_rows_of_the_verdict():
    (run,) = drilled().runs
    figures = {each.name: (each.value, each.limit) for each in run.figures}
    assert figures["rebalances of one group"] == (1, 5)
    assert figures["to full replication, ms"][0] == 700
    assert run.is_clean
    assert run.verdict.startswith("Every limit was kept (")


def test_a_verdict_that_is_not_clean_names_each_limit():
    made = drilled(rebalances_max=0)
    assert not made.is_clean
    assert made.verdict == "rebalances of one group: 1, and at most 0 may be."


def test_a_group_of_a_drill_has_its_costs_and_its_story():
    (run,) = drilled().runs
    assert [(each.group, each.kind) for each in run.costs] == [("g", "1 member, classic")]
    (story,) = run.stories
    assert story.ownership.rows[0] == [100, 2_900, 0, 2_000, 3_000, 1]
    assert [each.began_ms for each in story.rebalances] == [0, 4_000]


def test_marks_are_what_was_done_from_the_first_fault_to_the_end():
    (run,) = drilled().runs
    assert [(each.at_ms, each.text, each.group) for each in run.marks] == [
        (2_100, "kill leader (node 1)", None)
    ]
    assert run.changed_ms == 2_000


def test_without_a_record_the_page_has_the_figures_and_says_why_it_has_no_pictures():
    made = drilled(recorded=False)
    text = page(made)
    assert "rebalances of one group" in text
    assert "<figure" not in text
    assert "The members ran elsewhere" in text


def test_the_sessions_of_a_drill_are_those_of_the_kind_of_its_group():
    log = RehearsalLog([], {"g": "classic", "h": "consumer"}, None)
    record = DrillRecord(stories=(), committed={}, fault_ms=0, replicated_ms=None)
    made = as_scenario(record, Workload(groups=2, members=2, session_timeout_ms=6_000), log)
    assert made.sessions == {("g", None): 6_000, ("h", None): 45_000}
