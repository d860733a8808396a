"""The file with a node's stories: read back whole, whatever happened to it."""

from pathlib import Path

import pytest

from actors.stories import file as story_file
from actors.stories.file import StoryFile, entry_of
from protocol.stories.causes import Cause
from protocol.stories.history import StoryEntry
from protocol.stories.story import RebalanceStory, StoryOutcome

NOW = 1_700_000_000_000


def entry(number: int, group: str = "orders", revision: int = 0) -> StoryEntry:
    return entry_of(
        RebalanceStory(
            group_id=group,
            node_id=0,
            number=number,
            revision=revision,
            cause=Cause.JOINED,
            outcome=StoryOutcome.STABLE,
            started_ms=NOW + number,
            ended_ms=NOW + number,
        )
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rebalances" / "node-0.jsonl"


def test_stories_are_read_back_with_since_when_they_were_stored(path: Path) -> None:
    file = StoryFile(path)
    assert file.load(NOW).entries == []
    file.add([entry(1), entry(2), entry(1, revision=1)], NOW + 5)
    stored = StoryFile(path).load(NOW + 1_000)
    assert stored.entries == [entry(1, revision=1), entry(2)]
    assert (stored.since_ms, stored.unreadable) == (NOW, 0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_off_costs_one_story(path: Path) -> None:
    """So ends the file when the machine loses power."""
    file = StoryFile(path)
    file.load(NOW)
    file.add([entry(1), entry(2)], NOW)
    path.write_bytes(path.read_bytes()[:-10])
    stored = StoryFile(path).load(NOW)
    assert (stored.entries, stored.unreadable) == ([entry(1)], 1)
    assert StoryFile(path).load(NOW).unreadable == 0, "it was written anew"


@pytest.mark.parametrize("data", [b"\x00" * 1_000, b"[1]\n{}\n", b'{"since_ms": "x"}\n', b"\xff"])
def test_a_file_of_something_else_is_no_obstacle(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    file = StoryFile(path)
    assert file.load(NOW).entries == []
    file.add([entry(1)], NOW)
    assert StoryFile(path).load(NOW).entries == [entry(1)]


def test_a_file_that_has_grown_is_written_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_file, "FILE_BYTES_MAX", 20_000)
    file = StoryFile(path)
    file.load(NOW)
    for number in range(1_000):
        file.add([entry(number)], NOW + number)
        assert path.stat().st_size <= 20_000
    stored = StoryFile(path).load(NOW)
    assert stored.entries[-1] == entry(999)
    assert stored.since_ms == NOW
