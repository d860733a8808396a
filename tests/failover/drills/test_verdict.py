"""The verdict of a drill: what members' histories and committed offsets give away."""

from dataclasses import replace

import pytest

from failover.drills.drill import named
from failover.drills.verdict import (
    SENTENCES_MAX,
    DrillRecord,
    Findings,
    MemberTimeline,
    VerdictRow,
    findings,
    judge,
    rebalances,
    unheard_ms,
    verdict_on,
)
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind

FAULT = 1_000


def event(time_ms, kind, **held):
    held = {"member_id": "m", "instance_id": None, "generation": 1, **held}
    return MemberHistoryEvent(time_ms=time_ms, kind=kind, **held)


def assigned(time_ms, index=0, **held):
    return event(time_ms, MemberHistoryKind.ASSIGNED, partitions=(("t", index),), **held)


def committed(time_ms, index=0):
    return event(time_ms, MemberHistoryKind.COMMITTED, offsets=(("t", index, time_ms),))


def beats(*times):
    return tuple(event(time_ms, MemberHistoryKind.HEARTBEAT) for time_ms in times)


def story(*events, name="a", is_static=False, seen_ms=None):
    return MemberTimeline(
        group_id="g", name=name, is_static=is_static, events=events, seen_ms=seen_ms
    )


def record(*stories, offsets=None, replicated_ms=500):
    return DrillRecord(
        stories=stories,
        committed={("g", "t", index): offset for index, offset in (offsets or {}).items()},
        fault_ms=FAULT,
        replicated_ms=replicated_ms,
    )


def verdict(*stories, **given):
    return judge(named("kill-leader"), record(*stories, **given))


def row(found, name):
    (row,) = (row for row in found.rows if row.name == name)
    return row


def test_members_that_noticed_nothing_are_clean():
    found = verdict(
        story(assigned(100), committed(900), *beats(900, 1_900), committed(1_900)),
        story(assigned(100, 1), *beats(900, 1_900), name="b", is_static=True),
        offsets={0: 1_900},
    )
    assert found.is_clean
    assert found.complaints == ()
    assert row(found, "acknowledged commits").value == 2
    assert found.text().splitlines()[-1] == "verdict: clean"


def test_two_owners_of_a_partition_in_one_generation_are_found_and_named():
    found = verdict(story(assigned(100)), story(assigned(100), name="b"))
    assert not found.is_clean
    assert row(found, "partitions with two owners").value == 1
    assert found.complaints == ("t-0 of g had 2 owners in generation 1: a, b",)


def test_an_owner_in_the_next_generation_is_no_second_owner():
    found = verdict(story(assigned(100)), story(assigned(200, generation=2), name="b"))
    assert row(found, "partitions with two owners").value == 0


@pytest.mark.parametrize("offsets", [{}, {0: 899}])
def test_an_acknowledged_commit_that_is_gone_is_a_lost_write(offsets):
    found = verdict(story(assigned(100), committed(900)), offsets=offsets)
    assert row(found, "lost writes").value == 1
    assert not found.is_clean


def test_a_commit_that_was_not_acknowledged_may_be_there_or_not():
    failed = event(950, MemberHistoryKind.COMMIT_FAILED, offsets=(("t", 0, 950),))
    for there in (900, 950):
        found = verdict(story(assigned(100), committed(900), failed), offsets={0: there})
        assert row(found, "lost writes").value == 0


def test_an_older_generation_after_a_newer_one_is_found_also_in_the_next_life():
    first, second = story(assigned(100, generation=5)), story(assigned(2_000, generation=4))
    assert row(verdict(first, second), "generations gone backward").value == 1


def test_a_static_member_that_gets_another_id_is_found_unless_it_restarted():
    before, after = assigned(100), assigned(2_000, member_id="n")
    name = "static members with a new id"
    assert row(verdict(story(before, after, is_static=True)), name).value == 1
    assert row(verdict(story(before, after)), name).value == 0
    two_lives = story(before, is_static=True), story(after, is_static=True)
    assert row(verdict(*two_lives), name).value == 0


def test_a_member_that_holds_nothing_in_the_end_is_found():
    found = verdict(story(assigned(100), seen_ms=3_000))
    assert row(found, "members without their share").value == 1


def test_a_rebalance_is_a_generation_that_was_not_there_before_the_fault():
    found = record(
        story(assigned(100), assigned(1_500), assigned(2_000, generation=2)),
        story(assigned(2_100, generation=2), name="b"),
        story(assigned(2_500, generation=3), name="c"),
    )
    assert rebalances(found) == {"g": 2}


def test_a_member_that_is_told_that_it_is_none_was_expelled():
    unknown = event(1_500, MemberHistoryKind.LOST, error="unknown_member_id")
    assert row(verdict(story(assigned(100), unknown)), "expelled members").value == 1
    assert row(verdict(story(unknown)), "expelled members").value == 0
    outdated = event(1_500, MemberHistoryKind.LOST, error="illegal_generation")
    assert row(verdict(story(assigned(100), outdated)), "expelled members").value == 0


def test_the_time_without_a_heartbeat_counts_from_sign_to_sign_over_the_fault():
    found = record(
        story(assigned(100), *beats(900, 1_300, 1_400)),
        story(*beats(0, 5, 999), name="b", seen_ms=4_000),
    )
    assert sorted(unheard_ms(found)) == [400, 3_001]


def test_stretches_before_the_fault_do_not_count():
    assert unheard_ms(record(story(*beats(0, 900, 1_000, 1_100)))) == [100]


def test_what_was_never_seen_is_not_clean():
    assert not verdict(story(assigned(100)), replicated_ms=None).is_clean
    assert VerdictRow(name="x", value=None).is_clean


def test_the_json_has_every_row_and_the_verdict():
    found = verdict(story(assigned(100), *beats(1_500))).document()
    assert found["drill"] == "kill-leader"
    assert found["clean"] is True
    assert {"name": "lost writes", "value": 0, "limit": 0, "clean": True} in found["rows"]


def test_the_findings_of_groups_add_up_to_the_verdict_on_all():
    drill = named("kill-leader")
    lives = [
        [
            assigned(1, index=number % 2), committed(2), *beats(FAULT - 10, FAULT + 70 * number),
            event(FAULT + 90 * number, MemberHistoryKind.LOST, error="unknown_member_id"),
        ]
        for number in range(1, 13)
    ]  # fmt: skip
    stories = [
        replace(story(*events, name=f"m{number}", seen_ms=5_000), group_id=f"g{number % 3}")
        for number, events in enumerate(lives)
    ]
    whole = DrillRecord(
        stories=sorted(stories, key=lambda each: each.group_id),
        committed={(f"g{number}", "t", 0): number for number in range(3)},
        fault_ms=FAULT, replicated_ms=500, stalled_ms=9,
    )  # fmt: skip
    parts = [
        replace(whole, stories=[each for each in stories if each.group_id == f"g{number}"])
        for number in range(3)
    ]
    found = sum(map(findings, parts), Findings())
    judged = judge(drill, whole)
    assert verdict_on(drill, found, 500) == judged
    assert row(judged, "partitions with two owners").value == 6
    assert sum("owners" in each for each in judged.complaints) == SENTENCES_MAX
    assert row(judged, "expelled members").value == 12
