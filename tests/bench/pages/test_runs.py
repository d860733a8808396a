"""The document of a report: what it says of runs whose histories are written by hand."""

import html
import json
from dataclasses import replace

from bench.pages import runs
from bench.pages.document import as_json
from bench.pages.groups import FIGURES
from bench.pages.markdown import NOTES_MAX, markdown
from bench.pages.page import page
from bench.pages.runs import report
from bench.scenarios.scenario import Group, GroupLimits
from bench.scenarios.verdicts.applications import GroupVerdict
from bench.scenarios.verdicts.verdict import COLUMNS, LIMITS
from tests.bench.pages.histories import T0, A, H, J, event, handed_over, life, run


def reported(*several):
    return report("s", "x", several)


def test_the_figures_are_those_of_the_verdict_with_their_limits():
    assert set(FIGURES) - {"members"} < set(COLUMNS)
    limited = {f"{row.measure}_{end}" for row in FIGURES.values() for end in ("min", "max")}
    assert limited == set(LIMITS)


def test_costs_stand_beside_their_limits():
    made = reported(handed_over(limits=GroupLimits(rebalances_max=0, unowned_seconds_max=9)))
    figures = {each.name: each for each in made.runs[0].costs[0].figures}
    assert (figures["rebalances"].value, figures["rebalances"].limit) == (1, 0)
    assert not figures["rebalances"].is_within
    assert (figures["longest unowned s"].value, figures["longest unowned s"].limit) == (1.5, 9)
    assert figures["longest unowned s"].is_within
    assert not made.is_clean
    assert made.verdict == ("a had 1 rebalance, and at most 0 were expected.")


def test_a_clean_verdict_says_what_was_judged_and_who_paid():
    made = reported(handed_over(limits=GroupLimits(rebalances_max=3)))
    assert made.is_clean
    assert made.verdict == (
        "No rule was broken, and every limit was kept (1). a paid most: 1 rebalance, and"
        " 0.5 member-seconds without an assignment."
    )


def test_what_a_rehearsal_shall_fail_on_makes_the_verdict_not_clean():
    sentences = ["a: 1 rebalance: fails on rebalances>0.", "a: 2 members in the end."]
    ran = replace(handed_over(), failures=sentences)
    for made in (report("s", "x", [ran]), report("s", "x", [handed_over()], sentences)):
        assert not made.is_clean
        assert made.verdict == ("a: 1 rebalance: fails on rebalances>0; a: 2 members in the end.")
        assert made.runs[0].verdict == made.verdict
        assert not made.runs[0].is_clean


def test_more_reasons_than_a_sentence_holds_are_counted_in_it():
    reasons = [f"{number} is wrong." for number in range(10)]
    made = report("s", "x", [handed_over()], reasons)
    told = "; ".join(reason.rstrip(".") for reason in reasons[:8])
    assert made.verdict == f"{told}; and 2 more."


def test_of_several_runs_each_says_what_it_fails_on_and_all_what_is_missing():
    ran = handed_over(name="x")
    wrong = replace(handed_over(name="y"), failures=["y, a: 1 rebalance: fails on rebalances>0."])
    made = report("s", "x", [ran, wrong], ["Not completed: Kafka could not be started."])
    assert not made.is_clean
    assert [run.is_clean for run in made.runs] == [True, False]
    assert made.runs[1].verdict == "y, a: 1 rebalance: fails on rebalances>0."
    assert made.verdict.startswith(
        "Not completed: Kafka could not be started; y, a: 1 rebalance: fails on rebalances>0."
        " x costs least, as it is clean: "
    )
    assert " Then y: not clean, 0.5 unavailable member-seconds, 1 rebalance, " in made.verdict


def test_ownership_is_run_lengths_of_each_partition():
    picture = reported(handed_over()).runs[0].stories[0].ownership
    assert (picture.form, picture.partitions) == ("owners", [("t", 0, 2)])
    x, y = (picture.owners.index(name) for name in "xy")
    assert picture.rows == [
        [100, 1_900, x, 1_500, 6_500, y],
        [100, 2_900, y, 500, 6_500, y],
    ]  # fmt: skip


