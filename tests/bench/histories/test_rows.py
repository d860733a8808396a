"""Members' histories become rows: what a member owned, gave up, and when its life ended."""

from bench.histories.rows import HistoryLife, life_rows, mark_row
from bench.histories.schema import ENDED, FAULT, FINAL, STARTED
from protocol.members.history import MemberHistoryEvent
from protocol.members.history import MemberHistoryKind as Kind

OWNED = (("t", 0), ("t", 1))


def event(kind, time_ms, partitions=OWNED, **more):
    return MemberHistoryEvent(
        time_ms=time_ms, kind=kind, member_id="id", instance_id=None, generation=3,
        partitions=partitions, asked_ms=time_ms - 1, **more,
    )  # fmt: skip


def rows(*events, **about):
    life = HistoryLife(group_id="g", protocol="classic", member="m", events=events, **about)
    return list(life_rows(life))


def test_a_life_is_in_order_from_its_start_to_what_it_holds_in_the_end():
    found = rows(
        event(Kind.JOINED, 5, ()), event(Kind.ASSIGNED, 7), event(Kind.HEARTBEAT, 9),
        started_ms=4, seen_ms=20, holds=OWNED, generation=3, session_timeout_ms=900,
    )  # fmt: skip
    assert [row.kind for row in found] == [STARTED, "joined", "assigned", "heartbeat", FINAL]
    assert [row.sequence for row in found] == [0, 1, 2, 3, 4]
    assert [row.owned for row in found] == [None, None, ["t-0", "t-1"], None, ["t-0", "t-1"]]
    assert [row.asked_ms for row in found] == [None, 4, 6, 8, None]
    assert found[0].session_timeout_ms == 900
    assert found[2].assigned == ["t-0", "t-1"]


def test_what_a_member_no_longer_owns_is_revoked():
    found = rows(event(Kind.ASSIGNED, 1), event(Kind.ASSIGNED, 2, OWNED[:1]))
    assert (found[1].owned, found[1].revoked) == (["t-0"], ["t-1"])


def test_a_member_that_is_lost_owns_nothing():
    for kind in (Kind.LOST, Kind.FAILED, Kind.LEFT):
        found = rows(event(Kind.ASSIGNED, 1), event(kind, 2))
        assert (found[1].owned, found[1].revoked) == ([], ["t-0", "t-1"])


def test_a_member_that_must_join_again_has_what_its_next_event_shows():
    eager = rows(event(Kind.ASSIGNED, 1), event(Kind.REBALANCING, 2), event(Kind.JOINED, 3, ()))
    assert (eager[1].owned, eager[1].revoked) == ([], ["t-0", "t-1"])
    keeps = rows(event(Kind.ASSIGNED, 1), event(Kind.REBALANCING, 2), event(Kind.JOINED, 3))
    assert (keeps[1].owned, keeps[1].revoked) == (None, None)


def test_a_life_that_the_run_ended_owns_nothing_after_its_last_event():
    found = rows(event(Kind.ASSIGNED, 1), ended_ms=6)
    assert [(row.kind, row.time_ms) for row in found] == [("assigned", 1), (ENDED, 6)]
    assert (found[1].owned, found[1].revoked) == ([], ["t-0", "t-1"])


def test_a_life_that_was_told_to_stop_may_still_leave():
    found = rows(event(Kind.ASSIGNED, 1), event(Kind.LEFT, 8), ended_ms=6)
    assert [row.kind for row in found] == ["assigned", ENDED, "left"]
    assert [row.owned for row in found] == [["t-0", "t-1"], None, []]


def test_commits_have_their_offsets_by_partition():
    (found,) = rows(event(Kind.COMMITTED, 1, (), offsets=(("t", 0, 7),)))
    assert found.offsets == {"t-0": 7}


def test_a_fault_is_about_all_groups_unless_it_names_one():
    assert mark_row(FAULT, 3, "a kill").group_id is None
    assert mark_row(FAULT, 3, "a kill", "g").group_id == "g"
