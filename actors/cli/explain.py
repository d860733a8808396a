"""``rollcall explain``: why a group rebalanced, in a sentence for each time, and what to change.

The stories are asked of every node over the Kafka protocol, and put together: each node has those
of the partitions of which it holds a replica, and those that were told it before.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ApiNotServedError, ClientError
from actors.cli.session import FAILED, add_connection_flags, complain, connected, note
from actors.clock import wall_ms
from actors.errors import BadInputError
from failover.apis.stories import STORIES
from failover.catalogue.cluster_view import GROUP
from protocol.stories import json_form
from protocol.stories.json_form import BadStoryError
from protocol.stories.sentence import named, person, plain, quoted, seconds, short_sentence
from protocol.stories.storms import find_storm, storm_lines
from protocol.stories.under_way import UnderWay, under_way_sentence
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Iterator, Sequence

    from actors.cli.client import Address, AdminClient
    from protocol.stories.story import RebalanceStory, Unserved, Who

LAST: Final = 10
LAST_MAX: Final = 1_000
FOLLOW_S: Final = 1.0
"""How often to ask again with ``--follow``."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the nodes know of a group, the oldest story first; ``silent`` nodes did not answer.

    ``now`` is what the group waits for, if it rebalances.
    """

    stories: Sequence[RebalanceStory]
    since_ms: int
    dropped: int
    silent: Sequence[int]
    now: UnderWay | None = None


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
    parser.set_defaults(run=_run)


def _run(args: Namespace) -> int:
    if not 1 <= args.last <= LAST_MAX:
        raise BadInputError(f"--last must be from 1 to {LAST_MAX}")
    as_json, args.json = args.json, False  # it prints its own documents
    args.as_json = as_json
    return connected(explain)(args)


def explain(client: AdminClient, args: Namespace) -> int:
    """Show the last rebalances, and go on if asked to."""
    answered = ask(client, args.group)
    if not answered.stories and not args.follow and not _exists(client, args.group):
        complain(
            f"there is no group {named(args.group)}, and no rebalance of one is remembered since"
            f" {_time(answered.since_ms)}"
        )
        return FAILED
    shown = answered.stories[-args.last :]
    if args.as_json:
        _print_json(answered, shown, args)
    else:
        _print(answered, shown, args)
    if args.follow:
        _follow(client, answered, args)
    return 0


def ask(client: AdminClient, group_id: str) -> Answered:
    """Ask every node; raises ClientError if none answers."""
    answers, silent, failed = [], [], ""
    for node_id, address in sorted(client.brokers().items()):
        try:
            answers.append(ask_node(client, address, group_id))
        except ApiNotServedError as error:
            raise ClientError(str(error)) from None
        except ClientError as error:
            silent.append(node_id)
            failed = str(error)
    known = [each for each in answers if each is not None]
    if not known:
        raise ClientError(failed or "this cluster does not remember rebalances: it is no Rollcall")
    return _merged(known, silent)


def ask_node(client: AdminClient, address: Address, group_id: str) -> dict[str, Any] | None:
    """Ask one node what it remembers of a group; return None if it does not know the question."""
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group_id, configuration_keys=(STORIES,)
    )
    return _document(client.ask_at(address, DescribeConfigsRequest(resources=(resource,))))


def _document(answer: Any) -> dict[str, Any] | None:
    """Return what a node said; None if it does not know the entry."""
    (result,) = answer.results
    if result.error_code != ErrorCode.none:
        why = admin.said(result.error_code, result.error_message)
        raise ClientError(f"the history cannot be read: {why}")
    for entry in result.configs:
        if entry.name == STORIES:
            try:
                value = json.loads(entry.value or "")
            except ValueError as error:
                raise ClientError("a node answered with a history that is no JSON") from error
            return value if isinstance(value, dict) else None
    return None


def _merged(answers: Sequence[dict[str, Any]], silent: Sequence[int]) -> Answered:
    stories: dict[tuple[int, int], RebalanceStory] = {}
    for answer in answers:
        for story in _stories(answer):
            known = stories.get(story.key)
            if known is None or known.revision < story.revision:
                stories[story.key] = story
    ordered = sorted(stories.values(), key=lambda each: (each.ended_ms, each.node_id, each.number))
    leaders = [each for each in answers if each.get("is_leader")] or answers
    return Answered(
        ordered,
        min(_integer(each, "since_ms") for each in leaders),
        min(_integer(each, "dropped") for each in leaders),
        silent,
        _under_way(leaders),
    )


def _under_way(leaders: Sequence[dict[str, Any]]) -> UnderWay | None:
    """Return what the group waits for, as its leader says; two may believe to lead."""
    found = None
    for answer in leaders:
        if answer.get("under_way") is not None:
            try:
                found = json_form.read_as(UnderWay, answer["under_way"])
            except BadStoryError as error:
                note(f"what the group waits for is left out: {error}")
    return found


def _stories(answer: dict[str, Any]) -> Iterator[RebalanceStory]:
    found = answer.get("stories")
    for value in found if isinstance(found, list) else ():
        try:
            yield json_form.read_value(value)
        except BadStoryError as error:
            note(f"one story is left out: {error}")


def _integer(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    return value if type(value) is int else 0


def _exists(client: AdminClient, group_id: str) -> bool:
    return any(each.group_id == group_id for each in admin.list_groups(client, (), ()))


# --- what is printed


def _print(answered: Answered, shown: Sequence[RebalanceStory], args: Namespace) -> None:
    print(f"group {named(args.group)}: {_begin(answered, len(shown))}")
    for story in shown:
        print("\n".join(_lines(story, args)))
    if answered.now is not None:
        print(_now_line(answered.now))
    storm = find_storm(answered.stories, wall_ms())
    if storm is not None:
        print("\n".join(storm_lines(storm)))
    if answered.silent:
        nodes = ", ".join(map(str, answered.silent))
        note(f"no answer from node {nodes}: rebalances that only it knows are missing")


def _now_line(now: UnderWay) -> str:
    return f"{_time(now.since_ms)}      now  {under_way_sentence(now)}"


def _begin(answered: Answered, count: int) -> str:
    total = len(answered.stories)
    since = f"the history begins at {_time(answered.since_ms)}"
    if answered.dropped:
        since += ", older ones made room"
    if not total:
        return f"no rebalance; {since}"
    noun = "rebalance" if total == 1 else "rebalances"
    last = "" if count == total else f", the last {count} of them shown"
    return f"{total} {noun}{last}; {since}"


def _lines(story: RebalanceStory, args: Namespace) -> Iterator[str]:
    took = f"{seconds(story.took_ms):>8}"
    yield f"{_time(story.started_ms)} {took}  {short_sentence(story)}"
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
        reason = f": {quoted(event.reason)}" if event.reason else ""
        yield f"{_time(event.time_ms)} {person(event.who)} {plain(event.what)}{reason}"
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
        facts.append(f"queue {story.queue_ms:.1f} ms, computed in {story.assignor_ms:.1f} ms")
        facts.append(f"{story.fix_ups} fix-ups")
    if story.kept is not None:
        facts.append(f"{story.kept} {plain(story.units)} kept")
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
        "rebalances": [_as_json(each) for each in shown],
        "under_way": _now_as_json(answered.now),
        "storm": None if storm is None else asdict(storm),
    }
    print(json.dumps(document))


def _now_as_json(now: UnderWay | None) -> dict[str, Any] | None:
    if now is None:
        return None
    value: dict[str, Any] = json_form.plain(now)
    return {**value, "sentence": under_way_sentence(now)}


def _as_json(story: RebalanceStory) -> dict[str, Any]:
    value: dict[str, Any] = json_form.plain(story)
    return {**value, "sentence": short_sentence(story), "kept": story.kept}


def _follow(client: AdminClient, answered: Answered, args: Namespace) -> None:
    """Print what is new or was told to its end, until the command is stopped."""
    sys.stdout.flush()
    seen = {each.key: each.revision for each in answered.stories}
    told_now = _moment(answered.now)
    while True:
        time.sleep(FOLLOW_S)
        try:
            newer = ask(client, args.group)
        except ClientError as error:
            complain(str(error))
            continue
        for story in newer.stories:
            if seen.get(story.key, -1) >= story.revision:
                continue
            seen[story.key] = story.revision
            if args.as_json:
                print(json.dumps(_as_json(story)), flush=True)
            else:
                print("\n".join(_lines(story, args)), flush=True)
        if newer.now is not None and told_now != _moment(newer.now):
            document = json.dumps({"under_way": _now_as_json(newer.now)})
            print(document if args.as_json else _now_line(newer.now), flush=True)
        told_now = _moment(newer.now)


def _moment(now: UnderWay | None) -> tuple[object, ...]:
    """Return what makes a moment worth a line of its own: another step, or others are awaited."""
    return () if now is None else (now.since_ms, now.step, now.awaited)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