def test_partitions_of_a_share_group_have_numbers_of_owners():
    shared = run(
        life("x", 1, event(100, A, 1, T0), exclusive=False),
        life("y", 2, event(300, A, 1, T0), exclusive=False, ended_ms=5_000),
        partitions=1,
    )
    picture = reported(shared).runs[0].stories[0].ownership
    assert picture.form == "counts"
    assert picture.rows == [[100, 0, 200, 1, 4_700, 2, 5_000, 1]]


def test_what_waits_sums_up_to_the_costs():
    trends = reported(handed_over()).runs[0].stories[0].trends
    a_second = 1000 // trends.step_ms
    assert sum(trends.unavailable[a_second:]) * trends.step_ms == 500
    assert sum(trends.unowned[a_second:]) * trends.step_ms == 1_500 + 500
    assert (trends.running[0], trends.running[-1]) == (2, 1)


def test_waits_last_until_an_assignment_and_count_when_they_end():
    trends = reported(handed_over()).runs[0].stories[0].trends
    waits = {
        name: {index * trends.step_ms: wait for index, wait in enumerate(each) if wait}
        for name, each in trends.durations_ms["waits"].items()
    }
    assert waits == {name: {100: 100, 3_500: 500} for name in ("p50", "p99", "max")}


def test_gaps_count_when_they_end():
    trends = reported(handed_over()).runs[0].stories[0].trends
    gaps = trends.durations_ms["gaps"]["max"]
    ends = {index * trends.step_ms: gap for index, gap in enumerate(gaps) if gap}
    assert ends == {2_100: 2_000, 3_500: 1_400}


def test_request_times_are_those_of_heartbeats_and_commits_that_were_answered():
    asked = replace(event(2_090, H, 1, ("t", 0)), asked_ms=2_050)
    waited = replace(event(100, J), asked_ms=0)
    told = run(life("x", 1, waited, event(100, A, 1, ("t", 0)), asked, event(4_000, H)))
    trends = reported(told).runs[0].stories[0].trends
    assert [each for each in trends.durations_ms["requests"]["max"] if each] == [40]


def test_marks_belong_to_their_group_or_to_the_cluster():
    marks = ((1_000, "a: rolling-deploy"), (2_000, "kill node 1"), (3_000, "ab: crash"))
    made = reported(handed_over(marks=marks)).runs[0].marks
    assert [(each.at_ms, each.text, each.group) for each in made] == [
        (1_000, "rolling-deploy", "a"), (2_000, "kill node 1", None), (3_000, "ab: crash", None),
    ]  # fmt: skip


def test_a_rule_that_was_broken_is_told():
    twice = run(
        life("x", 1, event(100, A, 1, T0)), life("y", 2, event(100, A, 1, T0)), partitions=1
    )
    made = reported(twice)
    assert made.verdict == "partitions with two owners: 1."
    assert list(made.runs[0].found) == ["partitions with two owners"]


def test_several_runs_stand_side_by_side():
    calm = run(life("x", 1, event(90, J), event(100, A, 1, T0)), partitions=1, name="calm")
    made = reported(calm, handed_over(name="busy", limits=GroupLimits(rebalances_max=0)))
    assert [(each.name, each.is_clean) for each in made.runs] == [("calm", True), ("busy", False)]
    assert not made.is_clean
    assert made.verdict == (
        "calm costs least, as it is clean: 0 unavailable member-seconds, 0 rebalances, 0 partitions"
        " moved. Then busy: not clean, 0.5 unavailable member-seconds, 1 rebalance, 1 partition"
        " moved."
    )


def crowded(*unavailable_ms, over=(), name="run"):
    """Return a run of groups g0, g1 and so on that paid this; those of ``over`` exceed a limit."""
    limits = GroupLimits(rebalances_max=0)
    one = handed_over(name=name)
    paid = one.verdict.groups[0].costs
    groups = tuple(
        GroupVerdict(
            group=Group(
                name=f"g{number}", topics=("t",), expect=limits if number in over else GroupLimits()
            ),
            costs=replace(paid, unavailable_member_ms=each, unowned_ms=each),
            exceeded=("1 rebalance, and at most 0 were expected.",) if number in over else (),
        )
        for number, each in enumerate(unavailable_ms)
    )
    partitions = {each.group.name: [T0] for each in groups}
    return replace(
        one,
        record=replace(one.record, lives=(), partitions=partitions),
        verdict=replace(one.verdict, groups=groups),
    )


