"""The table of runs in real and in virtual time: every scenario has its rows in the document."""

import json
import re
import subprocess
from pathlib import Path

from bench.rehearsals import both_times
from bench.rehearsals.both_times import (
    BEGIN,
    END,
    HEAD,
    MEASURED,
    PAGE,
    ages,
    differences,
    rows_of,
    table,
    with_table,
)
from bench.scenarios.files import names


def rows_on(page: str) -> list[str]:
    lines = page.split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()
    return [line for line in lines if line.startswith("|")]


def dated(document: dict, date: str, commit: str) -> dict:
    return {**document, MEASURED: {"date": date, "commit": commit}}


def run(how: str, variant: str, rebalances: int, *, clean: bool = True) -> dict:
    paid = {"rebalances": rebalances, "unavailable_member_ms": 1_500}
    return {
        "run": how,
        "variant": variant,
        "clean": clean,
        "groups": {"a-0": paid, "a-1": paid, "v2": paid},
    }


def test_the_page_has_a_row_for_each_scenario() -> None:
    rows = rows_on(PAGE.read_text("utf-8"))
    assert rows[0] == f"| {' | '.join(HEAD)} |"
    assert {re.match(r"\| `([\w-]+)`", row)[1] for row in rows[2:]} == set(names())


def test_a_figure_is_there_once_where_real_and_simulated_run_agree() -> None:
    rows = table({"s": (run("real", "base", 3, clean=False), run("simulated", "base", 1))})
    assert rows.splitlines()[2:] == [
        "| `s` |  | a | 6 / 2 | 3.0 | no / yes |  |",
        "| `s` |  | v2 | 3 / 1 | 1.5 | no / yes |  |",
    ]


def test_each_variant_has_rows_and_what_did_not_run_a_dash() -> None:
    real = {"runs": [run("real", "base", 1), run("real", "more", 2), run("kafka", "base", 9)]}
    rows = table({"s": (real, run("simulated", "base", 1)), "t": (None, None)}).splitlines()[2:]
    assert rows[0] == "| `s` | base | a | 2 | 3.0 | yes |  |"
    assert rows[2] == "| `s` | more | a | 4 / - | 3.0 / - | yes / - |  |"
    assert rows[4] == "| `t` |  |  | not run |  |  | - |"


def test_a_scenario_without_a_verdict_keeps_its_rows() -> None:
    both = (run("real", "base", 3), run("simulated", "base", 1))
    page = with_table(f"{BEGIN}\nold\n{END}", table({"s": both, "t": both}))
    again = table({"s": (None, None), "t": both, "u": (None, None)}, rows_of(page)).splitlines()
    assert again[:-1] == rows_on(page)
    assert again[-1] == "| `u` |  |  | not run |  |  | - |"


def test_the_table_of_the_page_is_kept_as_it_is() -> None:
    page = PAGE.read_text("utf-8")
    nothing = dict.fromkeys(names(), (None, None))
    assert with_table(page, table(nothing, rows_of(page))) == page


def test_each_row_has_the_date_and_the_commit_of_its_real_run() -> None:
    real = dated(run("real", "base", 1), "2026-11-28", "a1b2c3")
    rows = table({"s": (real, run("simulated", "base", 1)), "t": (None, run("simulated", "b", 1))})
    cells = [line.split(" | ")[-1] for line in rows.splitlines()]
    assert cells == ["real run |", "--- |", *["2026-11-28, a1b2c3 |"] * 2, *["- |"] * 2]


