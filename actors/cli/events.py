"""``rollcall groups --describe --events``: rebalances and events of members, in one list by time.

The rebalances are the stories of ``rollcall explain``, and come with the events that belong to
them; all nodes are asked for them. The group's leader adds the newest events from its memory.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.session import note, show
from actors.cli.stories import Answered, ask, ask_events, begin_sentence, shown_time
from protocol.stories.sentence import named
from protocol.stories.story import Happened, StoryOutcome, Who

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from actors.cli.client import AdminClient
    from protocol.stories.story import RebalanceStory

HEADER: Final = (
    "GROUP", "TIME", "EVENT", "GENERATION", "TRIGGER", "TOOK-MS", "#PARTITIONS", "#MOVED", "#NEW",
    "CONSUMER-ID", "GROUP-INSTANCE-ID", "CLIENT-ID", "HOST", "REASON",
)  # fmt: skip
REBALANCE: Final = "rebalance"
UNDER_WAY: Final = "rebalancing"
BEGIN: Final = "list-begins"
"""What the first row of a list is called in JSON."""

REPLACED: Final = "replaced"


class _Event(NamedTuple):
    """A row; its columns after EVENT are those of a rebalance, and of a member."""

    time_ms: int
    what: str
    rebalance: tuple[object, ...] = (None,) * 6
    who: Who = Who()
    reason: str = ""


def show_events(client: AdminClient, group_id: str, args: Namespace) -> None:
    """Print where the list begins, and the list. Raises ClientError if nobody knows the group."""
    answered = ask(client, group_id)
    try:
        latest = ask_events(client, group_id)
    except ClientError as error:
        latest = []
        note(f"the newest events of members are missing: {error}")
    for why in answered.unread:
        note(f"one story is left out: {why}")
    if answered.silent:
        nodes = ", ".join(map(str, answered.silent))
        note(f"no answer from node {nodes}: rebalances that only it knows are missing")
    events = listed(answered, latest)
    if not events and all(each.group_id != group_id for each in admin.list_groups(client, (), ())):
        raise ClientError(
            f"there is no group {named(group_id)}, and no event of one is remembered since"
            f" {shown_time(answered.since_ms)}"
        )
    begins = begin_sentence(answered, "list")
    if args.json:
        since_ms = min([answered.since_ms, *(each.time_ms for each in events)])
        events.insert(0, _Event(since_ms, BEGIN, reason=begins))
    else:
        print(f"group {named(group_id)}: {_counted(answered, events)}; {begins}")
    if events:
        show(args, HEADER, (_row(group_id, each) for each in events))


def listed(answered: Answered, latest: Sequence[Happened]) -> list[_Event]:
    """Put stories and events of members together, the oldest first, each event once."""
    events = {}
    for each in (*(one for story in answered.stories for one in _of_members(story)), *latest):
        key = (each.time_ms, each.what, each.who.member_id)
        events[key] = _Event(each.time_ms, each.what, who=each.who, reason=each.reason)
    rows = [*events.values(), *map(_rebalance, _rebalances(answered))]
    if (now := answered.now) is not None:
        figures = (None, now.cause, now.waited_ms, None, None, None)
        rows.append(_Event(now.since_ms, UNDER_WAY, figures, now.who or Who(), now.reason))
    return sorted(rows, key=lambda each: each.time_ms)


def _of_members(story: RebalanceStory) -> Iterator[Happened]:
    yield from story.events
    if story.outcome is StoryOutcome.UNCHANGED and story.who is not None:
        yield Happened(time_ms=story.started_ms, what=REPLACED, who=story.who, reason=story.reason)


def _rebalances(answered: Answered) -> list[RebalanceStory]:
    return [each for each in answered.stories if each.outcome is not StoryOutcome.UNCHANGED]


def _rebalance(story: RebalanceStory) -> _Event:
    generation = story.after if story.after >= 0 else None
    units = (story.total, story.moved, story.added)
    figures = (generation, story.cause, story.took_ms, *units)
    return _Event(story.started_ms, REBALANCE, figures, story.who or Who(), story.reason)


def _counted(answered: Answered, events: Sequence[_Event]) -> str:
    rebalances = len(_rebalances(answered))
    others = len(events) - rebalances - (answered.now is not None)
    left_out = sum(each.more_events for each in answered.stories)
    text = f"{_count(rebalances, 'rebalance')}, {_count(others, 'event')} of members"
    return text + (f" (up to {left_out} more were only counted)" if left_out else "")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _row(group_id: str, event: _Event) -> tuple[object, ...]:
    time = datetime.fromtimestamp(event.time_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    who = event.who
    member = tuple(
        each or None for each in (who.member_id, who.instance_id, who.client_id, who.host)
    )
    return (group_id, time, event.what, *event.rebalance, *member, event.reason or None)
