"""Groups that a drill only watched: pictures, rebalances and costs from what was described."""

import pytest

from actors.telemetry.run_traces import RunStep
from bench.load.observing import LOOK_EVERY_S
from bench.load.rehearsal import RehearsalLog
from bench.pages.drilled import drill_report
from bench.pages.markdown import markdown
from bench.pages.page import page
from failover.drills.drill import named
from failover.drills.observation import GroupSight, Observation, judge_observed

BEGAN, FAULT = 1_700_000_000_000, 1_000
TYPES = ("classic", "consumer", "share", "streams")
P0, P1 = ("t", 0), ("t", 1)
X, SPARE, BOTH = {"x": {P0}, "y": {P1}}, {"x": {P0, P1}, "y": set()}, {"x": {P0, P1}}


def sight(time_ms, held=None, epoch=3, state="Stable", *, group="g", kind="consumer"):
    """Return what was described then; ``held`` None: nobody answered."""
    if held is None:
        return GroupSight(group_id=group, time_ms=BEGAN + time_ms)
    return GroupSight(
        group_id=group, time_ms=BEGAN + time_ms, state=state, group_type=kind,
        epoch=None if kind == "classic" else epoch, is_exclusive=kind != "share",
        held={name: frozenset(each) for name, each in held.items()},
    )  # fmt: skip


def failed_over(kind="consumer", group="g"):
    """Return the sights of a group whose y is gone after a silence of the coordinator.

    Its partition has no owner at first, then x has it.
    """
    free = {"x": {P0}}
    given = {"kind": kind, "group": group}
    busy = "PreparingRebalance" if kind == "classic" else "Reconciling"
    return [
        sight(0, X, **given), sight(250, X, **given), sight(1_000, X, **given),
        sight(1_500), sight(2_000),
        sight(2_500, free, 4, busy, **given), sight(3_000, free, 4, busy, **given),
        sight(3_500, BOTH, 4, **given), sight(4_000, BOTH, 4, **given),
    ]  # fmt: skip


def watched(sights, told=(), steps=()):
    drill = named("kill-leader")
    seen = Observation(sights=sights, fault_ms=BEGAN + FAULT, replicated_ms=700)
    log = RehearsalLog(told=[(BEGAN + at, text) for at, text in told], steps=[*steps], seen=seen)
    verdict = judge_observed(drill, seen)
    return drill_report(drill, verdict, log), {row.name: row.value for row in verdict.rows}


def story_of(sights):
    made, _ = watched({"g": sights})
    (story,) = made.runs[0].stories
    return story


@pytest.mark.parametrize("kind", ["classic", "consumer", "streams"])
def test_ownership_is_drawn_from_what_was_described(kind):
    picture = story_of(failed_over(kind)).ownership
    assert (picture.form, picture.partitions) == ("owners", [("t", 0, 2)])
    x, y = (picture.owners.index(name) for name in "xy")
    assert picture.rows == [[0, 4_000, x], [0, 2_500, y, 1_000, 500, x]], "nobody has t-1 for 1 s"


def test_partitions_of_a_share_group_have_as_many_members_as_share_them():
    shared = {"x": {P0, P1}, "y": {P1}}
    picture = story_of(
        [sight(0, shared, kind="share"), sight(1_000, BOTH, 4, kind="share"), sight(2_000)]
    ).ownership
    assert picture.form == "counts"
    assert picture.rows == [[2_000, 1], [1_000, 2, 1_000, 1]]


@pytest.mark.parametrize(("kind", "number"), [("classic", 1), ("consumer", 4), ("streams", 4)])
def test_a_rebalance_is_drawn_from_the_last_answer_before_it_to_the_first_after_it(kind, number):
    (span,) = story_of(failed_over(kind)).rebalances
    assert (span.generation, span.began_ms, span.ended_ms) == (number, 1_000, 3_500)
    assert (span.moved, span.is_initial, span.cause) == (1, False, "y was gone")


def test_a_rebalance_of_a_share_group_is_over_when_its_members_have_their_partitions():
    sights = [
        sight(1_000, X, 3, kind="share"), sight(1_250, X, 4, kind="share"),
        sight(1_500, {"x": {P1}, "y": {P1}, "z": {P0}}, 4, kind="share"),
        sight(2_000, X, 6, kind="share"),
    ]  # fmt: skip
    first, second = story_of(sights).rebalances
    assert (first.generation, first.began_ms, first.ended_ms) == (4, 0, 500)
    assert (first.cause, first.moved) == ("z joined", 2)
    assert second.cause == "z was gone; epochs 5 to 6 came between two answers"


