"""`python -m bench.rehearsals.watched`: what is counted, and until when it is measured."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cli.explain import story_as_json
from actors.watching.place import PlaceFile, WatchPlace
from bench.rehearsals.watched import main
from bench.servers import reading
from bench.servers.reading import ReadProgress
from bench.servers.server import StartError
from bench.servers.watched import counted, stop_watching
from protocol.stories.causes import Cause
from tests.actors.console.sources import story
from tests.waiting import WITHIN_S


def test_a_story_that_is_told_again_counts_once() -> None:
    first = story("a", 1)
    told = [
        story_as_json(first),
        story_as_json(replace(first, revision=1)),
        story_as_json(story("a", 2, cause=Cause.JOINED, inferred="it has commits")),
        story_as_json(story("b", 3)),
        {"group_id": "a", "storm": {"rebalances": 9}},
    ]
    assert counted(json.dumps(each) for each in told) == {
        "stories": 3,
        "inferred": 1,
        "groups": {"a": 2, "b": 1},
        "causes": {"left": 2, "joined": 1},
        "storms": {"a": 1},
    }


def test_a_scenario_that_is_none_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["there-is-none"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_is_read_last_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = iter(range(1_000, 9_000, 1_000))
    monkeypatch.setattr(reading, "wall_ms", lambda: next(now_ms))
    monkeypatch.setattr(reading, "SAMPLE_S", WITHIN_S)
    file = PlaceFile(tmp_path / "place")
    progress = ReadProgress(file, os.getpid())
    assert progress.read_ms == 1_000
    file.save(WatchPlace(offsets={0: 7}))
    progress.stop()
    assert progress.read_ms == 2_000
    file.save(WatchPlace(offsets={0: 8}))
    progress.stop()
    assert progress.read_ms == 2_000, "the place that is saved at the end changes nothing"


def test_a_watching_that_does_not_end_is_told_in_a_sentence() -> None:
    class Deaf:
        def terminate(self) -> None: ...

        def wait(self, seconds: float) -> int:
            raise subprocess.TimeoutExpired("rollcall watch", seconds)

    with pytest.raises(StartError, match="has not ended 60 s after SIGTERM"):
        stop_watching(Deaf())  # type: ignore[arg-type]
