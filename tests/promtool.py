"""What promtool says of metrics in Prometheus' text format."""

import subprocess
from shutil import which

import pytest


def has_promtool() -> bool:
    """Whether it is installed."""
    return which("promtool") is not None


needs_promtool = pytest.mark.skipif(
    not has_promtool(), reason="needs promtool, of Debian's prometheus"
)


def check_metrics(text: str) -> None:
    """Fail if promtool finds a fault."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
