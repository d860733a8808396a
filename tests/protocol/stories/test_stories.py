"""What a story tells beside its cause: waits, what moved, who served nothing, and how it ended."""

import pytest

from protocol.groups.facts import (
    ExpectedWait,
    GroupConverted,
    GroupDeleted,
    MemberEventKind,
    RebalanceOutcome,
    RebalancePhase,
    RebalanceTrigger,
)
from protocol.stories.history import STORIES_PER_GROUP, History, StoryEntry
from protocol.stories.sentence import short_sentence
from protocol.stories.story import RebalanceStory, StoryOutcome, Wait, Waited
from protocol.stories.teller import StoryTeller, outlived
from tests.actors.telemetry.causes import share as share_groups
from tests.actors.telemetry.causes import told
from tests.protocol.stories.facts import NOW, event, named, rebalance, reconciled, share, target


def tell(*facts: object) -> list[RebalanceStory]:
    teller = StoryTeller(3)
    return [story for fact in facts for story in teller.tell(fact)]  # type: ignore[arg-type]


def entry_of(story: RebalanceStory) -> StoryEntry:
    return StoryEntry(
        story.group_id, story.node_id, story.number, story.revision, story.ended_ms, b"{}"
    )


def test_who_did_not_join_in_time_and_the_time_without_service() -> None:
    """The phase is long because web-2 is gone, and nobody served its partition."""
    end = NOW + 60_000
    phases = (RebalancePhase("join", NOW, end), RebalancePhase("sync", end, end + 40))
    fact = rebalance(RebalanceTrigger.MEMBER_JOINED, phases=phases)
    gone = event(
        MemberEventKind.NOT_REJOINED,
        time_ms=end,
        member_id="id-of-web-2",
        client_id="web-2",
        silent_ms=63_000,
    )
    (story,) = tell(gone, fact)
    assert short_sentence(story) == (
        "generation 7 → 8: member web-3 (10.0.0.4) joined; waited 60.0 s for web-2, which did not"
        " join in time and was removed; 2 of 4 partitions moved;"
        " 1 partition of web-2 served by nobody for up to 63.0 s"
    )


def test_who_joined_last_and_who_computed_slowly() -> None:
    phases = (
        RebalancePhase("join", NOW, NOW + 12_100),
        RebalancePhase("sync", NOW + 12_100, NOW + 14_100),
    )
    last = event(
        MemberEventKind.REJOINED, member_id="id-of-web-9", client_id="web-9", time_ms=NOW + 12_100
    )
    (story,) = tell(rebalance(phases=phases, last_joined=last, reason="poll timeout exceeded"))
    assert short_sentence(story) == (
        "generation 7 → 8: member web-3 (10.0.0.4) left, because its application did not poll in"
        ' time, "poll timeout exceeded"; waited 12.1 s for web-9;'
        " waited 2.0 s for the assignment of id-of-web-1; 2 of 4 partitions moved"
    )
    assert story.kept == 2
    assert (story.node_id, story.took_ms) == (3, 14_100)


def test_what_a_member_gave_up_is_told_from_what_one_left_behind() -> None:
    """web-1 gives up 0, web-3 is gone and leaves 2 and 3; a dropped partition counts, too."""
    held = {"id-of-web-1": share(0, 1), "id-of-web-2": share(4), "id-of-web-3": share(2, 3)}
    got = {"id-of-web-1": share(1, 2), "id-of-web-2": share(0, 3)}
    (story,) = tell(rebalance(assignments_before=held, assignments_after=got))
    assert (story.moved, story.dropped, story.revoked, story.kept) == (3, 1, 2, 1)
    (unclear,) = tell(rebalance(outcome=RebalanceOutcome.RESTARTED))
    assert unclear.revoked is None


