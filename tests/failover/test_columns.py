"""Cells in columns."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from wcwidth import wcswidth

from failover.columns import aligned, shortened

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


# --- in a terminal

MEMBERS = [
    ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "CONSUMER-ID", "REASON"],
    ["orders", "orders-of-the-day", "0", "123456789", "123456790",
     "consumer-orders-1-5b2f7c1e-8a55-4a55-9d5c-d1a3b7e1c3f0", "it was removed by an operator"],
    ["orders", "日本日本日本日本日本", "1", "7", "1234567890123", "-", "-"],
]  # fmt: skip
NUMBERS = ["123456789", "123456790", "7", "1234567890123"]


def widest(text: str) -> int:
    return max(wcswidth(line) for line in text.splitlines())


def test_a_table_that_fits_is_as_without_a_terminal() -> None:
    whole = aligned(MEMBERS)
    assert aligned(MEMBERS, width=widest(whole)) == whole
    assert aligned([], width=1) == ""
    assert aligned([["GROUP"]], width=1) == "GROUP"


@pytest.mark.parametrize("width", [78, 80, 100, 120, 140])
def test_a_table_is_fitted_into_a_terminal(width: int) -> None:
    text = aligned(MEMBERS, width=width)
    assert widest(text) <= width
    assert "..." in text
    assert all(number in text.split() for number in NUMBERS), "numbers are whole"


def test_first_the_words_of_a_header_are_put_below_each_other() -> None:
    lines = [["GROUP", "CURRENT-OFFSET", "COORDINATOR (ID)"], ["orders", "7", "a:1 (2)"]]
    assert aligned(lines, width=30).splitlines() == [
        "GROUP   CURRENT-  COORDINATOR",
        "        OFFSET    (ID)",
        "orders  7         a:1 (2)",
    ]


def test_no_column_becomes_so_narrow_that_it_says_nothing() -> None:
    text = aligned(MEMBERS, width=10)
    assert "co...f0" in text, "its begin and its end"
    assert "it w..." in text, "the first words"
    assert all(number in text.split() for number in NUMBERS)


def test_times_are_shown_in_full() -> None:
    time = "2026-11-24T09:20:58.123+00:00"
    lines = [["TIME", "REASON"], [time, "a reason that is long"], ["-", "-"]]
    assert time in aligned(lines, width=40)


@given(st.text(min_size=1, max_size=30), st.integers(3, 20))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    assume(text.isprintable())
    short = shortened(text, width)
    assert max(wcswidth(short), 0) <= width
    assert short == text or "..." in short
