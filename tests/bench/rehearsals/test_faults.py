"""Faults of real runs that nobody can suffer when they are due; on a clock of the test's own."""

from collections import Counter
from types import MappingProxyType, SimpleNamespace

import pytest

from bench.rehearsals import real
from bench.scenarios.files import parse
from bench.scenarios.plan import expand

SCENARIO = """
about = "a freeze"
duration = "{}"
topics.t.partitions = 3
faults = [{{ do = "freeze", at = "20s", for = "5s" }}]
[[groups]]
name = "a"
topics = ["t"]
"""
WAITS = (20_000, "freeze: nobody can suffer it now, so it is tried again")


class Stage(SimpleNamespace):
    """A cluster of which nothing is asked; it says when a fault began and ended."""

    def inflict(self, fault, node):
        self.suffered.append((self.clock(), node))
        return fault.lasts, lambda: self.suffered.append((self.clock(), "whole"))

    def check(self):
        """Find nothing wrong."""


CROWD = SimpleNamespace(
    check=lambda: None, lost=list, shares=dict, counts=Counter, missing=lambda: 0
)  # fmt: skip


@pytest.fixture
def followed(monkeypatch):
    """Follow the scenario of this duration, in which somebody leads from a time on."""
    now_s = [100.0]

    def sleep(seconds):
        now_s[0] += max(seconds, 0.001)

    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep)
    monkeypatch.setattr(real, "time", clock)

    def run(duration, leads_from_s):
        scenario, told = parse("s", SCENARIO.format(duration)), []
        stage = Stage(
            bootstrap=(("127.0.0.1", 1),), versions={}, command_config=None,
            cannot=MappingProxyType({}), suffered=[], clock=lambda: round(now_s[0] - 100),
        )  # fmt: skip
        play = real._Play(
            scenario, expand(scenario), stage, lambda at, text: told.append((at, text))
        )
        play._began_s = 100.0
        monkeypatch.setattr(
            play, "_coordinator", lambda _fault: 2 if now_s[0] - 100 >= leads_from_s else None
        )
        play._follow(CROWD)
        return (
            stage.suffered,
            [each for each in told if "heartbeats/s" not in each[1]],
            play._missed,
        )

    return run


def test_a_fault_waits_for_a_leader_and_lasts_as_long_as_it_says(followed):
    suffered, told, missed = followed("60s", 26)
    assert suffered == [(26, 2), (31, "whole")]
    assert told[0] == WAITS
    assert [text for _, text in told[1:]] == ["freeze node 2"]
    assert missed == []


@pytest.mark.parametrize(("duration", "for_s"), [("2m", 30), ("25s", 5)])
def test_a_fault_without_a_leader_is_given_up_and_told(followed, duration, for_s):
    suffered, told, missed = followed(duration, 1_000)
    assert suffered == []
    (sentence,) = missed
    said, _, waited = sentence.removesuffix(" s").rpartition(" for ")
    assert said == "freeze at 20 s did not happen: nobody led the partition of group a"
    assert float(waited) == pytest.approx(for_s, abs=0.6)
    assert [text for _, text in told] == [WAITS[1], sentence]
