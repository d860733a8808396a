"""The pictures of the documents: each is shown, and small enough for a repository."""

from bench.scenarios.files import names
from tests.bench.pages.pictures import PICTURES, SIZE_BYTES_MAX, TAKEN

SHOWN = (PICTURES.parent / "reports.md").read_text()


def test_each_picture_is_there_and_shown_and_small():
    taken = {path.stem: path for path in PICTURES.glob("report-*.png")}
    assert set(taken) == set(TAKEN)
    for name, path in taken.items():
        assert f"](pictures/{name}.png)" in SHOWN
        assert path.stat().st_size < SIZE_BYTES_MAX


def test_each_picture_is_of_a_scenario_that_comes_with_the_program():
    assert {each.scenario for each in TAKEN.values()} <= set(names())
    assert {each.scheme for each in TAKEN.values()} == {"light", "dark"}