def drawn(made):
    return [[each.group for each in run.stories] for run in made.runs]


def test_only_the_groups_that_exceed_a_limit_or_cost_most_are_drawn(monkeypatch):
    monkeypatch.setattr(runs, "STORIES_EACH_MAX", 2)
    made = reported(crowded(1, 7, 9, 8, over={1}))
    assert drawn(made) == [["g1", "g2"]]
    assert len(made.runs[0].costs) == 4
    assert made.runs[0].notes[0].startswith("2 of 4 groups are drawn")


def test_the_same_groups_are_drawn_side_by_side(monkeypatch):
    monkeypatch.setattr(runs, "STORIES_EACH_MAX", 2)
    made = reported(crowded(1, 2, 3, name="one"), crowded(9, 2, 3, name="two"))
    assert drawn(made) == [["g0", "g2"], ["g0", "g2"]]


def test_many_runs_have_fewer_pictures_each(monkeypatch):
    monkeypatch.setattr(runs, "STORIES_MAX", 4)
    made = reported(*(crowded(1, 2, 3, name=f"{each}") for each in range(3)))
    assert drawn(made) == [["g2"]] * 3


def test_a_table_of_very_many_groups_adds_the_cheap_ones_up(monkeypatch):
    monkeypatch.setattr(runs, "GROUPS_MAX", 2)
    *kept, rest = reported(crowded(4_000, 1_000, 3_000, 2_000)).runs[0].costs
    assert [each.group for each in kept] == ["g0", "g2"]
    assert rest.group == "2 other groups"
    figures = {each.name: each.value for each in rest.figures}
    assert (figures["unavailable member-s"], figures["longest unowned s"]) == (3, 2)
    assert figures["rebalances"] == 2


def test_a_verdict_has_a_few_reasons_and_counts_the_others():
    made = reported(crowded(*range(50), over=range(50)))
    assert made.verdict.count("were expected") == 8
    assert made.verdict.endswith("; and 42 more.")


def test_the_document_is_json():
    document = json.loads(as_json(reported(handed_over(marks=((1_000, "kill"),)))))
    assert document["form"] == 1
    assert document["runs"][0]["stories"][0]["group"] == "a"


STALLED = "The members' own process stood still for up to 0.6 s"


def test_what_a_terminal_remarks_is_in_each_report():
    made = reported(handed_over(stalled_ms=600))
    assert made.runs[0].notes[0].startswith(STALLED)
    assert json.loads(as_json(made))["runs"][0]["notes"][0].startswith(STALLED)
    for text in (markdown(made), html.unescape(page(made))):
        assert STALLED in text


def test_a_group_that_was_still_forming_is_told_in_the_verdict():
    late = run(life("x", 1, event(1_900, J), event(2_000, A, 1, T0)), partitions=1)
    told = "1 partition had no owner yet when the first change came, of a: the figures contain"
    made = reported(late)
    assert told in made.verdict
    assert not any(told in each for each in made.runs[0].notes)
    for text in (markdown(made), page(made).split("</header>")[0]):
        assert text.count(told) == 1
    several = reported(late, handed_over(name="other"))
    assert told in several.runs[0].verdict
    for text in (markdown(several), page(several).split("</header>")[0]):
        assert text.count(told) == 1


def test_a_long_verdict_is_whole_in_a_pull_request():
    made = reported(crowded(*range(20), over=range(20)))
    assert len(made.verdict) > 400
    assert made.verdict in markdown(made)


def test_the_notes_of_very_many_runs_are_counted_in_a_pull_request():
    note = "x" * 300
    runs = [handed_over(name=f"{each}") for each in range(60)]
    noted = [
        replace(
            each, verdict=replace(each.verdict, notes=[f"{each.name}-{n} {note}" for n in "abcde"])
        )
        for each in runs
    ]
    text = markdown(reported(*noted))
    assert text.count(f"- 3: 3-a {note}") == 1
    assert text.count(note) == NOTES_MAX
    assert f"And {300 - NOTES_MAX} more notes." in text
    one = markdown(reported(noted[0]))
    assert one.count(note) == 5
