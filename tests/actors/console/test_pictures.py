"""The pictures of the console's documents: each is shown, and small enough for a repository."""

import re

from tests.actors.console.pictures import PICTURES, SIZE_BYTES_MAX, TAKERS

DOCS = PICTURES.parent
SHOWN = re.compile(r"\]\((?:docs/)?pictures/(console-\w+)\.png\)")


def test_each_picture_is_there_and_shown_and_small() -> None:
    taken = {path.stem: path.stat().st_size for path in PICTURES.glob("console-*.png")}
    pages = [(DOCS / name).read_text() for name in ("console.md", "watch.md")]
    assert {name for page in pages for name in SHOWN.findall(page)} == set(taken) == set(TAKERS)
    assert set(SHOWN.findall((DOCS.parent / "README.md").read_text())) <= set(taken)
    assert all(size < SIZE_BYTES_MAX for size in taken.values())
