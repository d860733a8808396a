"""Every transcript still matches; ``REWRITE_TRANSCRIPTS=1`` rewrites them for review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.protocol.groups.classic.classic_transcripts import ClassicStage
from tests.protocol.groups.consumer.consumer_transcripts import ConsumerStage
from tests.protocol.groups.migration.mixed_transcripts import MixedStage
from tests.protocol.groups.share.share_transcripts import ShareStage
from tests.protocol.groups.streams.streams_transcripts import StreamsStage
from tests.transcript_player import check, check_names_a_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.protocol.groups.transcripts import Stage

FOLDER = Path(__file__).parents[2] / "transcripts"
STAGES: Mapping[str, type[Stage]] = {
    "transcripts": ClassicStage,
    "migration": MixedStage,
    "consumer": ConsumerStage,
    "share": ShareStage,
    "streams": StreamsStage,
}
TRANSCRIPTS = sorted(FOLDER.rglob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check(path, STAGES[path.parent.name]())


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rule_it_shows(path: Path) -> None:
    check_names_a_rule(path, "KIP-", "Kafka")
