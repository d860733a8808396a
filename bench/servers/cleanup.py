"""Deletes a load's groups and topics from a cluster that keeps running."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.client import AdminClient, ClientError
from actors.client.security import PLAINTEXT
from actors.waiting import poll
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DeleteTopicsRequest, DeleteTopicState, MemberIdentity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from actors.client.security import Security

EMPTY_S: Final = 10.0
"""The time for leaving members to be gone."""

POLL_S: Final = 0.2
TIMEOUT: Final = timedelta(seconds=10)
DONE: Final = frozenset({ErrorCode.none, ErrorCode.group_id_not_found})
DELETED: Final = frozenset({ErrorCode.none, ErrorCode.unknown_topic_or_partition})


def remove(
    bootstrap: Sequence[tuple[str, int]],
    instance_ids: Mapping[str, Collection[str]],
    topics: Collection[str],
    empty_s: float = EMPTY_S,
    security: Security = PLAINTEXT,
) -> list[str]:
    """Delete groups and topics; return the names of those that are still there.

    ``instance_ids`` are the static members of each group, which never leave on their own; the
    others have ``empty_s`` to be gone.
    """
    with AdminClient(bootstrap, security=security) as client:
        left = [
            each
            for each, static in instance_ids.items()
            if not _is_deleted(client, each, static, empty_s)
        ]
        wanted = tuple(DeleteTopicState(name=name, topic_id=None) for name in topics)
        answer = client.ask(DeleteTopicsRequest(topics=wanted, timeout=TIMEOUT))
        left += [str(row.name) for row in answer.responses if row.error_code not in DELETED]
    return list(dict.fromkeys(left))


def _is_deleted(
    client: AdminClient, group_id: str, instance_ids: Collection[str], empty_s: float
) -> bool:
    static = [MemberIdentity(member_id="", group_instance_id=each) for each in instance_ids]
    if static:
        with suppress(ClientError):
            admin.remove_members(client, group_id, static)
    try:
        code = poll(
            lambda: admin.delete_group(client, group_id),
            empty_s,
            is_done=lambda code: code != ErrorCode.non_empty_group,
            every_s=POLL_S,
        )
    except ClientError:
        return False  # the others may still be deleted
    return code in DONE
