"""Every transcript of a replicated log still says what happens; REWRITE_TRANSCRIPTS=1 renews it."""

import os
from pathlib import Path

import pytest

from tests.protocol.groups.transcripts import play
from tests.storage.replica_transcripts import ReplicaStage

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    played = play(written, ReplicaStage())
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == written


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rule_it_shows(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# ")
    assert "Raft" in first or "KIP-" in first
