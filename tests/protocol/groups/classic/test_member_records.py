"""The parts of a group's record are in the order that a dict would have."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocol.groups.classic.member_records import MemberRecords

MEMBERS = st.sampled_from("abcdef")
STEPS = st.lists(st.tuples(st.sampled_from(["set", "discard", "clear"]), MEMBERS), max_size=60)


@given(STEPS)
def test_records_are_in_the_order_of_a_dict(steps: list[tuple[str, str]]) -> None:
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
        assert list(records) == list(expected)
