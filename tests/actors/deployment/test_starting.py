"""What a cluster's start makes of logs that are damaged or gone. Needs no Ray."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cluster.ray_calls import LateError
from actors.deployment import starting
from actors.deployment.actors import LogOpenResult
from actors.deployment.starting import READY_S, _await_opened, _restart_formed, ready_s
from actors.errors import BadInputError, ExitCode, FailureError
from tests.actors.deployment.test_controller import SPEC

FORMED = replace(SPEC, directories=("d0", "d1", "d2"))
DAMAGE = "/d/node-1: the log is damaged (a bit); move the directory away."


class Operator:
    def __init__(self) -> None:
        self.said: list[str] = []

    def formed(self, directories: tuple[str, ...]) -> None:
        raise AssertionError("it was formed long ago")

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def whole(node_id: int) -> LogOpenResult:
    return LogOpenResult(FORMED.directories[node_id], "", is_damaged=False, is_new=False)


def gone(node_id: int) -> LogOpenResult:
    return LogOpenResult(f"new-{node_id}", "", is_damaged=False, is_new=True)


DAMAGED = LogOpenResult("", DAMAGE, is_damaged=True, is_new=False)


def test_a_damaged_log_is_left_to_the_controller() -> None:
    """S7: at the start nobody leads yet, so nobody knows whether the others have everything."""
    operator = Operator()
    assert _restart_formed(FORMED, [whole(0), DAMAGED, whole(2)], operator) == [1]
    assert operator.said == [
        f"{DAMAGE} This happens automatically once the other replicas have all its records."
    ]


@pytest.mark.parametrize(
    ("opened", "sentence"),
    [
        ([gone(0), DAMAGED, whole(2)], "the log is damaged"),
        ([gone(0), whole(1), gone(2)], r"too many logs are missing \(node-0, node-2\)"),
        ([gone(0), gone(1), gone(2)], r"too many logs are missing \(node-0, node-1, node-2\)"),
    ],
)
def test_a_cluster_without_a_majority_of_its_logs_does_not_start(
    opened: list[LogOpenResult], sentence: str
) -> None:
    with pytest.raises(FailureError, match=sentence) as refusal:
        _restart_formed(FORMED, opened, Operator())
    assert "restore" not in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_program_that_is_older_than_the_clusters_level_is_the_operators_mistake() -> None:
    why = "The cluster's rollcall.version is finalized at level 2: install another version."
    older = LogOpenResult("d1", why, is_damaged=False, is_new=False, is_mistake=True)
    with pytest.raises(BadInputError) as refusal:
        _restart_formed(FORMED, [whole(0), older, whole(2)], Operator())
    assert str(refusal.value) == why
    assert refusal.value.exit_code == ExitCode.BAD_INPUT


def test_a_cluster_of_many_coordinators_may_take_longer_to_start() -> None:
    many = replace(FORMED, places=FORMED.places * 10)
    assert READY_S < ready_s(FORMED) < ready_s(many)
    assert ready_s(many) - READY_S == 10 * (ready_s(FORMED) - READY_S)


@pytest.mark.parametrize(
    ("rows", "late", "expected"),
    [
        ([whole(0), whole(1), whole(2)], [], "all at once"),
        ([whole(0), whole(1), None], [2], "without it, soon"),
        ([DAMAGED, whole(1), whole(2)], [2], "all, late"),
        ([gone(0), whole(1), whole(2)], [2], "all, late"),
        ([DAMAGED, whole(1), None], [2], "without it, late"),
        ([whole(0), None, None], [1, 2], "never"),
    ],
)
def test_a_late_coordinator_is_waited_for_while_the_others_do_not_suffice(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[LogOpenResult | None],
    late: list[int],
    expected: str,
) -> None:
    """``late``: those without an opened log after the first wait; None: after both."""
    waits: list[float] = []

    def answered(calls: Sequence[int], wait_s: float) -> tuple[list[int], list[int]]:
        waits.append(wait_s)
        left = late if len(waits) == 1 else [each for each in calls if rows[each] is None]
        return [each for each in calls if each not in left], left

    def call(node_id: int) -> Any:
        return SimpleNamespace(opened=SimpleNamespace(remote=lambda: node_id))

    monkeypatch.setattr(starting, "answered", answered)
    monkeypatch.setattr(starting, "answer", lambda node_id, _: rows[node_id])
    calls = [call(node_id) for node_id in range(3)]
    if expected == "never":
        with pytest.raises(LateError):
            _await_opened(FORMED, calls)
    else:
        assert _await_opened(FORMED, calls) == rows
        is_soon = expected in ("all at once", "without it, soon")
        assert len(waits) == (1 if is_soon else 2)
