"""A reply waits for its own group's records, and for nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from failover.partitions.gate import CommitGate
from protocol.groups.effects import Reply


def reply(ticket: int, group: str | None = None) -> Reply:
    message: Any = f"answer {ticket}"
    return Reply(ticket, message, group)


def tickets(replies: list[Reply]) -> list[int]:
    return [each.ticket for each in replies]


def test_a_reply_that_waits_for_nothing_passes() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    assert gate.pass_or_hold(reply(1), ()) == reply(1)


def test_a_reply_waits_for_the_last_record_of_its_group() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    gate.wrote(9, ["a", "b"])
    assert gate.pass_or_hold(reply(1, "a"), ("a",)) is None
    assert gate.release(8) == []
    assert tickets(gate.release(9)) == [1]
    assert len(gate) == 0


def test_another_groups_bulk_delays_nobody() -> None:
    gate = CommitGate()
    gate.wrote(5, ["small"])
    assert gate.pass_or_hold(reply(1, "small"), ("small",)) is None
    gate.wrote(50_000, ["bulk"])
    assert gate.pass_or_hold(reply(2, "other"), ("other",)) == reply(2, "other")
    assert tickets(gate.release(5)) == [1]


def test_a_read_of_a_group_with_nothing_under_way_passes_after_the_commit() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    assert gate.release(5) == []
    assert gate.pass_or_hold(reply(1, "a"), ("a",)) == reply(1, "a")


def test_a_reply_about_several_groups_waits_for_the_latest_of_them() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    gate.wrote(9, ["b"])
    gate.wrote(20, ["c"])
    assert gate.pass_or_hold(reply(1), ("a", "b", "quiet")) is None
    assert gate.release(8) == []
    assert tickets(gate.release(9)) == [1]


def test_a_listing_waits_for_everything_written_so_far() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    gate.wrote(9, ["b"])
    assert gate.pass_or_hold(reply(1), None) is None
    gate.wrote(30, ["c"])
    assert gate.release(8) == []
    assert tickets(gate.release(9)) == [1]


def test_replies_leave_in_the_order_of_the_log() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    gate.wrote(9, ["b"])
    for ticket, group in ((1, "b"), (2, "a"), (3, "b")):
        gate.pass_or_hold(reply(ticket, group), (group,))
    assert tickets(gate.release(9)) == [2, 1, 3]


def test_a_new_leader_lets_nothing_out_before_its_first_record_is_committed() -> None:
    gate = CommitGate()
    gate.raise_floor(7)
    assert gate.pass_or_hold(reply(1, "a"), ("a",)) is None
    assert tickets(gate.release(7)) == [1]
    assert gate.pass_or_hold(reply(2, "a"), ("a",)) == reply(2, "a")


def test_a_leader_that_gives_up_answers_every_waiting_ticket_otherwise() -> None:
    gate = CommitGate()
    gate.wrote(5, ["a"])
    gate.pass_or_hold(reply(1, "a"), ("a",))
    assert tickets(gate.clear()) == [1]
    assert gate.release(5) == []
    assert gate.pass_or_hold(reply(2, "a"), ("a",)) == reply(2, "a")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.sets(st.sampled_from("abc"), min_size=1)),
            st.tuples(st.just("ask"), st.sampled_from("abcd")),
            st.tuples(st.just("commit"), st.integers(0, 40)),
        )
    )
)
def test_each_reply_leaves_once_when_its_groups_last_record_is_committed(
    steps: list[tuple[str, Any]],
) -> None:
    gate, end, committed, last, needs, left = CommitGate(), 0, 0, dict[str, int](), {}, []
    for ticket, (step, what) in enumerate(steps):
        if step == "write":
            end += len(what)
            gate.wrote(end, sorted(what))
            last |= dict.fromkeys(what, end)
        elif step == "ask":
            needs[ticket] = last.get(what, 0)
            if gate.pass_or_hold(reply(ticket, what), (what,)):
                left.append(ticket)
        else:
            committed = max(committed, min(what, end))
            left += tickets(gate.release(committed))
        if committed not in {0, *last.values()}:
            continue  # commits move by whole batches; the next one catches up
        assert all(needs[gone] <= committed for gone in left)
    left += tickets(gate.release(end))
    assert sorted(left) == sorted(needs)
