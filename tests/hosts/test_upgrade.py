"""A rolling upgrade of hosts under load: two versions in one cluster, then a level raised."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.hosts.host import ROOT


@pytest.mark.timeout(520)
def test_hosts_are_upgraded_one_after_the_other_and_the_level_is_raised(
    hosts_are_possible: None, tmp_path: Path
) -> None:
    file = tmp_path / "verdict.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.hosts.short_upgrade", str(file)],
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(file.read_text())
    assert verdict["clean"], done.stdout
    rows = {row["name"]: row["value"] for row in verdict["rows"]}
    assert rows["members"] == 16
    assert rows["acknowledged commits"] > 0
    assert "rollcall upgrade" in done.stdout
