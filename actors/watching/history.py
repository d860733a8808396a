"""The stories of a watched cluster: what is remembered of each group, and its storms."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from actors.stories.file import entry_of
from protocol.stories import json_form
from protocol.stories.history import History
from protocol.stories.storms import WINDOW_MS, find_storm
from protocol.stories.story import StoryOutcome
from protocol.stories.teller import StoryTeller
from protocol.watching.troubles import Troubles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.groups.facts import Fact
    from protocol.stories.history import RememberedStories
    from protocol.stories.storms import RebalanceStorm
    from protocol.stories.story import RebalanceStory

STORMS_MAX: Final = 1_000
"""Groups of which is remembered when their storm was told."""


class StoryHistory:
    """Tells stories from facts, and remembers them within the bounds of ``History``.

    A group whose story cannot be told is in ``troubles``, and harms no other.
    """

    def __init__(self, now: int) -> None:
        self._teller = StoryTeller(0)
        self._history = History(now)
        self._storms: OrderedDict[str, int] = OrderedDict()
        self.troubles = Troubles()

    def tell(self, facts: Iterable[Fact]) -> list[RebalanceStory]:
        """Return the stories of facts, of each the last that is known."""
        found: dict[tuple[int, int], RebalanceStory] = {}
        for fact in facts:
            with self._guarded(fact.group_id):
                for story in self._teller.tell(fact):
                    found[story.key] = story
        told: list[RebalanceStory] = []
        for story in found.values():
            with self._guarded(story.group_id):
                self._history.add(entry_of(story))
                told.append(story)
        return told

    @contextmanager
    def _guarded(self, group_id: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.troubles.note(group_id, error)

    def begin(self, fact: Fact) -> None:
        """Take a fact whose story was told before: its end may come."""
        with self._guarded(fact.group_id):
            for _ in self._teller.tell(fact):
                pass

    def of_group(self, group_id: str) -> RememberedStories:
        """Return what is remembered of a group."""
        return self._history.of_group(group_id)

    def stories(self, group_id: str) -> list[RebalanceStory]:
        """Return the stories of a group, the oldest first."""
        return [json_form.read(each.data) for each in self._history.of_group(group_id).entries]

    def storms(
        self, told: Iterable[RebalanceStory], now: int
    ) -> Iterator[tuple[str, RebalanceStorm]]:
        """Return the storms that these stories show, each once in ten minutes."""
        ended = (each for each in told if each.outcome is not StoryOutcome.UNCHANGED)
        for group_id in dict.fromkeys(each.group_id for each in ended):
            if now - self._storms.get(group_id, -WINDOW_MS) < WINDOW_MS:
                continue
            storm = find_storm(self.stories(group_id), now)
            if storm is not None:
                self._storms[group_id] = now
                self._storms.move_to_end(group_id)
                if len(self._storms) > STORMS_MAX:
                    self._storms.popitem(last=False)
                yield group_id, storm
