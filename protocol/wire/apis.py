"""The table of APIs, by key, and functions that look things up in it.

A row has all the traits of a request (:mod:`protocol.wire.api`); the rows are in
:mod:`protocol.wire.api_rows`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.wire.api import Api, GroupsField, Route
from protocol.wire.api_makers import COSTLY_ELEMENTS_MAX, ELEMENTS_MAX
from protocol.wire.api_rows import ROWS, api_versions_response
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

__all__ = (
    "API",
    "COSTLY_ELEMENTS_MAX",
    "ELEMENTS_MAX",
    "PRODUCE",
    "Api",
    "Route",
    "api_of",
    "api_versions_response",
    "error_response",
    "for_groups",
    "group_id",
    "group_ids",
    "merge",
    "wants_no_answer",
)

PRODUCE: Final = 0

API: Final[Mapping[int, Api]] = MappingProxyType({row.key: row for row in ROWS})


def api_of(message: Any) -> Api:
    """Return the row of a request, given in its newest version."""
    return API[int(message.__api_key__)]


def group_id(request: Any) -> str:
    """Return the group id of a request whose route is GROUP."""
    named: str = request.group_id
    return named


def group_ids(api_key: int, request: Any) -> tuple[str, ...]:
    """Return the group ids of a request whose route is GROUPS, in the request's order."""
    return _groups(api_key).names(request)


def for_groups(api_key: int, request: Any, wanted: Callable[[str], bool]) -> Entity:
    """Reduce a GROUPS request to the groups that ``wanted`` accepts."""
    return _groups(api_key).cut(request, wanted)


def merge(api_key: int, request: Any, responses: Sequence[Any]) -> Entity:
    """Merge the answers to the parts of a GROUPS request, in the order of the request."""
    row = _groups(api_key)
    found: dict[str, list[Any]] = {}
    for response in responses:
        for part in getattr(response, row.parts):
            found.setdefault(part.group_id, []).append(part)
    parts = [found[name].pop(0) for name in row.names(request) if found.get(name)]
    return blank(API[api_key].response, **{row.parts: tuple(parts)})


def _groups(api_key: int) -> GroupsField:
    groups = API[api_key].groups
    assert groups is not None, "only a request of the route GROUPS names many"
    return groups


def error_response(
    api_key: int,
    request: Any,
    code: ErrorCode,
    message: str | None = None,
    api_version: int | None = None,
) -> Entity:
    """Answer ``request`` with an error in the place or places where Kafka puts it.

    Pass the client's ``api_version`` where it is known: OffsetFetch 1 and Fetch before 13 have
    their errors in the partitions.
    """
    api = API[api_key]
    version = api.max_version if api_version is None else api_version
    return api.refuse(request, Refusal(code, message, version))


def wants_no_answer(api_key: int, request: Any) -> bool:
    """Return whether a request is never answered: a Produce with acks = 0.

    If it fails the connection closes, since nothing else would tell the producer.
    """
    return api_key == PRODUCE and request.acks == 0
