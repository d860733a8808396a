"""One served API with all its traits: everything that any code may need to know about a request.

The rows are in :mod:`protocol.wire.api_rows` and :mod:`protocol.wire.api_rows_groups`, built by
:mod:`protocol.wire.api_makers`. A row that lacks a trait is an error when the table is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.wire.refusals import Refuse

    Writes: TypeAlias = Callable[[Any], bool]


class Route(Enum):
    """A request's route: which part of the cluster answers it."""

    NODE = auto()
    """The node that received it, from the catalogue and its view of the cluster."""
    GROUP = auto()
    """The partition of the one group in the request."""
    GROUPS = auto()
    """The partitions of the groups in the request; their answers are merged."""
    ALL_GROUPS = auto()
    """Every partition led by the node."""
    SHARE_STATE = auto()
    """The partitions of ``__share_group_state`` with the share state in the request; merged."""
    CATALOG = auto()
    """The catalogue's leader: the request changes topics or configs."""


RETRY_ERRORS: Final[Mapping[Route, ErrorCode]] = MappingProxyType(
    {
        Route.GROUP: ErrorCode.coordinator_not_available,
        Route.GROUPS: ErrorCode.coordinator_not_available,
        Route.ALL_GROUPS: ErrorCode.coordinator_not_available,
        Route.SHARE_STATE: ErrorCode.coordinator_not_available,
        Route.CATALOG: ErrorCode.not_controller,
    }
)


@dataclass(frozen=True, slots=True)
class Acl:
    """The permission that Kafka's authorizer checks: a resource type and an operation.

    It is not checked here yet: every client that reaches a coordinator may send any request.
    """

    resource: str
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraits:
    """The traits of a request about one group.

    ``needs_id``: the empty group id is refused with INVALID_GROUP_ID.
    ``is_believed``: while the partition's log is being read, the request is answered without an
    error, as in Kafka: no member expires meanwhile. ``is_leased``: an answer may come with a lease,
    so that the connection repeats it. ``has_few_answers``: successful answers are a few shared
    objects, so that their bytes are cached. ``changes_memory``: its handler changes state that is
    in no record. ``waits_for_members``: the answer may wait for the group's other members.
    ``too_large``: the error if its records exceed the size of a batch. ``writes``: whether it may
    write a record; if so it is refused while the disk is full. ``weight``: how often it is sent,
    against 2 for an administrator's request.
    """

    needs_id: bool
    is_believed: bool
    is_leased: bool
    has_few_answers: bool
    changes_memory: bool
    waits_for_members: bool
    too_large: ErrorCode
    writes: Writes
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsField:
    """How a request names many groups (``names``) and is reduced to some of them (``cut``).

    ``parts`` is the response's field with one element per group. ``writes`` and ``weight`` as in
    :class:`GroupTraits`.
    """

    names: Callable[[Any], tuple[str, ...]]
    cut: Callable[[Any, Callable[[str], bool]], Entity]
    parts: str
    writes: Writes
    weight: int


def never(_message: Any) -> bool:
    """Return False: no record is written."""
    return False


def always(_message: Any) -> bool:
    """Return True: a record may be written, whatever the message contains."""
    return True


RARE: Final = 2
"""The weight of requests that only administrators send, or a client once per connection."""

NO_GROUP: Final = GroupTraits(
    needs_id=False,
    is_believed=False,
    is_leased=False,
    has_few_answers=False,
    changes_memory=False,
    waits_for_members=False,
    too_large=ErrorCode.unknown_server_error,
    writes=never,
    weight=RARE,
)
"""The traits of a request that is not about one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row.

    ``request`` and ``response`` are the newest versions, as in ``messages``. ``refuse`` puts an
    error in the response where Kafka puts it. ``acl`` None: Kafka requires no permission.
    ``group`` has the traits of a request about groups; ``groups`` is set for :attr:`Route.GROUPS`
    only. ``newest_by_name`` is the newest version that identifies topics by name, for clients that
    know no topic ids. ``is_switched_off``: answered as by a Kafka broker on which the feature is
    disabled.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    route: Route
    request: type[Entity]
    response: type[Entity]
    refuse: Refuse
    acl: Acl | None
    group: GroupTraits
    groups: GroupsField | None
    newest_by_name: int
    is_switched_off: bool
    advertised_min_version: int
    """The lowest version that ApiVersions lists: lower than what is served where Kafka does so."""
    elements_max: int
    """The most elements in all arrays of a request; a connection that sends more is closed."""

    @property
    def retry_error(self) -> ErrorCode | None:
        """The error that makes a client retry later; None if such a request never waits."""
        return RETRY_ERRORS.get(self.route)

    @property
    def weight(self) -> int:
        """How often it is sent, for loads and fuzzers."""
        return self.group.weight if self.groups is None else self.groups.weight

    def writes(self, message: Any) -> bool:
        """Return whether answering ``message`` may write a record to a group's log."""
        traits = self.group if self.groups is None else self.groups
        return traits.writes(message)
