"""A drill on hosts, as an operator starts it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.hosts.host import ROOT
from tests.waiting import patient


@pytest.mark.timeout(300)
def test_a_drill_on_hosts_ends_with_a_clean_verdict(
    hosts_are_possible: None, tmp_path: Path
) -> None:
    file, kept = tmp_path / "verdict.json", tmp_path / "kept"
    done = subprocess.run(
        [
            sys.executable, "-m", "rollcall", "drill", "lose-host", "--hosts", "3",
            "--members", "16", "--types", "classic,consumer,share,streams",
            "--json", str(file), "--keep", str(kept),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=patient(280), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: clean" in done.stdout
    verdict = json.loads(file.read_text())
    assert verdict["clean"]
    rows = {row["name"]: row["value"] for row in verdict["rows"]}
    assert rows["members"] == 16
    assert rows["acknowledged commits"] > 0
    assert rows["lost connections"] > 0, "the host had members"
    assert (kept / "host1").is_dir()