def test_above_the_table_is_how_old_its_real_runs_are() -> None:
    """Also of what was measured before there were dates, and of what was not measured."""
    older, newer = (
        dated(run("real", "base", 1), date, commit)
        for date, commit in (("2026-11-28", "a1b2c3"), ("2026-12-01", "d4e5f6-dirty"))
    )
    simulated = run("simulated", "base", 1)
    rows = table(
        {
            "s": (newer, simulated),
            "t": (older, simulated),
            "u": (run("real", "base", 1), simulated),
            "v": (None, simulated),
        }
    )
    said = (
        "The oldest real run with a date is of 2026-11-28, the newest of 2026-12-01."
        " 2 rows without a date were measured before dates were kept."
        " 2 rows (-) are of virtual time only."
    )
    assert ages(rows) == said
    assert with_table(f"{BEGIN}\nold\n{END}", rows).splitlines()[1:4] == [
        said, "", rows.splitlines()[0],
    ]  # fmt: skip
    of_one_day = table({"s": (newer, simulated), "t": (newer, simulated)})
    assert ages(of_one_day) == "All real runs with a date are of 2026-12-01."


def test_what_was_run_in_virtual_time_only_keeps_what_its_real_run_cost() -> None:
    real = dated({"runs": [run("real", "base", 2), run("real", "gone", 2)]}, "2026-11-28", "a1b2c3")
    page = with_table(f"{BEGIN}\nold\n{END}", table({"s": (real, None)}))
    simulated = {"runs": [run("simulated", "base", 1), run("simulated", "new", 5)]}
    rows = table({"s": (None, simulated)}, rows_of(page)).splitlines()[2:]
    assert rows[0] == "| `s` | base | a | 4 / 2 | 3.0 | yes | 2026-11-28, a1b2c3 |"
    assert rows[2] == "| `s` | new | a | - / 10 | - / 3.0 | - / yes | - |"
    assert len(rows) == 4, "a variant that there is no more has no rows"


def test_the_date_and_the_commit_are_kept_with_the_result(tmp_path, monkeypatch) -> None:
    def rehearse(words, **_options):
        Path(words[-1]).write_text('{"run": "real"}')

    monkeypatch.setattr(both_times, "_commit", lambda: "a1b2c3")
    monkeypatch.setattr(both_times.subprocess, "run", rehearse)
    both_times._run("steady", tmp_path / "steady.json", [])
    document = json.loads((tmp_path / "steady.json").read_text())
    assert document["run"] == "real"
    assert document[MEASURED]["commit"] == "a1b2c3"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", document[MEASURED]["date"])


def test_it_is_told_where_real_and_simulated_run_disagree() -> None:
    def of(how: str, rebalances: int) -> dict:
        paid = {"members": 3, "failed": 0, "causes": {"joined": rebalances}, "exceeded": []}
        groups = {"dynamic": {**paid, "rebalances": rebalances}}
        return {"runs": [{"run": how, "variant": "base", "clean": True, "groups": groups}]}

    found = {
        "zombie": (None, of("simulated", 2)),
        "rolling-deploy": (of("real", 3), of("simulated", 4)),
    }
    assert [*differences(found)] == [
        "rolling-deploy, base: rebalances of dynamic: real 3, simulated 4",
        "rolling-deploy, base: causes of dynamic: real {'joined': 3}, simulated {'joined': 4}",
    ]


def test_only_what_is_between_the_marks_changes() -> None:
    page = f"a\n{BEGIN}\nold\n{END}\nb"
    assert with_table(page, "new") == f"a\n{BEGIN}\nnew\n{END}\nb"


def test_only_changed_code_makes_a_commit_dirty(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(both_times, "TOP", tmp_path)
    monkeypatch.setattr(both_times, "PAGE", tmp_path / "docs" / "scenarios.md")
    assert both_times._commit() == "unknown"
    both_times.PAGE.parent.mkdir()
    code = tmp_path / "code.py"
    for file in (both_times.PAGE, code):
        file.write_text("before")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=one")):
        subprocess.run([*git, *words], check=True)
    commit = both_times._commit()
    assert re.fullmatch("[0-9a-f]{10}", commit)
    both_times.PAGE.write_text("after")
    assert both_times._commit() == commit
    code.write_text("after")
    assert both_times._commit() == f"{commit}-dirty"
