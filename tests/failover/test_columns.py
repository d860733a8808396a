"""Cells in columns."""

from hypothesis import given
from hypothesis import strategies as st

from failover.columns import aligned

CELLS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=9)


def test_text_is_aligned_to_the_left_and_numbers_to_the_right() -> None:
    lines = [["case", "figure", "value"], ["a", "1e5", "007"], ["longer", "x", "12,345"]]
    assert aligned(lines, right={2}).splitlines() == [
        "case    figure   value",
        "a       1e5        007",
        "longer  x       12,345",
    ]
    assert aligned([["a", "b"], ["ccc", "d"]]) == "a    b\nccc  d"
    assert aligned([]) == ""


def test_a_wide_character_is_two_columns_wide() -> None:
    first, second = aligned([["日本", "x"], ["abcd", "x"]]).splitlines()
    assert first.index("x") == second.index("x") - 2


def test_what_a_name_has_is_not_taken_for_markup_or_a_number() -> None:
    names = ["[red]x[/]", "1_000", "0x10", "nan", "-", "a|b", "\\033"]
    assert aligned([[name, "."] for name in names]).split() == [
        word for name in names for word in (name, ".")
    ]


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n))))
def test_no_cell_is_lost_and_columns_begin_where_they_began(lines: list[list[str]]) -> None:
    text = aligned(lines)
    assert [line.split() for line in text.splitlines()] == lines
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    expected = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    assert text.splitlines() == expected
