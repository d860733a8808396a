"""What a how-to page says to do, done to a copy of the project.

A page has steps: a line that names a file in backquotes, and below it a block marked ``diff``. Its
lines begin with ``+`` (to add), ``-`` (to remove) or a blank (what is there already, and tells the
place). A block of additions alone goes to the end of the file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "how-to"
PACKAGES = ("protocol", "storage", "failover", "actors", "tests", "docs")

STEP = re.compile(r"`(?P<path>[\w/.-]+\.py)`[^`]*?```diff\n(?P<block>.*?)```", re.DOTALL)


class Step(NamedTuple):
    """One change of one file."""

    path: str
    block: str


def steps(page: str) -> list[Step]:
    """Return the steps of a page."""
    return [Step(**found.groupdict()) for found in STEP.finditer((PAGES / page).read_text())]


def copy_of_the_project(place: Path) -> Path:
    """Copy what the steps change and what the tests of tables need; compiled code stays behind."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def take(step: Step, project: Path) -> None:
    """Change one file as a step says; what the step finds there must be there once."""
    lines = [line for line in step.block.splitlines() if line]
    found = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    wanted = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    path = project / step.path
    text = path.read_text() if path.exists() else ""
    if found:
        assert text.count(found) == 1, f"{step.path} has not exactly one such place:\n{found}"
        path.write_text(text.replace(found, wanted))
    else:
        path.write_text(f"{text}\n\n{wanted}")


def run_tests(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, with its own modules."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
