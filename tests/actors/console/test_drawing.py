"""The pictures of a group: where its rectangles are, and that they are few."""

import re
from dataclasses import replace

from actors.console.assets import asset
from actors.console.drawing import MEMBERS_DRAWN, STEPS, UNITS_DRAWN, by_number, ownership, steps
from actors.console.source import Member
from actors.console.views import group_sections
from protocol.stories.story import (
    MOVES_MAX,
    Move,
    RebalanceStory,
    StoryOutcome,
    Wait,
    Waited,
    Who,
)
from tests.actors.console.sources import NOW_MS, detail, member, story


def test_what_moved_last_is_marked_where_it_came_and_where_it_went() -> None:
    members = (member("web-3", "orders-0"), member("web-9", "orders-3"))
    drawn = ownership(detail(members=members))
    assert drawn is not None
    assert [each.text for each in drawn.rows] == ["web-3", "web-9", "nobody"]
    found = {(each.kind, each.title) for each in drawn.cells}
    assert found == {
        ("owned", "orders-0: web-3"),
        ("moved", "orders-3: web-9, it came from web-3"),
        ("left", "orders-3: went from web-3 to web-9"),
        ("nobody", "orders-1: nobody"),
        ("nobody", "orders-2: nobody"),
    }


def legend(*stories: RebalanceStory) -> str:
    shown = detail(units=tuple(f"orders-{n}" for n in range(200)), stories=stories)
    return " ".join(group_sections(shown, NOW_MS, can_remove=False)["owners"].split("<ul")[1:])


def test_the_legend_says_how_many_of_many_moves_are_marked() -> None:
    moves = tuple(Move(unit=f"orders-{n}", before="web-3", after="web-1") for n in range(MOVES_MAX))
    many = story(moved=160, total=200, moves=moves, more_moves=140)
    drawn = ownership(detail(stories=(many,)))
    assert drawn is not None
    assert (len(drawn.moves.by_unit), drawn.moves.count) == (MOVES_MAX, 160)
    assert "20 of 160 moves of that rebalance are marked" in legend(many)
    assert "are marked" not in legend(story())


def test_a_rebalance_whose_moves_are_not_kept_is_not_taken_for_an_earlier_one() -> None:
    counted = story(number=2, moved=70_000, moves=(), more_moves=70_000)
    assert "0 of 70,000 moves of that rebalance are marked" in legend(story(), counted)
    unknown = story(number=2, moved=None, moves=())
    drawn = ownership(detail(stories=(story(), unknown)))
    assert drawn is not None
    assert not {each.kind for each in drawn.cells} & {"moved", "left"}
    assert "what the last rebalance moved is not known" in legend(story(), unknown)
    for nothing in (
        story(number=2, moved=0, moves=()),
        story(number=2, moved=None, moves=(), outcome=StoryOutcome.RESTARTED),
        story(number=2, moved=None, moves=(), outcome=StoryOutcome.UNCHANGED),
    ):
        drawn = ownership(detail(stories=(story(), nothing)))
        assert drawn is not None
        assert {each.kind for each in drawn.cells} > {"moved"}, "the one before it is meant"
        assert "not known" not in legend(story(), nothing)


def test_members_with_one_name_are_not_mixed_up() -> None:
    twins = tuple(
        Member(member_id=f"m-{n}", client_id="app", owned=(f"orders-{n}",)) for n in range(2)
    )
    told = story(moves=(Move(unit="orders-1", before="app", after="m-1"),))
    drawn = ownership(detail(members=twins, units=(), stories=(told,)))
    assert drawn is not None
    assert [each.kind for each in drawn.cells] == ["owned", "moved"], "where it went from is open"


def test_a_large_group_is_drawn_in_part_with_what_moved() -> None:
    members = [member(f"m-{n:05}", f"orders-{n}") for n in range(10_000)]
    moves = (Move(unit="orders-9999", before="m-00001", after="m-09999"),)
    drawn = ownership(detail(members=members, units=(), stories=(story(moves=moves),)))
    assert drawn is not None
    assert len(drawn.rows) == MEMBERS_DRAWN
    assert drawn.hidden_members == 10_000 - MEMBERS_DRAWN
    assert drawn.hidden_units == 10_000 - UNITS_DRAWN
    assert MEMBERS_DRAWN <= len(drawn.cells) < 2 * UNITS_DRAWN
    assert [each.text for each in drawn.rows[:2]] == ["m-00001", "m-09999"]
    assert {each.kind for each in drawn.cells} == {"owned", "moved", "left"}


def test_nothing_to_own_is_no_picture() -> None:
    assert ownership(detail(members=(), units=())) is None


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    units = ["b-2", "b-10", "a-b-1", "0_11", "0_2", "x", f"y-{'9' * 400}"]
    assert sorted(units, key=by_number)[:6] == ["0_2", "0_11", "a-b-1", "b-2", "b-10", "x"]


def test_the_steps_of_a_rebalance_follow_each_other_and_end_within_it() -> None:
    found = steps(story())
    assert [(each.name, each.took, each.who) for each in found] == [
        ("members join", "12.1 s", "web-9"),
        ("the leader assigns", "0.4 s", ""),
        ("the rest", "2.5 s", ""),
        ("served by nobody", "30.0 s", "1 of web-3"),
    ]
    join, assign, rest, nobody = found
    assert nobody.begin == 0, "it began before the rebalance"
    assert join.begin == 500
    assert join.begin + join.length in (assign.begin - 1, assign.begin, assign.begin + 1)
    assert all(0 <= each.begin <= each.begin + each.length <= 1_002 for each in found)
    assert rest.begin + rest.length == 1_000


def test_each_wait_is_a_step_with_a_colour() -> None:
    assert {key for key, _ in STEPS if isinstance(key, Wait)} == set(Wait)
    style = asset("console.css")
    kinds = [*(str(key) for key, _ in STEPS), "rest", "unserved"]
    assert [each for each in kinds if not re.search(rf"\.waterfall \.{each}\b", style)] == []


def test_what_came_first_is_drawn_first() -> None:
    """A watched group awaited its target, and then members took it over."""
    waits = (
        Waited(what=Wait.TARGET, wait_ms=4_400),
        Waited(what=Wait.RECONCILE, wait_ms=600, who=(Who(name="web-4"),)),
    )
    told = story(queue_ms=None, assignor_ms=None, waits=waits, unserved=())
    told = replace(told, ended_ms=told.started_ms + 5_000)
    assert [(each.name, each.begin, each.length, each.took) for each in steps(told)] == [
        ("until the target is written", 0, 880, "4.4 s"),
        ("members take over", 880, 120, "0.6 s"),
    ]


def test_steps_longer_than_the_rebalance_fit_too() -> None:
    told = replace(story(), ended_ms=story().started_ms, unserved=(), queue_ms=3.0, assignor_ms=9.0)
    waits = (
        Waited(what=Wait.RECONCILE, wait_ms=88, who=tuple(Who(name=f"m-{n}") for n in range(3))),
    )
    found = steps(replace(told, waits=waits))
    assert [each.name for each in found] == ["queue", "assignor", "members take over"]
    assert found[-1].who == "m-0 and 2 more"
    assert found[-1].begin + found[-1].length <= 1_002
    assert steps(replace(told, waits=(), queue_ms=0, assignor_ms=0)) == []
