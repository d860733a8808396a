"""Which of several runs cost least: clean ones first, then measure by measure, and why it won."""

from dataclasses import replace

import pytest

from bench.pages.runs import report
from bench.rehearsals.comparison import Comparison
from bench.scenarios.verdicts.cheapest import best_of_each_place, cheapest
from tests.bench.pages.histories import handed_over


def paid(unavailable_ms=0, rebalances=0, moved=0, *, broken=False, how="simulated", variant="base"):
    """Return a run, and its verdict: that its group paid this."""
    made = handed_over(name=variant)
    (judged,) = made.verdict.groups
    costs = replace(
        judged.costs, unavailable_member_ms=unavailable_ms, rebalances=rebalances, moved=moved
    )
    exceeded = ("too much",) if broken else ()
    groups = (replace(judged, costs=costs, exceeded=exceeded),)
    return replace(made, verdict=replace(made.verdict, groups=groups, how=how, variant=variant))


def said(**runs):
    return cheapest([(name, each.verdict) for name, each in runs.items()])


NOTHING = "0 unavailable member-seconds, 0 rebalances, 0 partitions moved"


def test_runs_that_cost_the_same_have_no_winner():
    assert said(base=paid(), b=paid()) == f"base and b cost the same: {NOTHING}."
    assert said(a=paid(), b=paid(), c=paid()) == f"a, b and c cost the same: {NOTHING}."


@pytest.mark.parametrize(
    ("best", "other", "told"),
    [
        (
            paid(2_000, 9, 9), paid(3_000),
            "b costs least, by unavailable member-seconds: 2 unavailable member-seconds, 9"
            " rebalances, 9 partitions moved. Then a: 3 unavailable member-seconds, 0 rebalances, 0"
            " partitions moved.",
        ),
        (
            paid(1_510, 0, 9), paid(1_490, 1),
            "b costs least, by rebalances: 1.5 unavailable member-seconds, 0 rebalances, 9"
            " partitions moved. Then a: 1.5 unavailable member-seconds, 1 rebalance, 0 partitions"
            " moved.",
        ),
        (
            paid(999, 1, 1), paid(0, 1, 2),
            "b costs least, by partitions moved: 1 unavailable member-second, 1 rebalance, 1"
            " partition moved. Then a: 0 unavailable member-seconds, 1 rebalance, 2 partitions"
            " moved.",
        ),
        (
            paid(5_000, 1, 1), paid(broken=True),
            "b costs least, as it is clean: 5 unavailable member-seconds, 1 rebalance, 1 partition"
            f" moved. Then a: not clean, {NOTHING}.",
        ),
    ],
)  # fmt: skip
def test_the_measure_that_decided_is_named(best, other, told):
    assert said(a=other, b=best) == told
    assert said(b=best, a=other) == told


def test_less_than_a_second_is_no_difference_wherever_it_is():
    for first_ms in (0, 490, 1_010, 1_490):
        told = said(a=paid(first_ms), b=paid(first_ms + 999))
        assert told.startswith("a and b cost the same: ")
        told = said(a=paid(first_ms), b=paid(first_ms + 1_000))
        assert told.startswith("a costs least, by unavailable member-seconds: ")


def test_large_figures_are_told_whole():
    told = said(a=paid(26_475_400, 1, 1_234_567), b=paid(26_475_400, 1, 1_234_567))
    assert "26,475.4 unavailable member-seconds, 1 rebalance, 1,234,567 partitions moved" in told


def test_runs_of_one_name_are_told_apart():
    told = cheapest([("run", paid(moved=moved).verdict) for moved in (0, 1)])
    assert told.startswith("run costs least, by partitions moved: ")


def test_several_may_cost_least_and_the_others_follow_in_order():
    told = said(d=paid(9_000), c=paid(5_200), a=paid(100), b=paid(900), e=paid(5_000))
    assert told == (
        "a and b cost least, by unavailable member-seconds: 0.1 to 0.9 unavailable member-seconds,"
        " 0 rebalances, 0 partitions moved. Then c and e: 5 to 5.2 unavailable member-seconds, 0"
        " rebalances, 0 partitions moved; d."
    )


def test_variants_are_compared_in_each_place():
    runs = [
        paid(variant=variant, how=how, moved=moved)
        for variant, moved in (("base", 1), ("b", 0))
        for how in ("real", "kafka")
    ]
    least = "b costs least, by partitions moved: "
    told = best_of_each_place([each.verdict for each in runs])
    assert [each.startswith(start) for each, start in zip(told, ("real", "kafka"), strict=True)]
    assert all(each.split(": ", 1)[1].startswith(least) for each in told)
    assert best_of_each_place([runs[0].verdict, runs[1].verdict]) == []


def test_the_terminal_and_the_page_say_the_same():
    runs = [paid(variant="base", moved=1), paid(variant="b")]
    told = cheapest([(each.name, each.verdict) for each in runs])
    assert report("s", "x", runs).verdict == told
    assert Comparison([each.verdict for each in runs]).best() == [f"simulated: {told}"]
    places = [
        replace(paid(variant=variant, how=how), name=f"{variant}, {how}")
        for how in ("real", "kafka")
        for variant in ("base", "b")
    ]
    best = Comparison([each.verdict for each in places]).best()
    assert report("s", "x", places).verdict == " ".join(best)
    assert len(best) == 2
    nowhere_else = [places[0], places[2]]
    assert report("s", "x", nowhere_else).verdict.startswith("base, real and base, kafka cost the")
