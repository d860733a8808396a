"""Facts become stories in a thread, which neither blocks nor stops the event loop."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.stories import keeper as story_keeper
from actors.stories.file import StoredStories, StoryFile
from actors.stories.keeper import StoryKeeper
from protocol.stories.history import StoryEntry
from tests.protocol.stories.facts import NOW, rebalance, reconciled, target
from tests.waiting import WITHIN_S, until


class Loop:
    """What the event loop does: it takes what is told, and has it stored."""

    def __init__(self, path: Path) -> None:
        self.told: list[StoryEntry] = []
        self.restored: list[StoredStories] = []
        self.keeper = StoryKeeper(0, path, lambda: NOW, self.deliver, self.restored.append)

    def deliver(self, entries: Sequence[StoryEntry]) -> None:
        assert not self.keeper.is_idle
        self.told += entries
        for entry in entries:
            self.keeper.store(entry)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node-0.jsonl"


def test_stories_are_told_stored_and_restored(path: Path) -> None:
    loop = Loop(path)
    loop.keeper.observe(rebalance())
    until(lambda: loop.told, WITHIN_S, "it is told")
    until(lambda: loop.keeper.is_idle, WITHIN_S, "it is stored")
    loop.keeper.close(WITHIN_S)
    again = Loop(path)
    until(lambda: again.restored, WITHIN_S, "it is restored")
    again.keeper.close(WITHIN_S)
    assert again.restored[0].entries == loop.told


def test_what_waits_when_it_closes_is_stored(path: Path) -> None:
    loop = Loop(path)
    for fact in (rebalance(), target(), reconciled()):
        loop.keeper.observe(fact)
    loop.keeper.close(WITHIN_S)
    assert len(StoryFile(path).load(NOW).entries) == 2


def test_a_disk_that_refuses_costs_only_the_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.mkdir()
    with caplog.at_level(logging.WARNING):
        loop = Loop(path)
        loop.keeper.observe(rebalance())
        until(lambda: loop.told, WITHIN_S, "it is told all the same")
        loop.keeper.close(WITHIN_S)
    assert "stories of rebalances are not stored until this node starts again" in caplog.text


def test_a_thread_that_is_behind_drops_facts_and_says_so(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_keeper, "WAITING_MAX", 3)
    held = threading.Event()
    load = StoryFile.load
    monkeypatch.setattr(
        StoryFile, "load", lambda file, now: held.wait(WITHIN_S) and load(file, now)
    )
    loop = Loop(path)
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            loop.keeper.observe(rebalance())
        held.set()
        until(lambda: "7 facts had no room" in caplog.text, WITHIN_S, "it is said")
    loop.keeper.close(WITHIN_S)
    assert len(loop.told) == 3


def test_a_fact_that_can_not_be_told_does_not_stop_the_next(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop(path)
    loop.keeper.observe(rebalance(phases=()))
    until(lambda: "could not be told" in caplog.text, WITHIN_S, "it is logged")
    loop.keeper.observe(rebalance())
    until(lambda: loop.told, WITHIN_S, "the next one is told")
    loop.keeper.close(WITHIN_S)


def test_stories_come_after_those_that_were_heard_whatever_the_clock_says(path: Path) -> None:
    loop = Loop(path)
    loop.keeper.store(StoryEntry("orders", 1, NOW + 600_000, 0, NOW + 600_000, b"{}"))
    loop.keeper.observe(rebalance())
    until(lambda: loop.told, WITHIN_S, "it is told")
    loop.keeper.close(WITHIN_S)
    assert loop.told[0].number > NOW + 600_000 > loop.told[0].ended_ms
