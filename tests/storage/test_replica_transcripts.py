"""Every transcript of a replicated log still says what happens; REWRITE_TRANSCRIPTS=1 renews it."""

from pathlib import Path

import pytest

from tests.storage.replica_transcripts import ReplicaStage
from tests.transcript_player import check, check_names_a_rule

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check(path, ReplicaStage())


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rule_it_shows(path: Path) -> None:
    check_names_a_rule(path, "Raft", "KIP-")
