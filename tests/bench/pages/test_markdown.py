"""A report for a pull request: verdict, costs, and rebalances with cause and duration."""

from dataclasses import replace

from bench.pages.markdown import NOTES_MAX, markdown
from bench.pages.runs import report
from bench.report.sentences import FAULTS_MAX
from tests.bench.pages.histories import T0, T1, A, H, J, R, event, handed_over, life, run

HEAD = "| generation | began | took | partitions moved | cause |"


def flapping(times, group="a", name="run"):
    """Return a run in which a group rebalances so often, a fifth of a second each time."""
    events = [event(90, J), event(100, A, 1, T0, T1)]
    for number in range(times):
        at = 1_500 + 300 * number
        events += [event(at, R, number + 1), event(at + 200, A, number + 2, T0, T1)]
    ended_ms = 3_000 + 300 * times
    return run(
        life("x", 1, *events, event(ended_ms - 100, H, times + 1, T0, T1), group=group,
             seen_ms=ended_ms),
        group=group, ended_ms=ended_ms, name=name,
    )  # fmt: skip


def lines_of(*runs):
    return markdown(report("s", "x", [*runs])).splitlines()


def test_rebalances_are_listed_with_cause_and_duration():
    lines = lines_of(handed_over())
    at = lines.index("Rebalances of a")
    assert lines[at + 1 : at + 5] == [
        "", HEAD, "| --- | --- | --- | --- | --- |", "| 2 | 2.0 s | 1.5 s | 1 | x left |",
    ]  # fmt: skip
    assert lines[at + 5] == "", "the initial one is not listed"


def test_a_group_that_did_not_rebalance_has_no_table():
    assert not [line for line in lines_of(flapping(0)) if line.startswith("Rebalances of")]


def test_many_rebalances_are_counted():
    lines = lines_of(flapping(45))
    at = lines.index(HEAD)
    rows = [line for line in lines[at + 2 :] if line.startswith("| ")]
    assert len(rows) == 20
    assert "25 more are not listed." in lines


def test_a_comment_of_a_pull_request_has_room_for_many_groups():
    runs = [flapping(60, name=f"variant {number}") for number in range(24)]
    text = markdown(report("s", "x", runs))
    assert text.count("Rebalances of a, variant ") == 24
    assert text.count("50 more are not listed.") == 24
    assert len(text) < 65_536


def test_no_two_columns_have_the_same_head():
    (head,) = [line for line in lines_of(handed_over()) if line.startswith("| group |")]
    cells = head.strip("| ").split(" | ")
    assert len(set(cells)) == len(cells)
    assert cells[:3] == ["group", "kind", "members"]


def test_a_cause_cannot_end_its_cell():
    named = run(
        life("x|y", 1, event(90, J), event(100, A, 1, T0, T1)),
        life("z", 2, event(3_000, J, 2), event(3_500, A, 2, T0), started_ms=2_900),
    )
    assert "| z joined |" in "\n".join(lines_of(named))
    other = run(
        life("x", 1, event(90, J), event(100, A, 1, T0, T1)),
        life("a|b", 2, event(3_000, J, 2), event(3_500, A, 2, T0), started_ms=2_900),
    )
    assert "| a\\|b joined |" in "\n".join(lines_of(other))


LEFT_OUT = "kill is left out: nothing is killed in a cluster that ran before."


def noted(told, *notes):
    """Return a run whose verdict has these notes."""
    return replace(told, verdict=replace(told.verdict, notes=notes))


def test_what_was_left_out_of_a_clean_run_is_told():
    lines = lines_of(noted(handed_over(), LEFT_OUT))
    assert lines[0].endswith(": clean")
    assert f"- {LEFT_OUT}" in lines


def test_lateness_and_groups_that_were_still_forming_are_told():
    late = handed_over(changed_ms=95)
    text = markdown(
        report("s", "x", [replace(late, verdict=replace(late.verdict, late=2, requests=9))])
    )
    assert " 2 partitions had no owner yet when the first change came, of a: " in text
    assert "- 2 steps of the plan and 0 of 9 requests (0.00%) were late: " in text


def test_a_note_of_every_run_is_told_once_and_others_with_the_names_of_their_runs():
    several = [noted(handed_over(name=name), LEFT_OUT, *more) for name, more in (
        ("x", ()), ("y", ("It rained.",)), ("z", ("It rained.",)),
    )]  # fmt: skip
    lines = lines_of(*several)
    assert lines.count(f"- {LEFT_OUT}") == 1
    assert "- y, z: It rained." in lines


def test_faults_are_told_with_their_times_and_behaviours_are_not():
    marks = ((2_000, "a: scale"), (2_500, "kill node 1"), (4_000, "restart node 0"))
    lines = lines_of(handed_over(marks=marks))
    assert "- Faults: kill node 1 at 2.5 s; restart node 0 at 4 s." in lines
    assert not [line for line in lines if "scale" in line]


def test_many_notes_and_faults_are_counted():
    marks = [(100 * number, f"kill node {number}") for number in range(FAULTS_MAX + 3)]
    notes = [f"Group {number} was late." for number in range(NOTES_MAX + 40)]
    text = markdown(report("s", "x", [noted(handed_over(marks=marks), *notes)]))
    assert f"kill node {FAULTS_MAX - 1} at 0.9 s; and 3 more." in text
    assert "more notes" in text
    assert len([line for line in text.splitlines() if line.startswith("- ")]) <= NOTES_MAX + 1


def test_faults_after_very_many_behaviours_are_not_dropped():
    marks = [(number, "a: restart") for number in range(500)] + [(2_500, "kill node 1")]
    assert "- Faults: kill node 1 at 2.5 s." in lines_of(handed_over(marks=marks))
