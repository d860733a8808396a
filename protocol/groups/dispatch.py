"""The merged tables of all parts of a shard; two parts that claim one key are an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from protocol.groups.group_type import GroupType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.group_type import (
        EventHandler,
        Handler,
        MigrationEdge,
        Replay,
        ShardPart,
        Timeout,
    )

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TableError(Exception):
    """Two parts claim the same key, or a table names an unknown type: a bug in this program."""


@dataclass(kw_only=True, eq=False)
class Tables:
    """The tables that a shard dispatches by; only tests change them after the merge.

    ``edges`` are keyed by the names of their source and target types.
    """

    parts: Sequence[ShardPart]
    types: Mapping[str, GroupType]
    simple_type: GroupType
    edges: Mapping[tuple[str, str], MigrationEdge]
    handlers: Mapping[int, Handler]
    replays: Mapping[type, Replay]
    timeouts: Mapping[str, Timeout]
    events: Mapping[type, EventHandler]


def merge(parts: Iterable[ShardPart], edges: Iterable[MigrationEdge] = ()) -> Tables:
    """Merge parts (group types included) and the edges between types.

    Parts react in the given order. Raises :class:`TableError`.
    """
    parts = tuple(parts)
    types = _once("group type", ((each.name, {each.name: each}) for each in _types_in(parts)))
    edges = tuple(edges)
    by_ends = _once("edge", ((str(each), {(each.source, each.target): each}) for each in edges))
    for ends in by_ends:
        if missing := {*ends} - types.keys():
            raise TableError(f"an edge names the group type {missing.pop()}, which there is not")
    own = _once("request", ((each.name, each.handlers) for each in parts))
    return Tables(
        parts=parts,
        types=types,
        simple_type=_simple(types.values()),
        edges=by_ends,
        handlers=_with_edges(own, edges),
        replays=_once("record type", ((each.name, each.replays) for each in parts)),
        timeouts=_once("timer", ((each.name, each.timeouts) for each in parts)),
        events=_once("event", ((each.name, each.events) for each in parts)),
    )


def _types_in(parts: Iterable[ShardPart]) -> list[GroupType]:
    return [each for each in parts if isinstance(each, GroupType)]


def _simple(types: Iterable[GroupType]) -> GroupType:
    found = [each for each in types if each.simple_group is not None]
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "no group type"
        raise TableError(f"{names} has groups without members that commit offsets; one must")
    return found[0]


def _once(what: str, tables: Iterable[tuple[str, Mapping[_Key, _Value]]]) -> Mapping[_Key, _Value]:
    """Merge tables; refuse a key that is in more than one."""
    merged: dict[_Key, _Value] = {}
    claimed: dict[_Key, str] = {}
    for name, table in tables:
        for key, value in table.items():
            if key in claimed:
                raise TableError(f"both {claimed[key]} and {name} claim the {what} {key}")
            merged[key], claimed[key] = value, name
    return MappingProxyType(merged)


def _with_edges(
    own: Mapping[int, Handler], edges: Sequence[MigrationEdge]
) -> Mapping[int, Handler]:
    """Let groups of an edge's source type answer the requests that the edge names."""
    asked = {key for edge in edges for key in edge.requests}
    handlers = dict(own)
    for key in sorted(asked):
        if key not in own:
            raise TableError(f"an edge answers the request {key}, which no part claims")
        by_type = _once(
            f"request {key} of groups of type",
            (
                (str(edge), {edge.source: edge.requests[key]})
                for edge in edges
                if key in edge.requests
            ),
        )
        handlers[key] = _by_type(own[key], by_type)
    return MappingProxyType(handlers)


def _by_type(own: Handler, others: Mapping[str, Handler]) -> Handler:
    def handle(ctx: Context, request: Request, now: int) -> None:
        """Let the group's own type answer; without a group, the type that the request is for."""
        message: Any = request.message
        group = ctx.groups.get(message.group_id)
        handler = own if group is None else others.get(group.type_name, own)
        handler(ctx, request, now)

    return handle


def reactions(tables: Tables, name: str) -> Iterable[Callable[..., Any]]:
    """Return the parts' handlers for a lifecycle event such as ``elected``, in part order."""
    found = (getattr(part, name) for part in tables.parts)
    return tuple(each for each in found if each is not None)
