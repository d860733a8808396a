"""The file in which a node stores the stories of rebalances: one JSON object a line.

A story is added at the end, without a sync: it is soft state, and a ``kill -9`` loses nothing that
was written. When the file has grown to twice of what is remembered, it is written anew. Lines that
cannot be read are left out, and counted.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.stories.history import BYTES_MAX, History, StoryEntry
from protocol.stories.json_form import BadStoryError, read, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from protocol.stories.story import RebalanceStory

FILE_BYTES_MAX: Final = 2 * BYTES_MAX
LINE_BYTES_MAX: Final = 256 * 1024
ONLY_US: Final = 0o600
SINCE: Final = "since_ms"


class StoredStories(NamedTuple):
    """What a file has: its stories, since when they were stored (Unix ms), unreadable lines."""

    entries: list[StoryEntry]
    since_ms: int
    unreadable: int


class StoryFile:
    """The file of one node; used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def load(self, now: int) -> StoredStories:
        """Read the file; begin one at ``now`` if there is none. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            self._write_anew((), now)
            return StoredStories([], now, 0)
        history, since_ms, unreadable = History(now), now, 0
        with self._path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX):
                if since := _since(line):
                    since_ms = min(since_ms, since)
                    continue
                try:
                    story = read(line)
                except BadStoryError:
                    unreadable += 1
                else:
                    history.add(entry_of(story, line.rstrip(b"\n")))
        entries = list(history.entries())
        self._size = self._path.stat().st_size
        if self._size >= FILE_BYTES_MAX or unreadable:
            self._write_anew(entries, since_ms)
        return StoredStories(entries, since_ms, unreadable)

    def add(self, entries: Iterable[StoryEntry], now: int) -> None:
        """Add stories at the end. Raises OSError."""
        data = b"".join(entry.data + b"\n" for entry in entries)
        with os.fdopen(os.open(self._path, _APPEND, ONLY_US), "ab") as file:
            file.write(data)
        self._size += len(data)
        if self._size >= FILE_BYTES_MAX:
            stored = self.load(now)
            self._write_anew(stored.entries, stored.since_ms)

    def _write_anew(self, entries: Iterable[StoryEntry], since_ms: int) -> None:
        draft = self._path.with_suffix(".new")
        self._size = 0
        with os.fdopen(os.open(draft, _ANEW, ONLY_US), "wb") as file:
            for line in _lines(entries, since_ms):
                self._size += file.write(line)
        draft.rename(self._path)


_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ANEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def entry_of(story: RebalanceStory, data: bytes | None = None) -> StoryEntry:
    """Return a story as the history has it; ``data`` is its JSON, if that is known."""
    return StoryEntry(
        story.group_id,
        story.node_id,
        story.number,
        story.revision,
        story.ended_ms,
        write(story) if data is None else data,
    )


def _lines(entries: Iterable[StoryEntry], since_ms: int) -> Iterator[bytes]:
    yield json.dumps({SINCE: since_ms}).encode() + b"\n"
    for entry in entries:
        yield entry.data + b"\n"


def _since(line: bytes) -> int | None:
    """Return the time in a first line; None for other lines."""
    if len(line) > 100:
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    since = value.get(SINCE) if isinstance(value, dict) else None
    return since if type(since) is int else None
