"""The line that is printed every few seconds of a real run."""

from collections import Counter
from types import SimpleNamespace

import pytest

from bench.load.stability import GroupShare
from bench.rehearsals import real
from bench.rehearsals.crowd import ERRORS, HEARTBEATS, LATE_REQUESTS
from bench.scenarios.files import parse
from bench.scenarios.plan import expand

SCENARIO = """
about = "more members than partitions"
duration = "1m"
topics.t.partitions = 2
[[groups]]
name = "a"
topics = ["t"]
"""


def test_a_line_tells_how_many_have_started_joined_and_got_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario, told = parse("s", SCENARIO), []
    stage = SimpleNamespace(bootstrap=(("127.0.0.1", 1),), versions={}, command_config=None)
    play = real._Play(scenario, expand(scenario), stage, lambda at, text: told.append((at, text)))
    crowd = SimpleNamespace(
        shares=lambda: {
            "a": GroupShare(members=5, joined=3, ready=2, owned=2),
            "b": GroupShare(members=2, joined=2, ready=2, owned=2),
        },
        counts=lambda: Counter({HEARTBEATS: 50, ERRORS: 1, LATE_REQUESTS: 4}),
        missing=lambda: 0,
    )
    monkeypatch.setattr(play, "_now_ms", lambda: 10_000.4)
    play._progress(crowd)
    said = "7 members, 5 joined, 4 with partitions, 5 heartbeats/s, 1 errors, 0 faults, 4 late"
    assert told == [(10_000, said)]
