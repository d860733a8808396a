"""The changes of a plan: each repetition of a behaviour and its end, bounded in number."""

import pytest

from bench.scenarios.changes import CHANGES_MAX, PlannedChange, PlannedChanges
from bench.scenarios.files import parse
from bench.scenarios.plan import expand

TEXT = """
about = "x"
duration = "5m"
topics = {{ t = {{ partitions = 4 }}, u = {{ partitions = 4 }} }}
[[groups]]
name = "a"
topics = ["t"]
replicas = 4
static = true
workload = "StatefulSet"
start_time = "1s"
behaviours = [{}]
"""
ARRIVALS = '{ at = "0s", per_second = 40 }'
LASTING = {
    "churn": ('every = "20s", until = "50s"', [10, 11, 12, 31, 32]),
    "flap": ('every = "20s", until = "50s", topics = ["u"]', [10, 30, 50]),
    "restart": ('every = "20s", away = "5s", pods = 2', [10, 15, 30, 35]),
    "drain": ('every = "20s", nodes = 2, drained = 2', [10, 11, 12, 13, 31, 32, 33, 34, 35]),
    "pause": ('for = "45s"', [10, 55]),
    "duplicate": ('for = "45s"', [10, 55]),
    "poll-timeout": ('away = "45s"', [10, 55]),
    "crash": ('away = "45s"', [10, 55]),
    "scale": ("replicas = 6", [10, 11, 12]),
}
"""What else a behaviour that begins after 10 s says, and in which seconds it changes its group."""


def changes(behaviour):
    return expand(parse("s", TEXT.format(behaviour))).changes


@pytest.mark.parametrize("word", LASTING)
def test_a_behaviour_changes_its_group_each_time_and_when_it_ends(word):
    settings, seconds = LASTING[word]
    found = changes(f'{{ do = "{word}", at = "10s", {settings} }}')
    assert {(each.group, each.word) for each in found} == {("a", word)}
    assert sorted({each.due_ms // 1000 for each in found}) == seconds


def test_each_step_of_an_autoscaler_is_a_change():
    settings = f"pod_per_second = 100, stabilizationWindowSeconds = 60, arrivals = [{ARRIVALS}]"
    found = changes(f'{{ do = "autoscale", at = "10s", {settings} }}')
    assert {each.due_ms // 1000 for each in found} > {10, 25}


def test_members_that_begin_are_no_change():
    assert changes("") == ()


def test_changes_are_bounded_and_the_first_and_the_last_are_kept():
    noted = PlannedChanges(groups=CHANGES_MAX // 4)
    for second in range(9):
        for milliseconds in (0, 300, 300, 900):
            noted.note(second * 1000 + milliseconds, "a", "churn")
    noted.note(5_000, "b", "scale")
    assert [(each.due_ms, each.group) for each in noted.all()] == [
        (0, "a"), (900, "a"), (1_000, "a"), (5_000, "b"), (8_900, "a"),
    ]  # fmt: skip


def test_other_behaviours_in_the_same_second_are_changes_of_their_own():
    noted = PlannedChanges(groups=1)
    for word in ("scale", "crash", "scale"):
        noted.note(1_000, "a", word)
    assert noted.all() == (PlannedChange(1_000, "a", "scale"), PlannedChange(1_000, "a", "crash"))
