"""The pictures of the console's document: each is shown, and small enough for a repository."""

import re

from tests.actors.console.pictures import PICTURES, SIZE_BYTES_MAX

DOCS = PICTURES.parent
SHOWN = re.compile(r"\]\((?:docs/)?pictures/(console-\w+)\.png\)")


def test_each_picture_is_there_and_shown_and_small() -> None:
    taken = {path.stem: path.stat().st_size for path in PICTURES.glob("console-*.png")}
    assert set(SHOWN.findall((DOCS / "console.md").read_text())) == set(taken)
    assert set(SHOWN.findall((DOCS.parent / "README.md").read_text())) <= set(taken)
    assert all(size < SIZE_BYTES_MAX for size in taken.values())
