"""Names and reasons come from clients, and may be anything: a story stays short and true."""

import json
from dataclasses import fields

from protocol.groups.facts import MemberEvent, MemberEventKind, RebalanceTrigger
from protocol.stories.json_form import STORY_BYTES_MAX, read, write
from protocol.stories.recent_events import EVENTS_PER_GROUP, ID_MAX, RecentEvents
from protocol.stories.sentence import sentence
from protocol.stories.story import EVENTS_MAX, GROUP_ID_MAX, TEXT_MAX, cut
from protocol.stories.teller import StoryTeller
from tests.protocol.stories.facts import NOW, event, rebalance, reconciled, share, target

ESCAPE = "\x1b[31mred\x9b2J\u202e\ud800\n"
FORGED = 'x (10.0.0.9) left, "closing"; 0 of 4 partitions moved'


def told(fact: object, *before: object) -> object:
    teller = StoryTeller(0)
    for each in before:
        list(teller.tell(each))  # type: ignore[arg-type]
    return list(teller.tell(fact))[-1]  # type: ignore[arg-type]


def test_control_characters_are_escaped() -> None:
    for fact in (
        rebalance(client_id=ESCAPE, reason=ESCAPE, client_host=ESCAPE, group_id=ESCAPE),
        target(cause=event(client_id=ESCAPE, reason=ESCAPE), group_id=ESCAPE, assignor=ESCAPE),
    ):
        shown = sentence(told(fact))  # type: ignore[arg-type]
        assert shown.isprintable()
        assert r"\x1b[31mred\x9b2J\u202e\ud800\n" in shown


def test_a_name_can_not_pass_for_another_part_of_the_sentence() -> None:
    shown = sentence(told(rebalance(client_id=FORGED)))  # type: ignore[arg-type]
    assert (
        r'member "x (10.0.0.9) left, \"closing\"; 0 of 4 partitions moved" (10.0.0.4) left;'
        in shown
    )


def test_a_reason_can_not_leave_its_quotes() -> None:
    shown = sentence(told(rebalance(reason='x"; nothing \\')))  # type: ignore[arg-type]
    assert r'left, "x\"; nothing \\";' in shown


def test_long_texts_are_cut() -> None:
    long = "x" * 30_000
    story = told(rebalance(client_id=long, reason=long, member_id=long, protocol_name=long))
    shown = sentence(story)  # type: ignore[arg-type]
    assert "x" * (TEXT_MAX - 1) + "…" in shown
    assert len(shown) < 3 * TEXT_MAX


def test_the_largest_story_has_room() -> None:
    """Every text is as long as it may be, of characters that take six bytes each in JSON."""
    long = "\x01" * 300
    events = [
        event(
            MemberEventKind.NOT_REJOINED,
            member_id=f"{number}{long}",
            group_instance_id=f"{number}{long}",
            client_id=long,
            client_host=long,
            client_software=long,
            reason=long,
            time_ms=NOW + 20,
            group_id="\x01" * GROUP_ID_MAX,
        )
        for number in range(20)
    ]
    before = {f"{number}{long}": share(number) for number in range(40)}
    fact = rebalance(
        group_id="\x01" * GROUP_ID_MAX,
        client_id=long,
        member_id=long,
        group_instance_id=long,
        client_host=long,
        client_software=long,
        reason=long,
        protocol_name=long,
        leader_id=long,
        assignments_before=before,
        assignments_after={f"new{name}": value for name, value in before.items()},
    )
    data = write(told(fact, *events))  # type: ignore[arg-type]
    assert len(data) <= STORY_BYTES_MAX
    story = read(data)
    assert story.more_events == 20
    assert story.waits[0].more == 20
    assert story.more_moves == 40


def test_a_group_whose_id_is_too_long_has_no_stories() -> None:
    teller = StoryTeller(0)
    assert list(teller.tell(rebalance(group_id="g" * GROUP_ID_MAX)))
    assert not list(teller.tell(rebalance(group_id="g" * (GROUP_ID_MAX + 1))))


def test_many_events_of_one_group_are_counted_and_not_kept() -> None:
    events = [event(time_ms=NOW + 1, member_id=str(number)) for number in range(1_000)]
    story = told(rebalance(), *events)
    assert len(story.events) == EVENTS_MAX  # type: ignore[attr-defined]
    assert story.more_events == EVENTS_PER_GROUP - EVENTS_MAX  # type: ignore[attr-defined]


def test_a_story_is_read_as_it_was_written() -> None:
    for story in (
        told(rebalance(RebalanceTrigger.MEMBER_EXPIRED, reason=ESCAPE[:-2])),
        told(reconciled(), target()),
    ):
        data = write(story)  # type: ignore[arg-type]
        assert write(read(data)) == data
        assert json.loads(data)["group_id"] == "orders"


def test_events_that_wait_keep_what_stories_show_of_their_texts() -> None:
    """They are up to fifty thousand: at the lengths that clients may send, they take gigabytes."""
    long, recent = "x" * 32_000, RecentEvents[MemberEvent](EVENTS_PER_GROUP, 10)
    texts = [each.name for each in fields(MemberEvent) if each.type in ("str", "str | None")]
    for number in range(3):
        given = {each: f"{long}-{number}" for each in texts if each != "group_id"}
        recent.add(event(group_id="".join((*long, "!")), time_ms=NOW + number, **given))
    kept = recent.take(f"{long}!", NOW, NOW + 9, NOW + 9)
    assert len(kept) == 3
    for each in kept:
        assert all(len(getattr(each, name)) <= ID_MAX for name in texts if name != "group_id")
        assert each.group_id is kept[0].group_id, "it is there once"
    assert len({each.member_id for each in kept}) == 3, "ids end with what makes them unique"
    assert kept[0].reason == cut(long)


def test_events_with_texts_of_usual_lengths_are_kept_as_they_are() -> None:
    recent = RecentEvents[MemberEvent](EVENTS_PER_GROUP, 10)
    given = event(member_id="m" * ID_MAX, reason="r" * TEXT_MAX, client_software="a b")
    recent.add(given)
    assert recent.take("orders", NOW, NOW, NOW) == [given]