def test_an_assignment_that_changed_between_two_answers_is_a_rebalance_of_a_classic_group():
    sights = [sight(0, X, kind="classic"), sight(250, SPARE, kind="classic"),
              sight(1_250, SPARE, kind="classic"), sight(1_500, X, kind="classic")]  # fmt: skip
    spans = story_of(sights).rebalances
    assert [(each.generation, each.began_ms, each.is_initial) for each in spans] == [
        (1, 0, True), (2, 1_250, False),
    ]  # fmt: skip
    assert spans[1].cause.startswith("no member came or went")


def test_members_over_time_and_silence_are_charts():
    story = story_of(failed_over())
    trends = story.trends
    assert trends.step_ms == 100
    assert (trends.running[0], trends.running[30]) == (2, 1)
    assert trends.unowned[24:36] == [0, *[1] * 10, 0]
    assert sum(trends.errors["no answer to DESCRIBE"]) == 2


@pytest.mark.parametrize("kind", TYPES)
def test_the_costs_of_a_watched_group_agree_with_the_verdict(kind):
    made, rows = watched({"g": failed_over(kind)})
    (cost,) = made.runs[0].costs
    assert (cost.group, cost.kind) == ("g", f"1 member, {kind}")
    figures = {each.name: each.value for each in cost.figures}
    assert figures["rebalances"] == rows["rebalances"] == 1
    assert figures["longest without an answer s"] * 1000 == 1_500
    assert (
        figures["longest without an answer s"] * 1000 == rows["a group without an answer, max ms"]
    )
    assert figures["longest not Stable s"] * 1000 == rows["a group not Stable, max ms"]
    assert figures["longest unowned s"] == 1.0
    assert (figures["members gone"], figures["partitions moved"]) == (1, 1)


def test_a_fault_is_marked_where_it_began():
    kill = RunStep("kill", BEGAN + FAULT, BEGAN + 1_400, "kill leader (node 1)")
    told = [(-500, "watching g"), (1_400, "kill leader (node 1)"), (3_900, "wait until replicated")]
    made, _ = watched({"g": failed_over()}, told, [kill])
    marks = made.runs[0].marks
    assert [(each.at_ms, each.text) for each in marks] == [
        (1_000, "kill leader (node 1)"), (3_900, "wait until replicated"),
    ]  # fmt: skip
    assert made.runs[0].changed_ms == FAULT


def test_the_page_says_what_it_is_drawn_from_and_how_exact_that_is():
    made, _ = watched({"g": failed_over("classic")})
    first, second, third = made.runs[0].notes
    assert "answers to DESCRIBE, one of each group about every 500 ms, and at most 750 ms" in first
    assert second.startswith("2 of 9 times nobody described a group")
    assert third.startswith("Answers do not have the generation of a classic group")
    text = page(made)
    assert made.runs[0].how == "drill on a live cluster, groups described about every 500 ms"
    for words in ("drawn from answers to DESCRIBE", 'data-draws="ownership"', "y was gone",
                  'data-draws="members"', 'data-draws="errors"'):  # fmt: skip
        assert words in text, words
    assert 'data-draws="waits"' not in text, "nobody knows how long a member of others waited"
    assert 'data-draws="gaps"' not in text
    assert "y was gone" in markdown(made)


def test_a_drill_looks_often_enough_to_see_what_the_page_draws():
    assert LOOK_EVERY_S <= 0.25


def test_many_groups_are_bounded_and_the_page_says_so():
    sights = {f"g{number}": failed_over(group=f"g{number}") for number in range(30)}
    sights["quiet"] = [sight(0, X, group="quiet"), sight(4_000, X, group="quiet")]
    made, _ = watched(sights)
    (run,) = made.runs
    assert len(run.stories) == 12
    assert "quiet" not in {each.group for each in run.stories}
    assert len(run.costs) == 31
    assert any(note.startswith("12 of 31 groups are drawn") for note in run.notes)


def test_a_group_that_nobody_ever_described_has_no_picture():
    made, _ = watched({"g": failed_over(), "silent": [sight(0), sight(4_000)]})
    assert [each.group for each in made.runs[0].stories] == ["g"]
