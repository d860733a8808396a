"""Every transcript still says what happens; ``REWRITE_TRANSCRIPTS=1`` writes it anew for review."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.protocol.groups.mixed_transcripts import MixedStage
from tests.protocol.groups.transcripts import play

FOLDER = Path(__file__).parents[2] / "transcripts"
MIGRATION = FOLDER / "migration"
TRANSCRIPTS = sorted([*FOLDER.glob("*.txt"), *MIGRATION.glob("*.txt")])


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    played = play(written, MixedStage() if path.parent == MIGRATION else None)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == written


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rule_it_shows(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# ")
    assert "KIP-" in first or "Kafka" in first
