"""Deletes a load's groups and topics from a cluster that keeps running."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.client import AdminClient, ClientError
from actors.cli.descriptions import describe_group
from actors.client.security import PLAINTEXT
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DeleteTopicsRequest, DeleteTopicState, MemberIdentity

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.client.security import Security

EMPTY_S: Final = 10.0
"""The time for leaving members to be gone."""

POLL_S: Final = 0.2
TIMEOUT: Final = timedelta(seconds=10)
DONE: Final = frozenset({ErrorCode.none, ErrorCode.group_id_not_found})
DELETED: Final = frozenset({ErrorCode.none, ErrorCode.unknown_topic_or_partition})


def remove(
    bootstrap: Sequence[tuple[str, int]],
    group_ids: Collection[str],
    topics: Collection[str],
    within_s: float = EMPTY_S,
    security: Security = PLAINTEXT,
) -> list[str]:
    """Delete topics and groups; return the names of those that are still there.

    Members that are still there, as they are static or vanished, are removed. Those that a
    coordinator does not remove have ``within_s``, of all groups together, until their sessions end.

    Raises ClientError if the topics cannot be deleted, after the groups.
    """
    deadline_s = time.monotonic() + within_s
    left: list[str] = []
    failure: ClientError | None = None
    with AdminClient(bootstrap, security=security) as client:
        try:
            left += _topics_left(client, topics)
        except ClientError as error:
            failure = error
        left += _groups_left(client, group_ids, deadline_s)
    if failure is not None:
        raise failure
    return list(dict.fromkeys(left))


def _topics_left(client: AdminClient, topics: Collection[str]) -> list[str]:
    wanted = tuple(DeleteTopicState(name=name, topic_id=None) for name in topics)
    answer = client.ask(DeleteTopicsRequest(topics=wanted, timeout=TIMEOUT))
    return [str(row.name) for row in answer.responses if row.error_code not in DELETED]


def _groups_left(client: AdminClient, group_ids: Collection[str], deadline_s: float) -> list[str]:
    waiting, refused = list(group_ids), []
    while waiting:
        full = []
        for place, group_id in enumerate(waiting):
            if place and time.monotonic() > deadline_s:
                full += waiting[place:]
                break
            code = _delete(client, group_id)
            if code == ErrorCode.non_empty_group:
                full.append(group_id)
            elif code not in DONE:
                refused.append(group_id)
        waiting = full
        if time.monotonic() > deadline_s:
            break
        if waiting:
            time.sleep(POLL_S)
    return refused + waiting


def _delete(client: AdminClient, group_id: str) -> int | None:
    """Delete a group, whose members are removed if it has some; None: it cannot be asked for."""
    try:
        code = admin.delete_group(client, group_id)
        if code == ErrorCode.non_empty_group:
            _remove_members(client, group_id)
            code = admin.delete_group(client, group_id)
    except ClientError:
        return None  # the others may still be deleted
    return code


def _remove_members(client: AdminClient, group_id: str) -> None:
    """Remove those that a coordinator removes: members of share groups are not among them."""
    with suppress(ClientError):
        members = [
            MemberIdentity(member_id="", group_instance_id=each.instance_id)
            if each.instance_id is not None
            else MemberIdentity(member_id=each.member_id, group_instance_id=None)
            for each in describe_group(client, group_id).members
        ]
        if members:
            admin.remove_members(client, group_id, members)
