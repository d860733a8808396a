"""Requests about many groups, or much share state: split by partition, their answers merged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from protocol.groups.effects import Reply, Request
from protocol.groups.share_state import parts as share_parts
from protocol.wire import apis
from protocol.wire.apis import Route
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

    from protocol.groups.effects import Ticket


@dataclass(slots=True)
class _Merge:
    """A request whose parts are in progress; answered when all parts have arrived."""

    request: Request
    missing: int
    answers: list[Entity] = field(default_factory=list)


@dataclass(slots=True)
class RequestPart:
    """One partition's share of a request; its reply waits for ``groups`` (all when None)."""

    partition: int
    request: Request
    groups: Sequence[str] | None


class Fanout:
    """The merges in progress. Parts carry negative tickets, which no driver uses."""

    def __init__(self) -> None:
        self._last_ticket = 0
        self._merges: dict[Ticket, _Merge] = {}

    @property
    def under_way(self) -> bool:
        """Whether replies with negative tickets may arrive."""
        return self._last_ticket < 0

    def draw_ticket(self) -> Ticket:
        """Return a ticket for this node's own request; without a merge its reply is dropped."""
        self._last_ticket -= 1
        return self._last_ticket

    def split(self, request: Request, partition_of: Callable[[str], int]) -> list[RequestPart]:
        """Split a request that names groups into one part per partition."""
        key, message = request.api_key, request.message
        shares: dict[int, list[str]] = {}
        for group_id in apis.group_ids(key, message):
            shares.setdefault(partition_of(group_id), []).append(group_id)
        if len(shares) == 1:
            [(partition, groups)] = shares.items()
            return [RequestPart(partition, request, groups)]
        return self.parts(
            request,
            {
                partition: (groups, apis.for_groups(key, message, frozenset(groups).__contains__))
                for partition, groups in shares.items()
            },
        )

    def copy(self, request: Request, partitions: Sequence[int]) -> list[RequestPart]:
        """Send the same request to each of the partitions."""
        return self.parts(request, dict.fromkeys(partitions, (None, request.message)))

    def merged(self, reply: Reply) -> Reply | None:
        """Take a part's reply; return the whole request's reply once all parts are answered."""
        merge = self._merges.pop(reply.ticket, None)
        if merge is None:
            return None
        merge.answers.append(reply.message)
        if len(merge.answers) < merge.missing:
            return None
        return Reply(merge.request.ticket, _join(merge.request, merge.answers))

    def parts(
        self, request: Request, shares: Mapping[int, tuple[Sequence[str] | None, Entity]]
    ) -> list[RequestPart]:
        """Make a part of each share: the groups that its reply waits for, and the message."""
        merge = _Merge(request, len(shares))
        parts = []
        for partition, (groups, message) in shares.items():
            ticket = self.draw_ticket()
            self._merges[ticket] = merge
            own = replace(request, ticket=ticket, message=message)
            parts.append(RequestPart(partition, own, groups))
        return parts


def _join(request: Request, answers: Sequence[Any]) -> Entity:
    route = apis.API[request.api_key].route
    if route is Route.GROUPS:
        return apis.merge(request.api_key, request.message, answers)
    if route is Route.SHARE_STATE:
        return share_parts.merge(request.api_key, request.message, answers)
    failed = [answer for answer in answers if answer.error_code is not ErrorCode.none]
    if failed:
        first: Entity = failed[0]
        return first
    groups = tuple(group for answer in answers for group in answer.groups)
    joined: Entity = replace(answers[0], groups=groups)
    return joined
