"""The pictures of the documents: each is shown, and small enough for a repository."""

import json
import re

import pytest

from bench.rehearsals.both_times import BEGIN, END
from bench.scenarios.files import names
from tests.bench.pages.pictures import FIGURES, PICTURES, SIZE_BYTES_MAX, TAKEN, figures

SHOWN = (PICTURES.parent / "reports.md").read_text()
SCENARIOS = (PICTURES.parent / "scenarios.md").read_text()


def test_each_picture_is_there_and_shown_and_small():
    taken = {path.stem: path for path in PICTURES.glob("report-*.png")}
    assert set(taken) == set(TAKEN)
    for name, path in taken.items():
        assert f"](pictures/{name}.png)" in SHOWN
        assert path.stat().st_size < SIZE_BYTES_MAX


def test_each_picture_is_of_a_scenario_that_comes_with_the_program():
    assert {each.scenario for each in TAKEN.values()} <= set(names())
    assert {each.scheme for each in TAKEN.values()} == {"light", "dark"}


def simulated_in_words(scenario: str) -> dict[tuple[str, str], list[float]]:
    """Return what the page about scenarios says that simulated groups paid, by variant."""
    table = SCENARIOS.split(BEGIN, 1)[1].split(END, 1)[0]
    found = {}
    for line in table.splitlines():
        name, variant, group, *both = ([*map(str.strip, line.strip("|").split("|")), ""] * 2)[:5]
        if name == f"`{scenario}`":
            found[variant, group] = [float(each.split(" / ")[-1]) for each in both]
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TAKEN)
def test_the_command_gives_the_figures_of_the_picture_and_of_the_text(name, tmp_path):
    picture = TAKEN[name]
    found = figures(picture, tmp_path / "report.html")
    again = "take the pictures again: python -m tests.bench.pages.pictures"
    assert found == json.loads(FIGURES.read_text())[name], again
    in_words = simulated_in_words(picture.scenario)
    for run, groups in found.items():
        variant = run if len(picture.variants) > 1 else ""
        for group, paid in groups.items():
            assert paid == in_words[variant, group], f"{run}, {group}: mend docs/scenarios.md"


def test_the_example_of_the_text_is_what_is_pictured():
    example = SCENARIOS.split("$ rollcall rehearse rolling-deploy --simulate\n", 1)[1].split("```")[
        0
    ]
    pictured = json.loads(FIGURES.read_text())["report-rolling-deploy"]["rolling-deploy"]
    for group, (rebalances, unavailable) in pictured.items():
        (line,) = [each for each in example.splitlines() if each.startswith(f"{group} ")]
        figures_told = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", line)
        assert float(figures_told[2]) == rebalances, line
        assert float(figures_told[-1]) == unavailable, line
