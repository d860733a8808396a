"""The internal topics of streams groups: repartition and changelog topics, and their deletion."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.descriptions import describe_group
from actors.cli.session import FAILED, complain, note
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Collection

    from actors.cli.client import AdminClient

STREAMS: Final = "streams"

_ENDS: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-[0-9]+-topic)",
    re.DOTALL,
)
"""The names that Kafka Streams gives to internal topics, after the application's id."""


def add_topic_flags(parser: ArgumentParser) -> None:
    """Add the flags that select internal topics."""
    parser.add_argument(
        "--delete-all-internal-topics",
        action="store_true",
        help="with --delete, or --reset-offsets --execute: delete a streams group's internal topics"
        " as well",
    )
    parser.add_argument(
        "--delete-internal-topic",
        action="append",
        default=[],
        metavar="T",
        help="with --reset-offsets --execute: delete this internal topic; may be repeated",
    )


def internal_topics(client: AdminClient, group_id: str, args: Namespace) -> list[str]:
    """Return the internal topics of a streams group that the flags select.

    Topics that do not have an internal topic's name may belong to others: they are left out.
    """
    known = describe_group(client, group_id).internal_topics
    wanted: Collection[str] = known if args.delete_all_internal_topics else ()
    wanted = {*wanted, *args.delete_internal_topic}
    internal = sorted(name for name in wanted if is_internal(name, group_id))
    for name in sorted(wanted.difference(internal)):
        note(f"topic {name} is not an internal topic of group {group_id}: it is not deleted")
    return internal


def is_internal(topic: str, group_id: str) -> bool:
    """Return whether a topic is named as an internal one of this application."""
    return topic.startswith(f"{group_id}-") and _ENDS.fullmatch(topic) is not None


def delete_topics(client: AdminClient, group_id: str, names: list[str]) -> int:
    """Delete topics; returns an exit code. A topic that does not exist is no failure."""
    code = 0
    for name, error in (admin.delete_topics(client, names) if names else {}).items():
        if error == ErrorCode.none:
            note(f"internal topic {name} of group {group_id} is deleted")
        else:
            complain(f"internal topic {name} of group {group_id}: {admin.said(error)}")
            code = code if error == ErrorCode.unknown_topic_or_partition else FAILED
    return code