def test_a_group_that_fills_waits_for_more_members() -> None:
    phases = (RebalancePhase("join", NOW, NOW + 3_000),)
    (story,) = tell(rebalance(RebalanceTrigger.MEMBER_JOINED, phases=phases, is_initial=True))
    assert "waited 3.0 s for more members" in short_sentence(story)


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (ExpectedWait("web-3"), "waited 3.0 s for expected web-3;"),
        (ExpectedWait("web-3", ("web-4",)), "for expected web-4, which did not come;"),
        (ExpectedWait("", ("a", "b", "c"), 4), "for expected a, b and 5 others, which did not"),
        (ExpectedWait(""), "waited 3.0 s for more members"),
    ],
)
def test_a_first_assignment_waits_for_expected_instances(wait: ExpectedWait, words: str) -> None:
    phases = (RebalancePhase("join", NOW, NOW + 3_000),)
    (classic,) = tell(
        rebalance(RebalanceTrigger.MEMBER_JOINED, phases=phases, is_initial=True, expected=wait)
    )
    first, _ = tell(
        target(changed_ms=NOW - 3_000, started_ms=NOW, expected=wait), reconciled(last=None)
    )
    assert words in short_sentence(classic)
    assert words in short_sentence(first)


def test_outcomes_of_a_classic_rebalance() -> None:
    said = {
        outcome: short_sentence(tell(rebalance(outcome=outcome))[0]).rpartition("; ")[2]
        for outcome in RebalanceOutcome
    }
    assert said == {
        RebalanceOutcome.STABLE: "2 of 4 partitions moved",
        RebalanceOutcome.EMPTY: "no members are left",
        RebalanceOutcome.RESTARTED: "another rebalance began before it was done",
    }


def test_a_target_is_told_at_once_and_again_when_everybody_has_it() -> None:
    begun, ended = tell(target(), reconciled(time_ms=NOW + 4_020, last=named("web-2")))
    assert begun.key == ended.key
    assert (begun.revision, ended.revision) == (0, 1)
    assert begun.outcome is StoryOutcome.UNDER_WAY
    assert short_sentence(begun).endswith("its end was not seen yet")
    assert short_sentence(ended) == (
        "epoch 7 → 8: member web-3 (10.0.0.4) left; waited 4.0 s for web-2; 3 partitions moved"
    )


def test_a_target_that_the_next_one_overtakes_names_who_was_awaited() -> None:
    first = target()
    second = target(
        epoch_before=8, epoch_after=9, ended_ms=NOW + 5_020, awaited=(named("web-2"),),
        awaited_count=7,
    )  # fmt: skip
    _, restarted, begun = tell(first, second)
    assert restarted.outcome is StoryOutcome.RESTARTED
    assert "waited 5.0 s for web-2 and 6 others" in short_sentence(restarted)
    assert begun.after == 9


def test_queue_and_compute_time() -> None:
    begun, *_ = tell(target(queue_ms=900.0, assignor_ms=300.0, started_ms=NOW + 700))
    assert short_sentence(begun) == (
        "epoch 7 → 8: member web-3 (10.0.0.4) left; waited 0.7 s until the assignment interval was"
        " over; the assignor took 1.2 s, 0.9 s of it queued; 3 partitions moved;"
        " its end was not seen yet"
    )


def test_where_no_record_has_the_assignors_times_the_target_is_awaited() -> None:
    """Of a watched cluster it is known when the group changed, and when its target was there."""
    unknown = {"queue_ms": None, "assignor_ms": None, "in_place": None, "fix_ups": None}
    begun, ended = tell(
        target(changed_ms=NOW - 4_400, started_ms=NOW - 4_400, ended_ms=NOW, **unknown),
        reconciled(assigned_ms=NOW, time_ms=NOW + 600, last=named("web-2")),
    )
    until = Waited(what=Wait.TARGET, wait_ms=4_400)
    assert begun.waits == (until,)
    assert [each.wait_ms for each in ended.waits] == [4_400, 600]
    assert sum(each.wait_ms for each in ended.waits) == ended.took_ms
    assert "; waited 4.4 s until the new target was written; waited 0.6 s" in short_sentence(ended)
    at_once, *_ = tell(target(ended_ms=NOW, **unknown))
    assert at_once.waits == ()


