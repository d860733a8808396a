"""Makes stories of rebalances from facts, outside the event loop, and stores what is remembered.

``observe`` puts a fact into a queue and returns. A thread tells the stories, passes them to the
event loop (``deliver``), and writes to the node's file what the loop passes back (``store``).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from actors.stories.file import StoryFile, entry_of
from actors.stories.waiting_facts import WaitingFacts, size_of
from protocol.reasons import reason
from protocol.stories.history import StoryEntry
from protocol.stories.teller import StoryTeller, outlived

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from actors.stories.file import StoredStories
    from protocol.groups.facts import Fact

_log = logging.getLogger("rollcall.telemetry")

WAITING_MAX: Final = 20_000
"""Facts and stories that wait for the thread; what comes then is dropped and counted."""

CLOSE_S: Final = 0.5


class StoryKeeper:
    """The stories of one process's groups."""

    def __init__(
        self,
        node_id: int,
        path: Path,
        now: Callable[[], int],
        deliver: Callable[[Sequence[StoryEntry]], None],
        restore: Callable[[StoredStories], None],
    ) -> None:
        """``deliver`` gets own stories, ``restore`` what is in the file; the thread calls both."""
        self._now = now
        self._deliver = deliver
        self._restore = restore
        self._file: StoryFile | None = StoryFile(path)
        self._teller = StoryTeller(node_id)
        self._waiting: WaitingFacts[Fact | StoryEntry] = WaitingFacts(_size, WAITING_MAX)
        self._closing = threading.Event()
        self._dropped = 0
        self._accepted = 0  # by the event loop
        self._done = 0  # by the thread
        self._thread = threading.Thread(target=self._run, name="stories", daemon=True)
        self._thread.start()

    def observe(self, fact: Fact) -> None:
        """Queue a fact; never blocks, never raises."""
        self._put(fact)

    def store(self, entry: StoryEntry) -> None:
        """Queue a story to be stored; never blocks, never raises."""
        self._put(entry)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and ``deliver`` was called with all that was told."""
        return self._accepted == self._done

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Tell and store what waits; blocks, for about ``timeout_s`` at most."""
        if not self._closing.is_set():
            self._closing.set()
            self._waiting.wake()
        self._thread.join(timeout_s)

    def _put(self, item: Fact | StoryEntry) -> None:
        self._accepted += 1
        if not self._waiting.put(item):
            self._accepted -= 1
            self._dropped += 1

    def _run(self) -> None:
        self._load()
        while not self._closing.is_set() or not self._waiting.is_empty:
            taken = self._waiting.take(self._closing)
            for each in taken:
                if isinstance(each, StoryEntry):
                    self._teller.number_after(each.number)
            told = self._tell([each for each in taken if not isinstance(each, StoryEntry)])
            if told and self._closing.is_set():
                self._store(told)  # the event loop takes no more
            elif told:
                self._deliver(told)
            self._store([each for each in taken if isinstance(each, StoryEntry)])
            self._done += len(taken)
            self._report()

    def _tell(self, facts: Sequence[Fact]) -> list[StoryEntry]:
        """Tell the stories; of those of one batch only the last revision counts."""
        found: dict[tuple[str, tuple[int, int]], StoryEntry] = {}
        skipped = outlived(facts)
        for place, fact in enumerate(facts):
            try:
                for story in self._teller.tell(fact, is_outlived=place in skipped):
                    found[story.group_id, story.key] = entry_of(story)
            except Exception:
                _log.exception("the story of a %s could not be told", type(fact).__name__)
        return list(found.values())

    def _load(self) -> None:
        try:
            if self._file is not None:
                stored = self._file.load(self._now())
                if stored.unreadable:
                    _log.warning("%d stored stories could not be read", stored.unreadable)
                for entry in stored.entries:
                    self._teller.number_after(entry.number)
                self._restore(stored)
        except Exception as error:
            self._give_up(error)

    def _store(self, entries: Sequence[StoryEntry]) -> None:
        if not entries or self._file is None:
            return
        try:
            self._file.add(entries, self._now())
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Go on without a file: the stories are in memory and on other nodes."""
        self._file = None
        _log.warning(
            "stories of rebalances are not stored until this node starts again: %s", reason(error)
        )

    def _report(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            _log.warning("%d facts had no room, so stories of rebalances may be missing", dropped)


def _size(item: Fact | StoryEntry) -> int:
    return len(item.data) if isinstance(item, StoryEntry) else size_of(item)
