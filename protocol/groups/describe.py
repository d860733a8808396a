"""ListGroups and DeleteGroups for the groups of one shard, of any type."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import EMPTY, ShardPart, type_of
from protocol.groups.offsets import commit as offsets
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from protocol.groups.context import Context
    from protocol.groups.effects import Request, Ticket


def list_groups(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """List the groups in the requested states and of the requested types; no filter: all."""
    message = request.message
    assert isinstance(message, ListGroupsRequest)
    states = {state.strip().lower() for state in message.states_filter}
    types = {each.strip().lower() for each in message.types_filter}
    listed = []
    for group_id in reversed(ctx.groups):  # no client depends on the order; Kafka's tests do
        kind = type_of(ctx, group_id)
        if kind is None or (types and kind.name not in types):
            continue
        looks = kind.summary(ctx, group_id)
        if states and looks.state.lower() not in states:
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=looks.protocol_type,
                group_state=looks.state,
                group_type=looks.group_type,
            )
        )
    response = ListGroupsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=tuple(listed)
    )
    ctx.reply(request.ticket, response, None)


@dataclass(slots=True, eq=False)
class DeletionRequest:
    """A request to delete groups: the error of each, None while it is not decided."""

    ticket: Ticket
    group_ids: Sequence[str]
    codes: list[ErrorCode | None]


@dataclass(slots=True, eq=False)
class GroupDeletion:
    """One group of such a request, by its place in it."""

    whole: DeletionRequest
    place: int


def delete_groups(ctx: Context, request: Request, now: int) -> None:
    """Delete each group that is Empty, and its offsets; some types prepare that elsewhere."""
    message = request.message
    assert isinstance(message, DeleteGroupsRequest)
    group_ids = message.groups_names
    job = DeletionRequest(request.ticket, group_ids, [None] * len(group_ids))
    for place, group_id in enumerate(group_ids):
        code, kind = _why_not(ctx, group_id), type_of(ctx, group_id)
        prepare = None if kind is None or code is not ErrorCode.none else kind.before_delete
        if prepare is None or not prepare(ctx, group_id, GroupDeletion(job, place), now):
            job.codes[place] = _delete(ctx, group_id, now)
    _answer_whole(ctx, job)


def prepared(ctx: Context, part: GroupDeletion, code: ErrorCode, now: int) -> None:
    """Delete a group whose deletion was prepared, unless that failed."""
    job, place = part.whole, part.place
    is_ready = code is ErrorCode.none
    job.codes[place] = _delete(ctx, job.group_ids[place], now) if is_ready else code
    _answer_whole(ctx, job)


def _answer_whole(ctx: Context, job: DeletionRequest) -> None:
    """Answer a request when all its groups are decided."""
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id, code in zip(job.group_ids, job.codes, strict=True)
        if code is not None
    )
    if len(results) == len(job.codes):
        response = DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=results)
        ctx.reply(job.ticket, response, None)


def _why_not(ctx: Context, group_id: str) -> ErrorCode:
    kind = type_of(ctx, group_id)
    if kind is None:
        return ErrorCode.group_id_not_found
    if kind.summary(ctx, group_id).state != EMPTY:
        return ErrorCode.non_empty_group
    return ErrorCode.none


def _delete(ctx: Context, group_id: str, now: int) -> ErrorCode:
    code, kind = _why_not(ctx, group_id), type_of(ctx, group_id)
    if kind is not None and code is ErrorCode.none:
        offsets.delete_all(ctx, group_id)
        kind.delete(ctx, group_id, now)
    return code


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {
        ListGroupsRequest.__api_key__: list_groups,
        DeleteGroupsRequest.__api_key__: delete_groups,
    }
)
PART: Final = ShardPart(name="describe", handlers=HANDLERS)
