"""Verdicts of rehearsals in files, from which tables of the documents are made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_result(path: Path) -> dict[str, Any] | None:
    """Return a verdict; None if there is none, or if not all of its runs were completed."""
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return None if document.get("lacks") else document
