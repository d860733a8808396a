"""The causes of rebalances, inferred from histories that are written here by hand."""

import pytest

from bench.scenarios.inference import InferredCause, caused_generations, inferred_causes
from bench.scenarios.plan import Life
from bench.scenarios.record import LifeRecord
from failover.drills.verdict import MemberTimeline
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind

A, J, H, L, LOST = (
    MemberHistoryKind.ASSIGNED,
    MemberHistoryKind.JOINED,
    MemberHistoryKind.HEARTBEAT,
    MemberHistoryKind.LEFT,
    MemberHistoryKind.LOST,
)
CHANGED_MS = 100
T0, T1 = ("t", 0), ("t", 1)


def life(
    name, number, *events, started=0, ended=None, static=False, subscribed=(), cooperative=False
):
    timeline = MemberTimeline(
        group_id="a", name=name, is_static=static, is_cooperative=cooperative,
        events=[
            MemberHistoryEvent(
                time_ms=time_ms, kind=kind, member_id="m", instance_id=None,
                generation=generation, error="unknown_member_id" if kind is LOST else None,
                partitions=tuple(partitions),
            )
            for time_ms, kind, generation, *partitions in events
        ],
    )  # fmt: skip
    return LifeRecord(Life("a", name, number), started, ended, timeline, subscribed)


def stays(name, number, *generations, **more):
    """Return a life that was told these generations, each 10 ms after its hundred."""
    told = [(10, A, 1), *((each * 100 + 10, A, each) for each in generations)]
    return life(name, number, *told, **more)


