"""Where benchmarks keep files: in a checkout beside the sources, else in the user's directories."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parents[len((__package__ or "").split("."))]
"""The directory from which our packages are imported."""

CHECKOUT: Final = TOP if (TOP / "pyproject.toml").is_file() else None
"""The checkout from which this program runs; None when it was installed from a wheel."""

RESULTS: Final = CHECKOUT / "bench" / "results" if CHECKOUT else Path.cwd() / "rollcall-results"
"""The dated files of ``rollcall bench all``."""

PAGE: Final = (CHECKOUT / "docs" if CHECKOUT else RESULTS) / "performance.md"
"""The page that is generated from the newest of them."""

DOWNLOADS: Final = CHECKOUT / ".deps" if CHECKOUT else Path.home() / ".cache" / "rollcall"
"""Files that are downloaded once and kept: Kafka's jars and what is compiled against them."""
