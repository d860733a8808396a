"""Every request in every state with every combination of ids: the whole table of answers.

The group has a static member S (instance ``s``, the leader) and a dynamic member D. The states are
those of ``states.py``, and a group that does not exist; the ids are KIP-345's six cases and the
mismatches between them.
"""

from __future__ import annotations

from typing import Any

import pytest

from protocol.groups.classic.group_type import CLASSIC
from protocol.groups.effects import ClientInfo, Request
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import MemberIdentity, OffsetCommitRequest
from tests.protocol.groups.classic.classic_talk import ClassicTalk, stable
from tests.protocol.groups.conversation import GROUP

STATES = ("no group", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")

NONE, UNKNOWN, FENCED = "none", "unknown_member_id", "fenced_instance_id"
REBALANCE, REQUIRED, PARKED = "rebalance_in_progress", "member_id_required", "parked"

IDS: dict[str, tuple[str, str | None]] = {
    "D's id": ("D", None),
    "S's id and instance": ("S", "s"),
    "S's id alone": ("S", None),
    "a stranger's id": ("nobody", None),
    "no ids": ("", None),
    "S's instance alone": ("", "s"),
    "a new instance alone": ("", "n"),
    "D's id, S's instance": ("D", "s"),
    "a stranger's id, S's instance": ("nobody", "s"),
    "D's id, a new instance": ("D", "n"),
}

NOT_THERE = (UNKNOWN, UNKNOWN)

TABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "join": {
        "D's id": (*NOT_THERE, PARKED, NONE, NONE),
        "S's id and instance": (*NOT_THERE, PARKED, NONE, PARKED),
        "S's id alone": (*NOT_THERE, PARKED, NONE, PARKED),
        "a stranger's id": (UNKNOWN,) * 5,
        "no ids": (REQUIRED,) * 5,
        "S's instance alone": (PARKED, PARKED, PARKED, PARKED, NONE),
        "a new instance alone": (PARKED,) * 5,
        "D's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a stranger's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "D's id, a new instance": (UNKNOWN,) * 5,
    },
    "sync": {
        "D's id": (*NOT_THERE, REBALANCE, PARKED, NONE),
        "S's id and instance": (*NOT_THERE, REBALANCE, NONE, NONE),
        "S's id alone": (*NOT_THERE, REBALANCE, NONE, NONE),
        "a stranger's id": (UNKNOWN,) * 5,
        "no ids": (UNKNOWN,) * 5,
        "S's instance alone": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a new instance alone": (UNKNOWN,) * 5,
        "D's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a stranger's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "D's id, a new instance": (UNKNOWN,) * 5,
    },
    "heartbeat": {
        "D's id": (*NOT_THERE, REBALANCE, NONE, NONE),
        "S's id and instance": (*NOT_THERE, REBALANCE, NONE, NONE),
        "S's id alone": (*NOT_THERE, REBALANCE, NONE, NONE),
        "a stranger's id": (UNKNOWN,) * 5,
        "no ids": (UNKNOWN,) * 5,
        "S's instance alone": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a new instance alone": (UNKNOWN,) * 5,
        "D's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a stranger's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "D's id, a new instance": (UNKNOWN,) * 5,
    },
    "leave": {
        "D's id": (*NOT_THERE, NONE, NONE, NONE),
        "S's id and instance": (*NOT_THERE, NONE, NONE, NONE),
        "S's id alone": (*NOT_THERE, NONE, NONE, NONE),
        "a stranger's id": (UNKNOWN,) * 5,
        "no ids": (UNKNOWN,) * 5,
        "S's instance alone": (*NOT_THERE, NONE, NONE, NONE),
        "a new instance alone": (UNKNOWN,) * 5,
        "D's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "a stranger's id, S's instance": (*NOT_THERE, FENCED, FENCED, FENCED),
        "D's id, a new instance": (UNKNOWN,) * 5,
    },
    "commit": {
        "D's id": ("group_id_not_found", UNKNOWN, NONE, REBALANCE, NONE),
        "S's id and instance": ("group_id_not_found", UNKNOWN, NONE, REBALANCE, NONE),
        "S's id alone": ("group_id_not_found", UNKNOWN, NONE, REBALANCE, NONE),
        "a stranger's id": ("group_id_not_found", *(UNKNOWN,) * 4),
        "no ids": ("group_id_not_found", *(UNKNOWN,) * 4),
        "S's instance alone": ("group_id_not_found", UNKNOWN, FENCED, FENCED, FENCED),
        "a new instance alone": ("group_id_not_found", *(UNKNOWN,) * 4),
        "D's id, S's instance": ("group_id_not_found", UNKNOWN, FENCED, FENCED, FENCED),
        "a stranger's id, S's instance": ("group_id_not_found", UNKNOWN, FENCED, FENCED, FENCED),
        "D's id, a new instance": ("group_id_not_found", *(UNKNOWN,) * 4),
    },
}

ROWS = [
    pytest.param(request, ids, state, expected, id=f"{request}, {ids}, {state}")
    for request, rows in TABLE.items()
    for ids, row in rows.items()
    for state, expected in zip(STATES, row, strict=True)
]


