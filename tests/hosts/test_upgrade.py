"""Rolling upgrades of hosts under load: from the last release, back to it, and to a later version.

Where the last release cannot be had, they begin with today's version.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.hosts.host import ROOT
from tests.hosts.last_release import COMMIT, TAG, git, has_release, wheel_of_last_release
from tests.waiting import patient


@pytest.mark.timeout(820)
def test_hosts_are_upgraded_and_go_back_and_the_level_is_raised_once_all_are_new(
    hosts_are_possible: None, tmp_path: Path
) -> None:
    wheel = [str(wheel_of_last_release(tmp_path))] if has_release() else []
    file = tmp_path / "verdict.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.hosts.short_upgrade", str(file), *wheel],
        cwd=ROOT, capture_output=True, text=True, timeout=patient(800), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(file.read_text())
    assert verdict["clean"], done.stdout
    rows = {row["name"]: row["value"] for row in verdict["rows"]}
    assert rows["members"] == 16
    assert rows["acknowledged commits"] > 0
    assert "rollcall upgrade" in done.stdout
    if wheel:
        installed = re.findall(r"host3 runs version (\S+)", done.stdout)
        present, release, later = installed
        assert release == TAG[1:], "they go back to it"
        assert later.startswith(present)


def test_the_last_release_is_the_one_that_the_changelog_and_the_tags_have(tmp_path: Path) -> None:
    _, last = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:2]
    assert f"v{last}" == TAG
    wheel = wheel_of_last_release(tmp_path)
    assert wheel.name == f"rollcall-{last}-py3-none-any.whl"
    assert git("merge-base", "--is-ancestor", COMMIT, "HEAD").returncode == 0
    if tag := git("rev-parse", "-q", "--verify", f"{TAG}^{{commit}}").stdout.decode().strip():
        assert tag == COMMIT
