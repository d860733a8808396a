"""What a how-to page says to do, done to a copy of the project.

A page has steps: a line that names a file in backquotes, and below it a block marked ``diff``. Its
lines begin with ``+`` (to add), ``-`` (to remove) or a blank (what is there already, and tells the
place); ``@@`` stands between two places. A place of additions alone is the end of the file, or a
new file.
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
PACKAGES = ("protocol", "storage", "failover", "actors", "bench", "tests", "docs")

BLOCK = re.compile(r"```diff\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"`([\w/.-]+\.(?:py|toml))`")


class Step(NamedTuple):
    """One change of one file."""

    path: str
    block: str


def steps(page: Path) -> list[Step]:
    """Return the steps of a page: each changes the file that is named first in its paragraph."""
    found = []
    text, begin = page.read_text(), 0
    for block in BLOCK.finditer(text):
        paragraph = text[begin : block.start()].rpartition("**")[2]
        found.append(Step(NAMED.findall(paragraph)[0], block.group(1)))
        begin = block.end()
    return found


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
    path = project / step.path
    text = path.read_text() if path.exists() else ""
    for place in step.block.split("@@\n"):
        lines = [line or " " for line in place.splitlines()]
        found = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        wanted = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        if found:
            assert text.count(f"\n{found}") == 1, f"{step.path} has not this place once:\n{found}"
            text = text.replace(f"\n{found}", f"\n{wanted}")
        else:
            text = f"{text}\n\n{wanted}" if text else wanted
    path.write_text(text)


def run_tests(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, with its own modules."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
