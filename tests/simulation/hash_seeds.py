"""Programs that are to say the same whatever seed Python hashes strings with."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def said(program: str) -> set[str]:
    """Run a program under two hash seeds and return what it printed: one text, or two."""
    return {_run(program, hash_seed) for hash_seed in ("1", "2")}


def _run(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout
