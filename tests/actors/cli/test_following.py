"""``rollcall explain --follow``: what is printed as it happens, storms too, by answers as given."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from actors.cli import explain
from actors.cli.stories import Answered
from actors.clock import wall_ms
from protocol.stories.causes import Cause
from protocol.stories.storms import STORM_MIN, WINDOW_MS
from protocol.stories.story import RebalanceStory, StoryOutcome, Who

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def stories(count: int) -> list[RebalanceStory]:
    """So many rebalances that one member causes, the last of them now."""
    now = wall_ms()
    return [
        RebalanceStory(
            group_id="orders",
            node_id=0,
            number=number,
            cause=Cause.EXPIRED,
            outcome=StoryOutcome.STABLE,
            started_ms=now,
            ended_ms=now,
            who=Who(name="web-1", client_id="web-1", host="/10.0.0.4"),
        )
        for number in range(count)
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Milliseconds by which the clock is ahead."""
    ahead = [0]
    monkeypatch.setattr(explain, "wall_ms", lambda: wall_ms() + ahead[0])
    return ahead


def follow(
    monkeypatch: pytest.MonkeyPatch, answers: Iterable[list[RebalanceStory]], **given: bool
) -> None:
    """Follow a group of which the nodes answer this, until Ctrl-C."""
    left = iter(answers)

    def ask(*_: object) -> Answered:
        found = next(left, None)
        if found is None:
            raise KeyboardInterrupt
        return Answered(found, 0, 0, ())

    monkeypatch.setattr(explain, "ask", ask)
    monkeypatch.setattr(explain, "FOLLOW_S", 0)
    known = {"group": "orders", "last": 10, "follow": True, "verbose": False, "json": False}
    client: Any = None
    with pytest.raises(KeyboardInterrupt):
        explain.explain(client, Namespace(**(known | given)))


def test_a_storm_that_begins_is_shown_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = stories(STORM_MIN + 3)
    follow(monkeypatch, [told[:3], told[:STORM_MIN], told[:STORM_MIN], told])
    lines = capsys.readouterr().out.splitlines()
    (storm,) = (n for n, line in enumerate(lines) if line.startswith("storm: 5 rebalances"))
    assert lines[storm + 1] == 'flapper: "web-1 at 10.0.0.4" caused 5 of 5'
    assert lines[storm + 2].startswith("advice: ")
    sentences = [line for line in lines if "sent no heartbeat" in line]
    assert len(sentences) == len(told)


def test_a_storm_that_was_there_before_is_not_shown_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = stories(STORM_MIN + 1)
    follow(monkeypatch, [told[:STORM_MIN], told])
    assert capsys.readouterr().out.count("storm: ") == 1


def test_a_storm_that_goes_on_is_shown_again_in_ten_minutes(
    monkeypatch: pytest.MonkeyPatch, clock: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    def answers() -> Iterator[list[RebalanceStory]]:
        first, later = stories(STORM_MIN), []
        yield first
        for ahead_ms in (WINDOW_MS - 10_000, WINDOW_MS):
            clock[0] = ahead_ms
            later += [
                replace(each, number=each.number + ahead_ms, started_ms=each.started_ms + ahead_ms)
                for each in first
            ]
            yield [*first, *later]

    follow(monkeypatch, answers())
    assert capsys.readouterr().out.count("storm: ") == 2


def test_a_storm_is_a_line_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    follow(monkeypatch, [[], stories(STORM_MIN)], json=True)
    *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert last["storm"]["count"] == STORM_MIN
    assert last["storm"]["flapper"] == "web-1 at 10.0.0.4"
