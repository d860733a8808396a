"""What ``python -m failover.simulation`` says."""

import pytest

from failover.simulation.__main__ import main
from tests.simulation.planted.mutations import MUTATIONS


def test_it_says_how_many_seeds_how_fast_and_which_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "2", "--from", "6"]) == 0
    said = capsys.readouterr().out
    assert "2 seeds from 6 on: nothing is broken" in said
    assert "seeds/s" in said
    assert "cluster-hours" in said
    assert "faults: " in said


def test_a_failure_prints_the_story_the_seed_and_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MUTATIONS["acknowledged_before_sync"].planted():
        assert main(["--seeds", "1"]) == 1
    said = capsys.readouterr().out
    assert "VIOLATION partition" in said
    assert "repeat: python -m failover.simulation --groups any --seed 0" in said


def test_one_seed_tells_its_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "joined, generation 1" in said
    assert "seed 3: all went well" in said


def test_an_unknown_drill_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--drill", "nothing"]) == 2
    assert "There is no drill 'nothing'" in capsys.readouterr().err
