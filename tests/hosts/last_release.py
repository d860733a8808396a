"""The last release, with which today's version must run in one cluster: its wheel.

After a release this has to name it. A clone may have no tags, so the commit counts.
"""

import io
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import pytest

from bench.host_drills.programs import wheel_of
from bench.hosts.host import ROOT

TAG: Final = "v0.1.0"
COMMIT: Final = "ebf549f89e308de85d84195c9c0c0bf8f8936358"


def git(*words: str) -> "subprocess.CompletedProcess[bytes]":
    """Run git in the checkout."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)


def has_release() -> bool:
    """Whether the checkout is a clone that has the commit of the last release."""
    return not git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode


def wheel_of_last_release(directory: Path) -> Path:
    """Build it in a directory; skip where the commit is missing."""
    if not has_release():
        pytest.skip(f"This clone is without the commit of {TAG}: use a full one.")
    sources = directory / "release.src"
    with zipfile.ZipFile(io.BytesIO(git("archive", "--format=zip", COMMIT).stdout)) as archive:
        archive.extractall(sources)
    return wheel_of(sources)
