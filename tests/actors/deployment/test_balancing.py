"""`rollcall balance` moves one coordinator after the other, while all replicas are in sync."""

from typing import Any

import pytest

from actors.deployment import balancing
from actors.deployment.balancing import (
    BALANCED,
    balance,
    cannot_be_left,
    free_hosts,
    no_room,
    obstacle,
    offer,
)
from actors.errors import FailureError
from failover.control.balancing import CoordinatorMove

MOVES = (
    CoordinatorMove(0, "a", "d", "a has 3 coordinators and d has 0"),
    CoordinatorMove(4, "b", "d", "b has 3 coordinators and d has 1"),
)


class Cluster:
    """A cluster in which each move leaves replicas behind for a few looks."""

    def __init__(self, behind: int = 0) -> None:
        self.moved: list[tuple[int, str, int]] = []
        self._behind = behind
        self._looks = 0

    def moves(self) -> tuple[CoordinatorMove, ...]:
        if self._looks:
            self._looks -= 1
            raise FailureError("partition 1 is under-replicated")
        return MOVES[len(self.moved) :]

    def move(self, node_id: int, host: str, bytes_per_s: int) -> None:
        assert not self._looks, "all replicas are in sync"
        self.moved.append((node_id, host, bytes_per_s))
        self._looks = self._behind


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "LOOK_S", 0.0)


def test_each_move_is_told_with_its_reason_and_waited_for() -> None:
    cluster, said = Cluster(behind=3), list[str]()
    balance(cluster, 1_000, said.append)
    assert cluster.moved == [(0, "d", 1_000), (4, "d", 1_000)]
    assert said == [
        "coordinator 0 moves from a to d: a has 3 coordinators and d has 0",
        "coordinator 4 moves from b to d: b has 3 coordinators and d has 1",
        BALANCED,
    ]


def test_replicas_that_do_not_catch_up_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "IN_SYNC_S", 0.0)
    cluster = Cluster(behind=10_000_000)
    with pytest.raises(FailureError, match="under-replicated"):
        balance(cluster, 1_000, lambda _: None)
    assert len(cluster.moved) == 1


def status(state: str = "Running", under_replicated: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "coordinators": [{"node_id": 0, "state": "Running"}, {"node_id": 1, "state": state}],
        "under_replicated": under_replicated,
    }


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (status(), ""),
        (status("Restarting"), "coordinator 1 is Restarting"),
        (status("Draining"), "coordinator 1 is Draining"),
        (status(under_replicated=(2,)), "partition 2 is under-replicated"),
        (status(under_replicated=(-1,)), "the catalogue is under-replicated"),
    ],
)
def test_what_is_in_the_way_of_a_move(found: dict[str, Any], said: str) -> None:
    why = obstacle(found)
    assert said in why
    assert bool(why) == bool(said)


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ((), ""),
        (MOVES[:1], "Hosts without coordinators: d; `rollcall balance` moves 1 coordinator."),
        (MOVES, "Hosts without coordinators: d; `rollcall balance` moves 2 coordinators."),
        (
            (CoordinatorMove(0, "a", "b", "why"),),
            "Hosts are uneven; `rollcall balance` moves 1 coordinator.",
        ),
    ],
)
def test_the_status_offers_work_to_hosts(moves: tuple[CoordinatorMove, ...], said: str) -> None:
    assert offer(moves, ["a", "b", "c"]) == said


def test_at_the_end_it_is_told_that_hosts_are_free() -> None:
    cluster, said = Cluster(), list[str]()
    balance(cluster, 1_000, said.append, free_hosts(["c"]))
    assert said[-1] == "The host c holds no coordinator and can be taken away."
    assert free_hosts(["b", "c"]) == "The hosts b, c hold no coordinator and can be taken away."


@pytest.mark.parametrize(
    ("crowded", "said"),
    [
        ((), ""),
        (
            (2,),
            "There is not enough room without b, c: several replicas of partition 2 would be on "
            "one host. Add a host to the Ray cluster first, or allow it with --share-hosts.",
        ),
        (
            (-1, 0, 2),
            "There is not enough room without b, c: several replicas of the catalogue and of 2 "
            "more would be on one host. Add a host to the Ray cluster first, or allow it with "
            "--share-hosts.",
        ),
    ],
)
def test_it_is_told_which_replicas_have_no_room(crowded: tuple[int, ...], said: str) -> None:
    assert no_room(crowded, ["b", "c"]) == said


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (["c"], ""),
        (["x"], "There is no host x in the Ray cluster."),
        (["c", "d"], "The host d is away, so its data cannot be copied. `rollcall replace NODE`"),
        (["a", "b", "c"], "No other host is in the Ray cluster."),
    ],
)
def test_it_is_told_why_hosts_cannot_be_left(without: list[str], said: str) -> None:
    why = cannot_be_left(without, dict.fromkeys("abc"), "abcd")
    assert why.startswith(said)
    assert bool(why) == bool(said)
