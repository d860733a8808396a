"""Every transcript still matches; ``REWRITE_TRANSCRIPTS=1`` rewrites them for review."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.protocol.groups.consumer.consumer_transcripts import ConsumerStage
from tests.protocol.groups.migration.mixed_transcripts import MixedStage
from tests.protocol.groups.transcripts import Player, play

FOLDER = Path(__file__).parents[2] / "transcripts"
STAGES: Mapping[str, Callable[[], Player | None]] = {
    "transcripts": lambda: None,
    "migration": MixedStage,
    "consumer": ConsumerStage,
}
TRANSCRIPTS = sorted(FOLDER.rglob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    played = play(written, STAGES[path.parent.name]())
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == written


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rule_it_shows(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# ")
    assert "KIP-" in first or "Kafka" in first