def group_in(state: str) -> ClassicTalk:
    """Bring the group of S and D to a state."""
    if state == "no group":
        talk = ClassicTalk()
        talk.client("S").member_id, talk.client("D").member_id = "s-1", "D-1"
        talk.client("S").generation = talk.client("D").generation = 1
        return talk
    if state == "CompletingRebalance":
        talk = ClassicTalk()
        talk.join("S", instance="s")
        talk.enter("D")
        talk.advance(6_000)
    else:
        talk = stable("S=s", "D")
    if state == "Empty":
        for name in ("S", "D"):
            member_id = talk.id(name)
            talk.leave(name)
            talk.client(name).member_id = member_id
    if state == "PreparingRebalance":
        talk.join("T", instance="t")
    assert talk.state == state
    return talk


def send(talk: ClassicTalk, request: str, ids: tuple[str, str | None]) -> str:
    """Send the request with these ids; the name of the answer's error, or ``parked``."""
    name, instance = ids
    member_id = talk.id(name) if name in ("S", "D") else name
    return SENDERS[request](talk, member_id, instance)


def join(talk: ClassicTalk, member_id: str, instance: str | None) -> str:
    owner = "S" if instance == "s" or member_id == talk.id("S") else "D"
    metadata = ("range", f"{owner}/range".encode())
    return outcome(talk.join("X", member_id=member_id, instance=instance, protocols=[metadata]))


def sync(talk: ClassicTalk, member_id: str, instance: str | None) -> str:
    generation = talk.client("D").generation
    return outcome(talk.sync("X", generation=generation, member_id=member_id, instance=instance))


def heartbeat(talk: ClassicTalk, member_id: str, instance: str | None) -> str:
    generation = talk.client("D").generation
    code = talk.heartbeat("X", generation=generation, member_id=member_id, instance=instance)
    return code.name


def leave(talk: ClassicTalk, member_id: str, instance: str | None) -> str:
    answer = talk.remove(MemberIdentity(member_id=member_id, group_instance_id=instance))
    assert answer.error_code is ErrorCode.none
    return ErrorCode(answer.members[0].error_code).name


def commit(
    talk: ClassicTalk, member_id: str, instance: str | None, generation: int = 1, version: int = 9
) -> str:
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=(),
    )
    request = Request(
        ticket=0, api_key=8, api_version=version, client=ClientInfo("X", "/"), message=message
    )
    try:
        CLASSIC.offsets.check_commit(talk.context, request, talk.now)
    except KafkaError as error:
        return error.code.name
    return NONE


SENDERS = {"join": join, "sync": sync, "heartbeat": heartbeat, "leave": leave, "commit": commit}


def outcome(answer: Any) -> str:
    return PARKED if answer is None else ErrorCode(answer.error_code).name


@pytest.mark.parametrize(("request_name", "ids", "state", "expected"), ROWS)
def test_the_answer_is_the_tables(request_name: str, ids: str, state: str, expected: str) -> None:
    assert send(group_in(state), request_name, IDS[ids]) == expected


def test_the_table_has_every_combination() -> None:
    assert all(list(rows) == list(IDS) for rows in TABLE.values())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", [0, 3])
def test_before_join_group_4_no_member_id_is_required(state: str, version: int) -> None:
    """KIP-394: older clients cannot come back with an id."""
    assert group_in(state).join("X", version=version) is None


@pytest.mark.parametrize("version", [4, 9])
def test_since_join_group_4_a_member_id_is_required(version: int) -> None:
    """KIP-394."""
    answer = ClassicTalk().join("X", version=version)
    assert answer.error_code is ErrorCode.member_id_required


@pytest.mark.parametrize("state", STATES[2:])
@pytest.mark.parametrize("drift", [-2, 1])
@pytest.mark.parametrize("request_name", ["sync", "heartbeat", "commit"])
def test_another_generation_is_illegal(state: str, drift: int, request_name: str) -> None:
    talk = group_in(state)
    talk.client("D").generation += drift
    generation = talk.client("D").generation
    if request_name == "commit":
        answer = commit(talk, talk.id("D"), None, generation)
    else:
        answer = SENDERS[request_name](talk, talk.id("D"), None)
    # Below zero a commit is no member's, yet it names one: it is held to the same generation.
    assert answer == "illegal_generation"


@pytest.mark.parametrize(
    ("state", "expected"),
    [("no group", NONE), ("Empty", NONE), *((state, UNKNOWN) for state in STATES[2:])],
)
def test_a_commit_without_a_member_is_taken_while_nobody_is_there(
    state: str, expected: str
) -> None:
    """Simple consumers and administrators commit with generation -1."""
    assert commit(group_in(state), "", None, -1) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [(8, "illegal_generation"), (9, "group_id_not_found")]
)
def test_a_members_commit_to_no_group(version: int, expected: str) -> None:
    assert commit(group_in("no group"), "D-1", None, 1, version) == expected


@pytest.mark.parametrize("request_name", list(TABLE))
@pytest.mark.parametrize("ids", list(IDS))
@pytest.mark.parametrize("state", STATES)
def test_no_answer_writes_unless_it_changes_what_is_settled(
    request_name: str, ids: str, state: str
) -> None:
    """An error leaves no trace in the log."""
    talk = group_in(state)
    before = len(talk.records)
    answer = send(talk, request_name, IDS[ids])
    if answer not in (NONE, PARKED, REQUIRED):
        assert len(talk.records) == before