CASES = {
    "nothing happens": ([stays("x", 1)], {}),
    "a member joins": (
        [stays("x", 1, 2), life("y", 2, (205, J, 2), (210, A, 2), started=190)],
        {"joined": 1},
    ),
    "a member leaves": (
        [stays("x", 1, 3), life("y", 2, (10, A, 1), (250, L, -1), ended=250)],
        {"left": 1},
    ),
    "two leave, one by one": (
        [
            stays("x", 1, 2, 3),
            life("y", 2, (10, A, 1), (190, L, -1), ended=190),
            life("z", 3, (10, A, 1), (210, A, 2), (290, L, -1), ended=290),
        ],
        {"left": 2},
    ),
    "one leaves and another joins in the same rebalance: the first of them began it": (
        [
            stays("x", 1, 2),
            life("y", 2, (10, A, 1), (190, L, -1), ended=190),
            life("z", 3, (205, J, 2), (210, A, 2), started=195),
        ],
        {"left": 1},
    ),
    "a member that starts during a rebalance begins the next one": (
        [
            stays("x", 1, 2, 3),
            life("y", 2, (10, A, 1), (190, L, -1), ended=190),
            life("z", 3, (305, J, 3), (310, A, 3), started=209),
        ],
        {"joined": 1, "left": 1},
    ),
    "a member falls silent: its session ends later": (
        [stays("x", 1, 9), life("y", 2, (10, A, 1), ended=150)],
        {"expired": 1},
    ),
    "a crashed dynamic member joins anew and its old session ends": (
        [
            stays("x", 1, 2, 9),
            life("y", 2, (10, A, 1), ended=150),
            life("y", 3, (205, J, 2), (210, A, 2), (910, A, 9), started=190),
        ],
        {"joined": 1, "expired": 1},
    ),
    "a static member restarts": (
        [
            stays("x", 1, static=True),
            life("y", 2, (10, A, 1), (150, L, -1), ended=150, static=True),
            life("y", 3, (205, J, 1), (210, A, 1), started=200, static=True),
        ],
        {},
    ),
    "a static member restarts too late": (
        [
            stays("x", 1, 4, 5, static=True),
            life("y", 2, (10, A, 1), (150, L, -1), ended=150, static=True),
            life("y", 3, (505, J, 5), (510, A, 5), started=500, static=True),
        ],
        {"expired": 1, "returned": 1},
    ),
    "a static member of a Deployment is gone, and its successor is another one": (
        [
            stays("x", 1, 2, 9, static=True),
            life("y", 2, (10, A, 1), (150, L, -1), ended=150, static=True),
            life("z", 3, (205, J, 2), (210, A, 2), (910, A, 9), started=190, static=True),
        ],
        {"joined": 1, "expired": 1},
    ),
    "a member pauses for longer than its session": (
        [
            stays("x", 1, 3, 5),
            life(
                "y", 2, (10, A, 1), (150, H, 1), (450, LOST, -1), (505, J, 5), (510, A, 5)
            ),
        ],
        {"joined": 1, "expired": 1},
    ),
    "a member of a modern group is told the epoch before its own, until the target is there": (
        [
            stays("x", 1, 3),
            life("y", 2, (10, A, 1), ended=120),
            life("y", 3, (195, J, 1), (195, A, 1), (210, A, 2), (310, A, 3), started=190),
        ],
        {"joined": 1, "expired": 1},
    ),
    "a subscription changes": ([stays("x", 1, 2, subscribed=(190,))], {"subscribed": 1}),
    "a member joins, and the others give partitions up for it": (
        [
            life(
                "x", 1, (10, A, 1, T0, T1), (205, J, 2, T0, T1), (210, A, 2, T0), (305, J, 3, T0),
                (310, A, 3, T0), cooperative=True,
            ),
            life(
                "y", 2, (205, J, 2), (210, A, 2), (305, J, 3), (310, A, 3, T1), started=190,
                cooperative=True,
            ),
        ],
        {"joined": 1, "revoked": 1},
    ),
    "another one joins while partitions are given up": (
        [
            life(
                "x", 1, (10, A, 1, T0, T1), (205, J, 2, T0, T1), (210, A, 2, T0), (305, J, 3, T0),
                (310, A, 3, T0), cooperative=True,
            ),
            stays("y", 2, 2, 3, started=190),
            life("z", 3, (305, J, 3), (310, A, 3), started=250),
        ],
        {"joined": 2},
    ),
    "nobody knows why": ([stays("x", 1, 2)], {"other": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_rebalance_has_the_cause_that_began_it(case):
    lives, causes = CASES[case]
    assert inferred_causes(lives, CHANGED_MS) == causes
    assert inferred_causes(lives[::-1], CHANGED_MS) == causes


def test_every_cause_is_found_in_some_case():
    assert {cause for _, causes in CASES.values() for cause in causes} == set(InferredCause)


def test_what_was_before_the_first_change_is_not_counted():
    assert inferred_causes(CASES["a member joins"][0], 300) == {}


KNOWN = {("a", None): 400}


def names(lives, sessions):
    """Return whom each generation is put down to."""
    return [
        [change.name for change in each.changes] for each in caused_generations(lives, sessions)
    ]


def test_the_silent_member_is_named_whose_session_ended_if_sessions_are_known():
    lives = [
        stays("x", 1, 6, 90),
        life("y", 2, (10, A, 1), ended=20),
        life("z", 3, (10, A, 1), (610, A, 6), (8550, H, 6), ended=8700),
        life("w", 4, (605, J, 6), (610, A, 6), (9010, A, 90), started=590),
    ]
    assert names(lives, {}) == [["x", "y", "z"], ["w"], ["y"]]
    assert names(lives, KNOWN) == [["x", "y", "z"], ["w", "y"], ["z"]]
    for sessions in ({}, KNOWN):
        assert inferred_causes(lives, CHANGED_MS, sessions) == {"joined": 1, "expired": 1}


def test_sessions_that_ended_together_are_named_together():
    lives = [
        stays("x", 1, 6),
        life("y", 2, (10, A, 1), (150, H, 1), ended=160),
        life("z", 3, (10, A, 1), (170, H, 1), ended=180),
    ]
    assert names(lives, KNOWN) == [["x", "y", "z"], ["y", "z"]]


def test_a_static_member_that_returns_in_its_session_has_not_expired():
    lives = [
        stays("x", 1, 2, 9, static=True),
        life("y", 2, (10, A, 1), (150, L, -1), ended=150, static=True),
        life("z", 3, (205, J, 2), (210, A, 2), (910, A, 9), started=190, static=True),
        life("y", 4, (305, J, 2), (310, A, 2), (910, A, 9), started=300, static=True),
    ]
    assert inferred_causes(lives, CHANGED_MS) == {"joined": 1, "expired": 1}
    assert inferred_causes(lives, CHANGED_MS, KNOWN) == {"joined": 1, "returned": 1}


def test_a_static_member_that_returns_after_its_session_had_expired():
    """Also if its group began no other generation, as all members of it were gone."""
    lives = [
        life("y", 1, (10, A, 1), (150, L, -1), ended=150, static=True),
        life("y", 2, (805, J, 1), (810, A, 2), started=800, static=True),
    ]
    assert inferred_causes(lives, CHANGED_MS) == {"other": 1}
    assert inferred_causes(lives, CHANGED_MS, KNOWN) == {"expired": 1}
