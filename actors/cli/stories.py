"""The stories of a group's rebalances, asked of every node over the Kafka protocol.

Each node has those of the partitions of which it holds a replica, and those that were told it
before; what they answer is put together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from actors.cli import admin
from actors.cli.client import ApiNotServedError, ClientError, shown
from failover.apis.events import EVENTS
from failover.apis.stories import STORIES
from failover.catalogue.cluster_view import GROUP
from protocol.stories import json_form
from protocol.stories.json_form import BadStoryError
from protocol.stories.story import Happened
from protocol.stories.under_way import UnderWay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.cli.client import Address, AdminClient
    from protocol.stories.story import RebalanceStory


@dataclass(frozen=True, slots=True)
class Answered:
    """What the nodes know of a group, the oldest story first; ``silent`` nodes did not answer.

    ``unread`` says of each story that could not be read why. ``now`` is what the group waits for,
    if it rebalances.
    """

    stories: Sequence[RebalanceStory]
    since_ms: int
    dropped: int
    silent: Sequence[int]
    unread: Sequence[str] = ()
    now: UnderWay | None = None


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
        raise ClientError(failed or _is_no_rollcall(client.nearest))
    return _merged(known, silent)


def ask_leader(
    client: AdminClient, group_id: str, known: Sequence[RebalanceStory]
) -> Answered | None:
    """Ask only the group's leader, which is told of each rebalance, and add what is ``known``.

    Return None if who is asked does not lead the group any more, or does not answer.
    """
    try:
        answer = ask_node(client, client.remembered_coordinator(group_id), group_id)
    except ClientError:
        return None
    if answer is None or not answer.get("is_leader"):
        return None
    return _merged([answer], (), known)


def ask_node(client: AdminClient, address: Address, group_id: str) -> dict[str, Any] | None:
    """Ask one node what it remembers of a group; return None if it does not know the question."""
    return _entry(client, address, group_id, STORIES)


def ask_events(client: AdminClient, group_id: str) -> list[Happened]:
    """Ask the group's coordinator for the last events of its members; they are in its memory only.

    Raises ClientError if it does not answer.
    """
    _, address = client.coordinator(group_id)
    answer = _entry(client, address, group_id, EVENTS) or {}
    found = answer.get("events")
    try:
        return [json_form.read_as(Happened, each) for each in found or ()]
    except (BadStoryError, TypeError) as error:
        raise ClientError(f"the events of group {group_id} cannot be read: {error}") from error


def begin_sentence(answered: Answered, what: str) -> str:
    """Say where a list of ``what`` begins, and why there."""
    since_ms = answered.since_ms
    oldest_ms = min((each.started_ms for each in answered.stories), default=since_ms)
    begins = f"the {what} begins at"
    if answered.dropped:
        return f"{begins} {shown_time(oldest_ms)}: older rebalances made room for newer ones"
    if oldest_ms < since_ms:
        lost = f"others before {shown_time(since_ms)} may be missing"
        return f"{begins} {shown_time(oldest_ms)}: {lost}"
    return f"{begins} {shown_time(since_ms)}: nothing from before is kept"


def shown_time(ms: int) -> str:
    """Return a time as people and tools read it."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_no_rollcall(address: Address) -> str:
    return (
        "this cluster does not remember rebalances: it is no Rollcall;"
        f" use `rollcall watch --bootstrap {shown(address)}`"
    )


def _entry(client: AdminClient, address: Address, group_id: str, key: str) -> dict[str, Any] | None:
    text = admin.own_entry(client, address, (GROUP, group_id), key, "the history cannot be read")
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ClientError("a node answered with a history that is no JSON") from error
    return value if isinstance(value, dict) else None


def _merged(
    answers: Sequence[dict[str, Any]],
    silent: Sequence[int],
    known_before: Sequence[RebalanceStory] = (),
) -> Answered:
    stories = {each.key: each for each in known_before}
    unread: list[str] = []
    for answer in answers:
        for story in _stories(answer, unread):
            known = stories.get(story.key)
            if known is None or known.revision < story.revision:
                stories[story.key] = story
    ordered = sorted(stories.values(), key=lambda each: (each.number, each.node_id))
    leaders = [each for each in answers if each.get("is_leader")] or answers
    return Answered(
        ordered,
        min(_integer(each, "since_ms") for each in leaders),
        min(_integer(each, "dropped") for each in leaders),
        silent,
        unread,
        _under_way(leaders, unread),
    )


def _under_way(leaders: Sequence[dict[str, Any]], unread: list[str]) -> UnderWay | None:
    """Return what the group waits for, as its leader says; two may believe to lead."""
    found = None
    for answer in leaders:
        if answer.get("under_way") is not None:
            try:
                found = json_form.read_as(UnderWay, answer["under_way"])
            except BadStoryError as error:
                unread.append(str(error))
    return found


def _stories(answer: dict[str, Any], unread: list[str]) -> Iterator[RebalanceStory]:
    found = answer.get("stories")
    for value in found if isinstance(found, list) else ():
        try:
            yield json_form.read_value(value)
        except BadStoryError as error:
            unread.append(str(error))


def _integer(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    return value if type(value) is int else 0
