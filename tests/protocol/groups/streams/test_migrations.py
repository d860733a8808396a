"""Plans of steps towards a target: a table of cases, and what holds of every plan."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.streams.task_numbers import TASK_MASK
from protocol.groups.streams.warming.migrations import Plan, plan
from protocol.groups.streams.warming.task_index import (
    NO_LAGS,
    STANDBY,
    WARMUP,
    PlannedMember,
    TaskIndex,
)
from protocol.groups.topic_numbers import TOPIC_SHIFT

LAG = 10
STATEFUL = frozenset({0})
STATELESS = 1 << TOPIC_SHIFT
ROLES = {"": 0, "s": STANDBY, "w": WARMUP}


def places(text: str) -> frozenset[int]:
    """Read places: ``3`` an active task, ``s3`` a standby, ``w3`` a warm-up, ``x3`` stateless."""
    found = set()
    for each in text.split():
        role, index = each.rstrip("0123456789"), int(each.lstrip("swx"))
        found.add(STATELESS | index if role == "x" else ROLES[role] | index)
    return frozenset(found)


def written(found: frozenset[int] | set[int]) -> str:
    """Write places as ``places`` reads them."""
    names = {0: "", STANDBY: "s", WARMUP: "w"}
    return " ".join(
        f"{'x' if place & STATELESS else names[place & ~TASK_MASK]}{place & 0xFFFF}"
        for place in sorted(found)
    )


def member(
    name: str,
    assigned: str,
    target: str,
    lags: Mapping[int, int | None] | None = None,
    revoking: str = "",
    *,
    reports: bool = True,
) -> PlannedMember:
    """Make a member; its process is the first letter of its name."""
    has = dict.fromkeys(places(assigned), 1)
    return PlannedMember(
        name, name[0], places(target), has, places(revoking), lags or NO_LAGS, reports
    )


def planned(members: Mapping[str, PlannedMember], replicas: int) -> Plan:
    """Plan a step of a group."""
    index = TaskIndex()
    for each in members.values():
        index.put(each, STATEFUL)
    return plan(5, index, replicas, LAG)


def step(*members: PlannedMember, replicas: int = 2) -> dict[str, str]:
    """Return what each member gets."""
    named = {each.member_id: each for each in members}
    made = planned(named, replicas)
    return {name: written(set(made.applied(name, each.target))) for name, each in named.items()}


Case = tuple[str, Sequence[PlannedMember], dict[str, str]]
CASES: Sequence[Case] = [
    ("nothing moves", [member("a", "0", "0"), member("b", "1", "1")], {"a": "0", "b": "1"}),
    ("nobody has it yet", [member("a", "", "0")], {"a": "0"}),
    ("it has no state", [member("a", "x0", ""), member("b", "", "x0")], {"a": "", "b": "x0"}),
    ("it warms up", [member("a", "0 1", "0"), member("b", "", "1")], {"a": "0 1", "b": "w1"}),
    (
        "it has not caught up",
        [member("a", "0 1", "0"), member("b", "w1", "1", {1: 11})],
        {"a": "0 1", "b": "w1"},
    ),
    (
        "it does not say where the task ends",
        [member("a", "0 1", "0"), member("b", "w1", "1", {1: None})],
        {"a": "0 1", "b": "w1"},
    ),
    (
        "it has caught up",
        [member("a", "0 1", "0"), member("b", "w1", "1", {1: 10})],
        {"a": "0", "b": "1"},
    ),
    (
        "another member of the process has it",
        [member("a1", "0 1", "0"), member("a2", "", "1")],
        {"a1": "0", "a2": "1"},
    ),
    (
        "another member of the process has caught up",
        [member("a", "0", ""), member("b1", "s0", "", {0: 0}), member("b2", "", "0")],
        {"a": "", "b1": "", "b2": "0"},
    ),
    (
        "a standby warms up, and costs no replica",
        [member("a", "0 1 2", ""), member("b", "s0", "0 1 2")],
        {"a": "0 1 2", "b": "s0 w1 w2"},
    ),
    (
        "another standby comes later, as one is used",
        [member("a", "0", ""), member("b", "s0", "0"), member("c", "", "s0")],
        {"a": "0", "b": "s0", "c": ""},
    ),
    (
        "no standby beside the task that stays",
        [member("a", "0", "s0"), member("b", "", "0")],
        {"a": "0", "b": "w0"},
    ),
    (
        "a standby of the process moves to the new owner",
        [member("a", "0", ""), member("b1", "s0", ""), member("b2", "", "0")],
        {"a": "0", "b1": "", "b2": "w0"},
    ),
    (
        "not more than the replicas; the process with most room first",
        [member("a", "0 1 2", ""), member("b", "x0 x1", "0 1 x0 x1"), member("c", "", "2")],
        {"a": "0 1 2", "b": "w0 x0 x1", "c": "w2"},
    ),
    (
        "what has begun goes on",
        [
            member("a", "0 1 2", ""),
            member("b", "w2 w1 x0 x1", "1 2 x0 x1", {1: 90, 2: 80}),
            member("c", "", "0"),
        ],
        {"a": "0 1 2", "b": "x0 x1 w1 w2", "c": ""},
    ),
    (
        "the holder is gone: a copy that has caught up runs it",
        [member("b", "s0", "", {0: 3}), member("c", "", "0 s1")],
        {"b": "0", "c": "s1 w0"},
    ),
    (
        "the holder is gone, and no copy has caught up",
        [member("b", "s0", "", {0: 30}), member("c", "", "0")],
        {"b": "", "c": "0"},
    ),
    (
        "the holder itself restores it",
        [member("a", "0", "", {0: 50}), member("b", "", "0")],
        {"a": "", "b": "0"},
    ),
    (
        "the owner's disk has it, and nobody runs it",
        [member("a", "", "0", {0: None}), member("b", "s0", "s0", {0: 0})],
        {"a": "0", "b": "s0"},
    ),
    (
        "the owner is giving it up and gets it back",
        [member("a", "", "0", None, "0"), member("b", "s0", "s0", {0: 0})],
        {"a": "0", "b": "s0"},
    ),
    (
        "the owner cannot report offsets",
        [member("a", "0", ""), member("b", "", "0", reports=False)],
        {"a": "", "b": "0"},
    ),
    (
        "a warm-up for an owner that is none any more",
        [member("a", "0", ""), member("b", "w0", "", {0: 5}), member("c", "", "0")],
        {"a": "0", "b": "", "c": "w0"},
    ),
]


@pytest.mark.parametrize(("members", "expected"), [each[1:] for each in CASES],
                         ids=[each[0] for each in CASES])  # fmt: skip
def test_a_step(members: Sequence[PlannedMember], expected: dict[str, str]) -> None:
    got = step(*members)
    assert {name: set(text.split()) for name, text in got.items()} == {
        name: set(text.split()) for name, text in expected.items()
    }
    assert step(*reversed(members)) == got


def test_without_replicas_every_task_moves_at_once() -> None:
    members = [member("a", "0 1", "0"), member("b", "", "1")]
    assert step(*members, replicas=0) == {"a": "0", "b": "1"}


# --- what holds of every plan

TASKS, MEMBERS = 5, ("a1", "a2", "b1", "c1")


@st.composite
def _groups(draw: st.DrawFn) -> list[PlannedMember]:
    """Draw members with a valid assignment, a valid target, and lags of what they have."""

    def layout() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {name: set() for name in MEMBERS}
        for task in range(TASKS):
            order = draw(st.permutations(MEMBERS))
            used: set[str] = set()
            for role, name in zip((0, STANDBY, WARMUP), order, strict=False):
                if name[0] not in used and draw(st.booleans() if role else st.just(True)):
                    used.add(name[0])
                    found[name].add(role | task)
        return found

    assigned, target = layout(), layout()
    if draw(st.booleans()):
        assigned["c1"].clear()  # it has just joined
    some_lag = st.sampled_from([None, 0, LAG, LAG + 1, 1000])
    members = []
    for name in MEMBERS:
        copies = [place for place in assigned[name] if place >> ROLE_SHIFT]
        lags = {place & TASK_MASK: draw(some_lag) for place in sorted(copies)}
        final = frozenset(place for place in target[name] if not place & WARMUP)
        has = dict.fromkeys(assigned[name], 1)
        members.append(PlannedMember(name, name[0], final, has, lags=lags))
    return members


@settings(deadline=None, max_examples=150)
@given(_groups(), st.integers(1, 3))
def test_every_plan_is_bounded_and_keeps_tasks_with_their_state(
    members: list[PlannedMember], replicas: int
) -> None:
    named = {each.member_id: each for each in members}
    made = planned(named, replicas)
    after = {name: made.applied(name, each.target) for name, each in named.items()}
    held = Counter((name[0], place & TASK_MASK) for name in named for place in after[name])
    assert max(held.values()) == 1, "no process has two roles for a task"
    active = Counter(place for each in after.values() for place in each if not place >> ROLE_SHIFT)
    assert active == dict.fromkeys(range(TASKS), 1), "each task is run once"
    warm = [place for each in after.values() for place in each if place & WARMUP]
    assert len(warm) <= replicas
    for task in range(TASKS):
        ready = {
            each.process_id
            for each in members
            if task in each.assigned or ((lag := each.lags.get(task)) is not None and lag <= LAG)
        }
        runs = next(name[0] for name in after if task in after[name])
        assert runs in ready or not ready, "a caught-up owner is used if there is one"


@settings(deadline=None, max_examples=60)
@given(_groups(), st.integers(1, 3))
def test_steps_end_at_the_target(members: list[PlannedMember], replicas: int) -> None:
    """Each round, what was awaited has caught up."""
    named = {each.member_id: each for each in members}
    for _ in range(TASKS + 2):
        made = planned(named, replicas)
        after = {name: made.applied(name, each.target) for name, each in named.items()}
        if all(after[name] == each.target for name, each in named.items()):
            break
        named = {
            name: replace(
                each,
                assigned=dict.fromkeys(after[name], 1),
                lags=dict.fromkeys(made.awaited.get(name, ()), 0),
            )
            for name, each in named.items()
        }
    assert all(after[name] == each.target for name, each in named.items())


def test_a_static_member_takes_its_predecessors_place() -> None:
    named = {each.member_id: each for each in (member("a", "0", ""), member("b", "", "0"))}
    made = planned(named, 2)
    made.rename("b", "c")
    assert written(set(made.applied("c", places("0")))) == "w0"
    assert made.awaited == {"c": {0}}
    assert TaskRole.WARMUP == WARMUP >> ROLE_SHIFT
