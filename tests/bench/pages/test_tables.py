"""Figures and durations as people read them."""

import pytest

from bench.pages.groups import FIGURES
from bench.pages.runs import report
from bench.pages.tables import costs_table, duration, number
from tests.bench.pages.histories import T0, T1, A, R, event, handed_over, life, run


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.04, "0.04"), (0.2, "0.2"), (10.0, "10"), (2.94, "2.9"),
     (26_475.4, "26,475")],
)  # fmt: skip
def test_a_figure_is_as_exact_as_it_is_read(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("ms", "text"), [(999, "999 ms"), (1_500, "1.5 s"), (120_000, "2 min"), (150_000, "2 min 30 s")]
)
def test_a_duration_has_the_unit_that_people_use(ms, text):
    assert duration(ms) == text


def test_the_least_of_each_cost_is_marked_and_of_nothing_else():
    """Fewer members, or fewer partitions of one, are other groups, and no better ones."""
    moved = event(3_000, R, 1), event(5_000, A, 2, T0)
    few = run(
        life("x", 1, event(100, A, 1, T0), *moved),
        life("y", 2, event(100, A, 1, T1), event(5_000, A, 2, T1)),
        life("z", 3, event(3_500, A, 2), started_ms=3_000),
    )
    made = report("s", "x", [few, handed_over(name="other")])
    cells = [row.split("<td")[2:] for row in costs_table(made).split("<tr")[2:]]
    marked = {
        name: [">least<" in cell for cell in each]
        for name, each in zip(FIGURES, zip(*cells, strict=True), strict=True)
    }
    paid = [[each.value for each in one.costs[0].figures] for one in made.runs]
    values = dict(zip(FIGURES, zip(*paid, strict=True), strict=True))
    assert len(set(values["members"])) == len(set(values["most partitions"])) == 2
    assert not any(marked["members"] + marked["most partitions"])
    assert marked["unavailable member-s"] == [False, True]
    assert marked["partitions moved"] == [True, False]
