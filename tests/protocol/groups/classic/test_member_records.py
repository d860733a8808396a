"""The parts of a group's record are in the order that a dict would have."""

import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.groups.classic import member_records
from protocol.groups.classic.member_records import SMALL, MemberParts, MemberRecords

MEMBERS = st.sampled_from("abcdef")
STEPS = st.lists(st.tuples(st.sampled_from(["set", "discard", "clear"]), MEMBERS), max_size=60)


@pytest.fixture(params=[(64, 256), (2, 3), (1, 0)], ids=str)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of blocks, and of small records."""
    monkeypatch.setattr(member_records, "BLOCK", request.param[0])
    monkeypatch.setattr(member_records, "SMALL", request.param[1])


@pytest.mark.usefixtures("sizes")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_records_are_in_the_order_of_a_dict(steps: list[tuple[str, str]]) -> None:
    before: list[tuple[Any, Any]] = []
    records, expected = MemberRecords(), {}
    for number, (what, member_id) in enumerate(steps):
        part: Any = (member_id, number)
        if what == "set":
            records[member_id] = expected[member_id] = part
        elif what == "discard":
            records.discard(member_id)
            expected.pop(member_id, None)
        else:
            records.clear()
            expected.clear()
        assert records.parts() == tuple(expected.values())
        before.append((records.parts(), tuple(expected.values())))
        assert list(records) == list(expected)
    for parts, then in before:
        assert parts == then, "a record does not change"
        assert len(parts) == len(then)


def test_many_parts_are_as_good_as_a_tuple() -> None:
    records = MemberRecords()
    for number in range(SMALL):
        part: Any = f"part {number}"
        records[f"member {number}"] = part
    parts, whole = records.parts(), tuple(f"part {number}" for number in range(SMALL))
    assert isinstance(parts, MemberParts)
    assert parts == whole
    assert whole == parts
    assert parts != whole[1:]
    assert hash(parts) == hash(whole)
    assert parts[:-3:-1] == whole[:-3:-1]
    assert (parts[7], parts.index(part), repr(parts)) == (whole[7], SMALL - 1, repr(whole))
    assert pickle.loads(pickle.dumps(parts)) == whole


def test_a_member_that_comes_back_costs_one_block() -> None:
    records = MemberRecords()
    for number in range(SMALL):
        part: Any = f"part {number}"
        records[f"member {number}"] = part
    before: Any = records.parts()
    records.discard("member 9")
    records["member 9 again"] = part
    after: Any = records.parts()
    shared = {id(block) for block in before._blocks} & {id(block) for block in after._blocks}
    assert len(shared) == SMALL // member_records.BLOCK - 1
