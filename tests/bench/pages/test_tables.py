"""Figures and durations as people read them."""

import pytest

from bench.pages.tables import duration, number


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