def test_a_new_coordinator_is_the_cause_that_is_left() -> None:
    begun, *_ = tell(target(cause=None, elected_ms=NOW - 500))
    assert "its coordinator changed while it was rebalancing" in short_sentence(begun)
    begun, *_ = tell(target(elected_ms=NOW - 500))
    assert "its coordinator had taken over 0.5 s before" in short_sentence(begun)
    begun, *_ = tell(target(elected_ms=NOW - 500_000))
    assert "coordinator" not in short_sentence(begun)


def test_a_static_member_that_came_back_changed_nothing() -> None:
    (story,) = tell(event(MemberEventKind.REPLACED, group_instance_id="i-3", changes_nothing=True))
    assert short_sentence(story) == (
        "member i-3 (10.0.0.4) came back under a new member id; nothing else changed"
    )


def test_of_many_that_came_back_only_those_are_told_that_are_kept() -> None:
    """One more than a history keeps: so each history knows that older ones made room."""
    facts = [
        event(
            MemberEventKind.REPLACED,
            group_id=group_id,
            time_ms=NOW + number,
            changes_nothing=True,
        )
        for number in range(STORIES_PER_GROUP + 11)
        for group_id in ("orders", "payments")
    ]
    rebalances = [rebalance(), rebalance(group_id="few")]
    few = [event(MemberEventKind.REPLACED, group_id="few", changes_nothing=True)] * 3
    every = [*rebalances, *facts, *few]
    skipped = outlived(every)
    assert {every[place].group_id for place in skipped} == {"orders", "payments"}
    assert len(skipped) == 20
    kept, whole = History(0), History(0)
    kept_teller, teller = StoryTeller(0), StoryTeller(0)
    for place, fact in enumerate(every):
        for story in kept_teller.tell(fact, is_outlived=place in skipped):
            kept.add(entry_of(story))
        for story in teller.tell(fact):
            whole.add(entry_of(story))
    for group_id in ("orders", "payments", "few"):
        mine, all_of_them = kept.of_group(group_id), whole.of_group(group_id)
        assert [each.ended_ms for each in mine.entries] == [
            each.ended_ms for each in all_of_them.entries
        ]
        assert mine.since_ms == all_of_them.since_ms
        assert bool(mine.dropped) == bool(all_of_them.dropped)


def test_a_group_that_changes_its_type() -> None:
    converted = GroupConverted(
        group_id="orders", time_ms=NOW + 30, group_type="classic", epoch=8, members=2
    )
    begun, ended, after = tell(target(), converted, target(cause=None))
    assert begun.key == ended.key
    assert ended.outcome is StoryOutcome.CONVERTED
    assert "it has changed its type" in short_sentence(after)


def test_numbers_go_up_also_after_a_restart() -> None:
    before = tell(rebalance(), rebalance())
    after = tell(rebalance(phases=(RebalancePhase("join", NOW + 1_000, NOW + 2_000),)))
    assert [*before, *after] == sorted([*before, *after], key=lambda each: each.number)
    assert len({each.number for each in (*before, *after)}) == 3


def test_a_deleted_group_leaves_nothing_behind() -> None:
    deleted = GroupDeleted(group_id="orders", time_ms=NOW + 30)
    assert len(tell(target(), deleted, reconciled())) == 1


def test_share_partitions_that_nobody_can_have_yet_are_not_kept() -> None:
    stories = told.stories(share_groups.joined().facts)
    waits, gets = stories[0], next(each for each in stories if each.after == 3)
    assert (waits.total, waits.moved, waits.kept) == (0, 0, 0)
    assert short_sentence(waits).startswith(
        "epoch 1 → 2: member A (127.0.0.1) joined; 0 partitions"
    )
    assert (gets.total, gets.added, gets.kept) == (4, 4, 0)
