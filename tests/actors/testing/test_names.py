"""The page about the plugin names every verb, and no other."""

import re
from pathlib import Path

from actors.testing.cluster import ClusterForTests

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "test-with-rollcall.md"
OF_THE_PLUGIN = {"close", "stories"}
"""What the plugin calls by itself, when a test has ended or failed."""


def test_the_page_has_a_row_for_every_verb() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \|", PAGE.read_text())
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    public = {name for name in vars(ClusterForTests) if not name.startswith("_")}
    assert named == public - OF_THE_PLUGIN
