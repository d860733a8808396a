"""A heartbeat's answer is repeated only while nothing that it says has changed."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from actors.serving.memo import Memo
from protocol.groups.effects import HeartbeatLease, LeaderLease
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    decode_response,
    encode_request,
    encode_response,
    without_correlation_id,
)
from protocol.wire.messages import NO_THROTTLE, HeartbeatRequest, HeartbeatResponse

HEARTBEAT = 12


@dataclass
class Group:
    stamp: int = 7


@dataclass
class Member:
    session_timeout_ms: int = 10_000
    session_deadline_ms: int = 0


def frame(correlation_id: int = 1, member_id: str = "m", version: int = 4) -> bytes:
    request = HeartbeatRequest(
        group_id="g", generation_id=1, member_id=member_id, group_instance_id=None
    )
    return encode_request(HEARTBEAT, version, correlation_id, "client", request)[4:]


def answer(correlation_id: int = 1, version: int = 4) -> bytes:
    response = HeartbeatResponse(error_code=ErrorCode.none, throttle_time=NO_THROTTLE)
    return encode_response(HEARTBEAT, version, correlation_id, response)


def remembered(group: Group, member: Member, memo: Memo) -> bytes:
    key = without_correlation_id(frame())
    memo.remember(key, HeartbeatLease(group, group.stamp, member), answer())
    return key


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 4))
def test_a_hit_is_the_answer_that_would_have_been_written(
    correlation_id: int, version: int
) -> None:
    memo, asked = Memo(), frame(correlation_id, version=version)
    key = without_correlation_id(asked)
    memo.remember(key, HeartbeatLease(Group(), 7, Member()), answer(1, version))
    said = memo.recall(key, asked, lambda: 0)
    assert said == answer(correlation_id, version)
    assert decode_response(HEARTBEAT, version, said[4:])[0] == correlation_id


def test_a_hit_moves_the_session_deadline() -> None:
    memo, member = Memo(), Member()
    key = remembered(Group(), member, memo)
    memo.recall(key, frame(2), lambda: 50_000)
    assert member.session_deadline_ms == 60_000


def test_a_changed_group_is_asked_again_and_its_answer_forgotten() -> None:
    memo, group, member = Memo(), Group(), Member()
    key = remembered(group, member, memo)
    group.stamp += 1
    assert memo.recall(key, frame(2), lambda: 50_000) is None
    assert member.session_deadline_ms == 0
    assert len(memo) == 0


def test_an_answer_whose_group_has_changed_on_its_way_is_not_remembered() -> None:
    memo, group = Memo(), Group()
    lease = HeartbeatLease(group, group.stamp, Member())
    group.stamp += 1
    memo.remember(without_correlation_id(frame()), lease, answer())
    assert len(memo) == 0


def test_another_members_heartbeat_is_no_hit() -> None:
    memo = Memo()
    remembered(Group(), Member(), memo)
    other = frame(1, "n")
    assert memo.recall(without_correlation_id(other), other, lambda: 0) is None


def test_the_memo_is_bounded_and_the_oldest_goes_first() -> None:
    memo = Memo(entries_max=3)
    frames = [frame(1, f"m{n}") for n in range(5)]
    for one in frames:
        memo.remember(without_correlation_id(one), HeartbeatLease(Group(), 7, Member()), answer())
    assert len(memo) == 3
    found = [memo.recall(without_correlation_id(one), one, lambda: 0) for one in frames]
    assert [said is not None for said in found] == [False, False, True, True, True]


def test_a_leader_whose_lease_is_out_repeats_nothing_until_it_is_renewed() -> None:
    memo, member, leadership = Memo(), Member(), LeaderLease(50_000)
    key = without_correlation_id(frame())
    memo.remember(key, HeartbeatLease(Group(), 7, member, leadership), answer())
    assert memo.recall(key, frame(2), lambda: 50_000) is None
    assert member.session_deadline_ms == 0
    leadership.lease_until_ms = 50_100
    assert memo.recall(key, frame(2), lambda: 50_000) == answer(2)
