"""Drills: the same files as on a live cluster, in virtual time."""

import pytest

from failover.drills.checked import DrillError
from failover.drills.drill import Action, named, names
from failover.simulation.drills import run_drill

DRILLS = [name for name in names() if not named(name).does(Action.FILL_DISK)]


@pytest.mark.parametrize("name", DRILLS)
def test_a_drill_has_a_clean_verdict(name: str) -> None:
    report = run_drill(name, members=30)
    assert report.violation is None
    assert report.verdict is not None
    broken = {row.name: row.value for row in report.verdict.rows if not row.is_clean}
    assert broken == {}, report.verdict.complaints


def test_a_drill_that_needs_a_full_disk_is_refused() -> None:
    with pytest.raises(DrillError, match="never full"):
        run_drill("full-disk")
