"""Run in a copy of the project in which docs/how-to/add-a-drill.md was followed."""

import pytest

from bench.drills import main
from failover.drills.drill import names
from failover.simulation.drills import run_drill
from tests.failover.drills import test_drill

NAME = "kill-leader-twice"


def test_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert NAME in names()
    assert main(["--list"]) == 0
    assert NAME in capsys.readouterr().out
    test_drill.test_the_drills_that_come_with_the_program_are_all_well_formed()


def test_it_plays() -> None:
    report = run_drill(NAME, members=20)
    assert report.passed, str(report)
