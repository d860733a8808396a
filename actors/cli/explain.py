"""``rollcall explain``: why a group rebalanced, in a sentence for each time, and what to change."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.session import FAILED, add_connection_flags, complain, connected, note
from actors.cli.stories import ask, begin_sentence, shown_time
from actors.clock import wall_ms
from actors.errors import BadInputError
from protocol.stories import json_form
from protocol.stories.sentence import (
    event_text,
    named,
    person,
    plain,
    seconds,
    sentence,
    short_sentence,
)
from protocol.stories.storms import WINDOW_MS, find_storm, storm_lines
from protocol.stories.under_way import under_way_sentence

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Iterator, Sequence

    from actors.cli.client import AdminClient
    from actors.cli.stories import Answered
    from protocol.stories.storms import RebalanceStorm
    from protocol.stories.story import RebalanceStory, Unserved, Who
    from protocol.stories.under_way import UnderWay

LAST: Final = 10
LAST_MAX: Final = 1_000
FOLLOW_S: Final = 1.0
"""How often to ask again with ``--follow``."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall explain``."""
    parser = subparsers.add_parser("explain", help="say why a group rebalanced, and who did it")
    parser.add_argument("group", metavar="GROUP", help="the group id")
    add_connection_flags(parser)
    parser.add_argument(
        "--last",
        type=int,
        default=LAST,
        metavar="N",
        help="how many rebalances to show, at most (default: %(default)s)",
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on and show each rebalance when it is told"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also show members, partitions and events"
    )
    parser.set_defaults(run=_run, documents=None)


def _run(args: Namespace) -> int:
    if not 1 <= args.last <= LAST_MAX:
        raise BadInputError(f"--last must be from 1 to {LAST_MAX}")
    return connected(explain)(args)


def explain(client: AdminClient, args: Namespace) -> int:
    """Show the last rebalances, and go on if asked to."""
    answered = ask(client, args.group)
    for why in answered.unread:
        note(f"one story is left out: {why}")
    if not answered.stories and not args.follow and not _exists(client, args.group):
        complain(
            f"there is no group {named(args.group)}, and no rebalance of one is remembered since"
            f" {shown_time(answered.since_ms)}"
        )
        return FAILED
    shown = answered.stories[-args.last :]
    if args.json:
        _print_json(answered, shown, args)
    else:
        _print(answered, shown, args)
    if args.follow:
        _follow(client, answered, args)
    return 0


def _exists(client: AdminClient, group_id: str) -> bool:
    return any(each.group_id == group_id for each in admin.list_groups(client, (), ()))


# --- what is printed


def _print(answered: Answered, shown: Sequence[RebalanceStory], args: Namespace) -> None:
    print(f"group {named(args.group)}: {_begin(answered, len(shown))}")
    for story in shown:
        print("\n".join(story_lines(story, args)))
    if answered.now is not None:
        print(_now_line(answered.now))
    storm = find_storm(answered.stories, wall_ms())
    if storm is not None:
        print("\n".join(storm_lines(storm)))
    if answered.silent:
        nodes = ", ".join(map(str, answered.silent))
        note(f"no answer from node {nodes}: rebalances that only it knows are missing")


def _now_line(now: UnderWay) -> str:
    return f"{shown_time(now.since_ms)}      now  {under_way_sentence(now)}"


def _begin(answered: Answered, count: int) -> str:
    total = len(answered.stories)
    since = begin_sentence(answered, "history")
    if not total:
        return f"no rebalance; {since}"
    noun = "rebalance" if total == 1 else "rebalances"
    last = "" if count == total else f", the last {count} of them shown"
    return f"{total} {noun}{last}; {since}"


def story_lines(
    story: RebalanceStory, args: Namespace, *, has_group: bool = False
) -> Iterator[str]:
    """Return a story as lines; ``has_group``: with the group's name."""
    took = f"{seconds(story.took_ms):>8}"
    told = sentence(story) if has_group else short_sentence(story)
    yield f"{shown_time(story.started_ms)} {took}  {told}"
    if args.verbose:
        yield from (f"    {line}" for line in _details(story))


def _details(story: RebalanceStory) -> Iterator[str]:
    """Return what a sentence leaves out: the member, figures, partitions, events."""
    if story.who is not None:
        yield f"by {_identity(story.who)}"
    yield _figures(story)
    for move in story.moves:
        yield f"{named(move.unit)}: {_owner(move.before)} → {_owner(move.after)}"
    if story.more_moves:
        yield f"and {story.more_moves} more {plain(story.units)}"
    yield from map(_nobody, story.unserved)
    for event in story.events:
        yield f"{shown_time(event.time_ms)} {event_text(event)}"
    if story.more_events:
        yield f"and {story.more_events} earlier events"


