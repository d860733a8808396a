"""The table of runs in real and in virtual time: every scenario has its rows in the document."""

import re

from bench.rehearsals.both_times import BEGIN, END, HEAD, PAGE, rows_of, table, with_table
from bench.scenarios.files import names


def run(how: str, variant: str, rebalances: int, *, clean: bool = True) -> dict:
    paid = {"rebalances": rebalances, "unavailable_member_ms": 1_500}
    return {
        "run": how,
        "variant": variant,
        "clean": clean,
        "groups": {"a-0": paid, "a-1": paid, "v2": paid},
    }


def test_the_page_has_a_row_for_each_scenario() -> None:
    rows = PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0].strip().splitlines()
    assert rows[0] == f"| {' | '.join(HEAD)} |"
    assert {re.match(r"\| `([\w-]+)`", row)[1] for row in rows[2:]} == set(names())


def test_a_figure_is_there_once_where_real_and_simulated_run_agree() -> None:
    rows = table({"s": (run("real", "base", 3, clean=False), run("simulated", "base", 1))})
    assert rows.splitlines()[2:] == [
        "| `s` |  | a | 6 / 2 | 3.0 | no / yes |",
        "| `s` |  | v2 | 3 / 1 | 1.5 | no / yes |",
    ]


def test_each_variant_has_rows_and_what_did_not_run_a_dash() -> None:
    real = {"runs": [run("real", "base", 1), run("real", "more", 2), run("kafka", "base", 9)]}
    rows = table({"s": (real, run("simulated", "base", 1)), "t": (None, None)}).splitlines()[2:]
    assert rows[0] == "| `s` | base | a | 2 | 3.0 | yes |"
    assert rows[2] == "| `s` | more | a | 4 / - | 3.0 / - | yes / - |"
    assert rows[4] == "| `t` |  |  | not run |  |  |"


def test_a_scenario_without_a_verdict_keeps_its_rows() -> None:
    both = (run("real", "base", 3), run("simulated", "base", 1))
    page = with_table(f"{BEGIN}\nold\n{END}", table({"s": both, "t": both}))
    again = table({"s": (None, None), "t": both, "u": (None, None)}, rows_of(page)).splitlines()
    assert again[:-1] == page.splitlines()[1:-1]
    assert again[-1] == "| `u` |  |  | not run |  |  |"


def test_the_table_of_the_page_is_kept_as_it_is() -> None:
    page = PAGE.read_text("utf-8")
    nothing = dict.fromkeys(names(), (None, None))
    assert with_table(page, table(nothing, rows_of(page))) == page


def test_only_what_is_between_the_marks_changes() -> None:
    page = f"a\n{BEGIN}\nold\n{END}\nb"
    assert with_table(page, "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
