"""What a share group allows with committed offsets: nothing. Its offsets are in share state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from protocol.groups.group_type import OffsetPolicy
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Set

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.wire.messages import OffsetFetchRequestGroup


def _refuse(group_id: str) -> NoReturn:
    sentence = f"Group {group_id} is not a consumer group."
    raise KafkaError(ErrorCode.group_id_not_found, sentence)


def _check_commit(_ctx: Context, request: Request, _now: int) -> None:
    _refuse(getattr(request.message, "group_id", ""))


def _check_fetch(_ctx: Context, asked: OffsetFetchRequestGroup) -> None:
    _refuse(asked.group_id)


def _check_delete(_ctx: Context, group_id: str) -> None:
    _refuse(group_id)


def _subscribed_topics(_ctx: Context, _group_id: str) -> Set[str]:
    return frozenset()


def _is_subscribed(_ctx: Context, _group_id: str, _topic: str) -> bool:
    return False


def _retention_start(_ctx: Context, _group_id: str) -> None:
    return None


POLICY: Final = OffsetPolicy(
    check_commit=_check_commit,
    check_fetch=_check_fetch,
    check_delete=_check_delete,
    subscribed_topics=_subscribed_topics,
    is_subscribed=_is_subscribed,
    retention_start=_retention_start,
)
