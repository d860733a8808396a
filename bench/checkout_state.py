"""What git says of the checkout from which a measurement runs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def commit_of(checkout: Path, written: Iterable[Path]) -> tuple[str, bool]:
    """Return the commit, ten characters of it, and whether there are uncommitted changes.

    Changes of ``written``, which the measurement itself writes, do not count. The commit is
    "unknown" outside of a repository.
    """
    own = [f":(exclude){path.relative_to(checkout)}" for path in written]
    commit = git(checkout, "rev-parse", "--short=10", "HEAD").stdout.strip()
    changed = git(checkout, "status", "--porcelain", "--untracked-files=no", "--", ".", *own).stdout
    return commit or "unknown", bool(changed)


def git(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return how a git command in the checkout ended, and what it said."""
    return subprocess.run(
        ["git", *words], cwd=checkout, capture_output=True, text=True, check=False
    )