def _identity(who: Who) -> str:
    known = [person(who), f"id {named(who.member_id)}"]
    for label, text in (("instance ", who.instance_id), ("client ", who.client_id)):
        if text:
            known.append(f"{label}{named(text)}")
    if who.software:
        known.append(named(who.software))
    return ", ".join(known)


def _figures(story: RebalanceStory) -> str:
    facts = [f"{story.members} members"]
    if story.assignor:
        facts.append(f"assignor {named(story.assignor)}")
    facts += [f"node {story.node_id}", f"ended {story.outcome}"]
    if story.group_type != "classic" and story.assignor:
        if story.queue_ms is not None and story.assignor_ms is not None:
            facts.append(f"queue {story.queue_ms:.1f} ms, computed in {story.assignor_ms:.1f} ms")
        if story.fix_ups is not None:
            facts.append(f"{story.fix_ups} fix-ups")
    if story.kept is not None:
        facts.append(f"{story.kept} {plain(story.units)} kept")
    if story.revoked is not None:
        facts.append(f"{story.revoked} revoked")
    return "; ".join(facts)


def _owner(name: str) -> str:
    return named(name) if name else "nobody"


def _nobody(each: Unserved) -> str:
    units = ", ".join(map(named, each.units))
    more = each.count - len(each.units)
    text = f"served by nobody for up to {seconds(each.unserved_ms)}: {units}"
    return text + (f" and {more} more" if more else "") + f" of {named(each.who.name)}"


def _print_json(answered: Answered, shown: Sequence[RebalanceStory], args: Namespace) -> None:
    storm = find_storm(answered.stories, wall_ms())
    document = {
        "group": args.group,
        "since_ms": answered.since_ms,
        "dropped": answered.dropped,
        "silent_nodes": list(answered.silent),
        "rebalances": [story_as_json(each) for each in shown],
        "under_way": _now_as_json(answered.now),
        "storm": None if storm is None else asdict(storm),
    }
    print(json.dumps(document))


def _now_as_json(now: UnderWay | None) -> dict[str, Any] | None:
    if now is None:
        return None
    value: dict[str, Any] = json_form.plain(now)
    return {**value, "sentence": under_way_sentence(now)}


def story_as_json(story: RebalanceStory) -> dict[str, Any]:
    """Return a story as JSON, with its sentence."""
    value: dict[str, Any] = json_form.plain(story)
    return {**value, "sentence": short_sentence(story), "kept": story.kept}


def _follow(client: AdminClient, answered: Answered, args: Namespace) -> None:
    """Print what is new or was told to its end, until the command is stopped."""
    sys.stdout.flush()
    seen = {each.key: each.revision for each in answered.stories}
    storms = _Storms()
    storms.news(answered.stories)  # it is printed
    told_now = _moment(answered.now)
    while True:
        time.sleep(FOLLOW_S)
        try:
            newer = ask(client, args.group)
        except ClientError as error:
            complain(str(error))
            continue
        is_news = False
        for story in newer.stories:
            if seen.get(story.key, -1) >= story.revision:
                continue
            seen[story.key] = story.revision
            is_news = True
            if args.json:
                print(json.dumps(story_as_json(story)), flush=True)
            else:
                print("\n".join(story_lines(story, args)), flush=True)
        if is_news and (storm := storms.news(newer.stories)) is not None:
            document = json.dumps({"storm": asdict(storm)})
            print(document if args.json else "\n".join(storm_lines(storm)), flush=True)
        if newer.now is not None and told_now != _moment(newer.now):
            document = json.dumps({"under_way": _now_as_json(newer.now)})
            print(document if args.json else _now_line(newer.now), flush=True)
        told_now = _moment(newer.now)


class _Storms:
    """The storms of one group that is followed."""

    def __init__(self) -> None:
        self._told_ms = -WINDOW_MS

    def news(self, stories: Sequence[RebalanceStory]) -> RebalanceStorm | None:
        """Return the storm that there is now, once in ten minutes."""
        now = wall_ms()
        storm = find_storm(stories, now) if now - self._told_ms >= WINDOW_MS else None
        if storm is not None:
            self._told_ms = now
        return storm


def _moment(now: UnderWay | None) -> tuple[object, ...]:
    """Return what makes a moment worth a line of its own: another step, or others are awaited."""
    return () if now is None else (now.since_ms, now.step, now.awaited)
