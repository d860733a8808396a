"""The table of APIs: key, versions served, where a request goes, where its error goes.

The versions are exactly those of Kafka 4.3.1. What is not in the table is not advertised, and a
request for it closes the connection: most of what belongs to transactions, delegation tokens, share
and streams groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.wire import admin_messages as admin
from protocol.wire import admin_refusals, refusals
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.refusals import Refusal, Refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity


PRODUCE: Final = 0

ELEMENTS_MAX: Final = 100_000
"""No request has more elements in its arrays: each costs 5 to 45 microseconds from the request's
bytes to the answer's, and all partitions of the process wait meanwhile."""

COSTLY_ELEMENTS_MAX: Final = 20_000
"""The same for APIs whose elements cost more and of which no client sends so many: up to 60."""


class Route(Enum):
    """Who answers a request."""

    NODE = auto()
    """The node that got it, from the catalogue and what it knows of the cluster."""
    GROUP = auto()
    """The partition of the one group that it names."""
    GROUPS = auto()
    """The partitions of the groups that it names; their answers are merged."""
    ALL_GROUPS = auto()
    """Every partition led by the node."""
    CATALOG = auto()
    """The catalogue's leader: the request changes topics or configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row. ``request`` and ``response`` are the newest shapes, as in ``messages``."""

    key: int
    name: str
    min_version: int
    max_version: int
    route: Route
    request: type[Entity]
    response: type[Entity]
    refuse: Refuse
    advertised_min_version: int
    """The lowest version that ApiVersions lists: lower than what is served where Kafka does so."""
    elements_max: int = ELEMENTS_MAX
    """Most elements in all arrays of a request; a connection that sends more is closed."""


def group_id(request: Any) -> str:
    """Name the group of a request whose route is GROUP."""
    named: str = request.group_id
    return named


def group_ids(api_key: int, request: Any) -> tuple[str, ...]:
    """Name the groups of a request whose route is GROUPS, in the request's order."""
    return _GROUPS[api_key].names(request)


def for_groups(api_key: int, request: Any, wanted: Callable[[str], bool]) -> Entity:
    """Cut a GROUPS request down to the groups that ``wanted`` accepts."""
    return _GROUPS[api_key].cut(request, wanted)


def merge(api_key: int, request: Any, responses: Sequence[Any]) -> Entity:
    """Join the answers to the parts of a GROUPS request, in the order of the request."""
    row = _GROUPS[api_key]
    found: dict[str, list[Any]] = {}
    for response in responses:
        for part in getattr(response, row.parts):
            found.setdefault(part.group_id, []).append(part)
    parts = [found[name].pop(0) for name in row.names(request) if found.get(name)]
    return blank(API[api_key].response, **{row.parts: tuple(parts)})


def error_response(
    api_key: int,
    request: Any,
    code: ErrorCode,
    message: str | None = None,
    api_version: int | None = None,
) -> Entity:
    """Answer ``request`` with an error in the place or places where Kafka puts it.

    Give the client's ``api_version`` where it is at hand: OffsetFetch 1 and Fetch before 13 carry
    their errors in the partitions.
    """
    api = API[api_key]
    version = api.max_version if api_version is None else api_version
    return api.refuse(request, Refusal(code, message, version))


def api_versions_response(code: ErrorCode = ErrorCode.none) -> m.ApiVersionsResponse:
    """List what is served; with UNSUPPORTED_VERSION, the answer to a too new ApiVersions."""
    return m.ApiVersionsResponse(error_code=code, api_keys=_ADVERTISED, throttle_time=m.NO_THROTTLE)


def wants_no_answer(api_key: int, request: Any) -> bool:
    """Tell whether a request is one that is never answered: a Produce with acks = 0.

    When it can not be carried out the connection closes: nothing else would tell the producer.
    """
    return api_key == PRODUCE and request.acks == 0


def _api_versions(request: Any, why: Refusal) -> Entity:  # noqa: ARG001
    return api_versions_response(why.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """How a GROUPS request names its groups, and the field that holds a response's parts."""

    names: Callable[[Any], tuple[str, ...]]
    cut: Callable[[Any, Callable[[str], bool]], Entity]
    parts: str


_GROUPS: Final[Mapping[int, _Groups]] = MappingProxyType(
    {
        9: _Groups(
            names=lambda request: tuple(group.group_id for group in request.groups),
            cut=lambda request, wanted: m.OffsetFetchRequest(
                groups=tuple(group for group in request.groups if wanted(group.group_id)),
                require_stable=request.require_stable,
            ),
            parts="groups",
        ),
        15: _Groups(
            names=lambda request: request.groups,
            cut=lambda request, wanted: m.DescribeGroupsRequest(
                groups=tuple(filter(wanted, request.groups)),
                include_authorized_operations=request.include_authorized_operations,
            ),
            parts="groups",
        ),
        42: _Groups(
            names=lambda request: request.groups_names,
            cut=lambda request, wanted: m.DeleteGroupsRequest(
                groups_names=tuple(filter(wanted, request.groups_names))
            ),
            parts="results",
        ),
        69: _Groups(
            names=lambda request: request.group_ids,
            cut=lambda request, wanted: m.ConsumerGroupDescribeRequest(
                group_ids=tuple(filter(wanted, request.group_ids)),
                include_authorized_operations=request.include_authorized_operations,
            ),
            parts="groups",
        ),
    }
)


def _api(  # noqa: PLR0913, PLR0917 - a row of the table
    key: int,
    versions: tuple[int, int],
    route: Route,
    shapes: tuple[type[Entity], type[Entity]],
    refuse: Refuse | None = None,
    elements_max: int = ELEMENTS_MAX,
) -> Api:
    request, response = shapes
    return Api(
        key=key,
        name=request.__name__.removesuffix("Request"),
        min_version=versions[0],
        max_version=versions[1],
        route=route,
        request=request,
        response=response,
        refuse=refuse or refusals.at_top(response),
        advertised_min_version=versions[0],
        elements_max=elements_max,
    )


_ROWS: Final = (
    replace(
        _api(
            PRODUCE, (3, 13), Route.NODE, (m.ProduceRequest, m.ProduceResponse), refusals.produce
        ),
        advertised_min_version=0,  # librdkafka compresses for brokers with Produce 0 (KAFKA-18659)
    ),
    _api(1, (4, 18), Route.NODE, (m.FetchRequest, m.FetchResponse), refusals.fetch),
    _api(
        2, (1, 11), Route.NODE, (m.ListOffsetsRequest, m.ListOffsetsResponse),
        refusals.list_offsets,
    ),
    _api(3, (0, 13), Route.NODE, (m.MetadataRequest, m.MetadataResponse), refusals.metadata),
    _api(
        8, (2, 10), Route.GROUP, (m.OffsetCommitRequest, m.OffsetCommitResponse),
        refusals.offset_commit,
    ),
    _api(
        9, (1, 10), Route.GROUPS, (m.OffsetFetchRequest, m.OffsetFetchResponse),
        refusals.offset_fetch,
    ),
    _api(
        10, (0, 6), Route.NODE, (m.FindCoordinatorRequest, m.FindCoordinatorResponse),
        refusals.find_coordinator,
    ),
    _api(
        11, (0, 9), Route.GROUP, (m.JoinGroupRequest, m.JoinGroupResponse), refusals.join_group
    ),
    _api(12, (0, 4), Route.GROUP, (m.HeartbeatRequest, m.HeartbeatResponse)),
    _api(13, (0, 5), Route.GROUP, (m.LeaveGroupRequest, m.LeaveGroupResponse)),
    _api(14, (0, 5), Route.GROUP, (m.SyncGroupRequest, m.SyncGroupResponse)),
    _api(
        15, (0, 6), Route.GROUPS, (m.DescribeGroupsRequest, m.DescribeGroupsResponse),
        refusals.describe_groups, COSTLY_ELEMENTS_MAX,
    ),
    _api(16, (0, 5), Route.ALL_GROUPS, (m.ListGroupsRequest, m.ListGroupsResponse)),
    _api(17, (0, 1), Route.NODE, (admin.SaslHandshakeRequest, admin.SaslHandshakeResponse)),
    _api(18, (0, 4), Route.NODE, (m.ApiVersionsRequest, m.ApiVersionsResponse), _api_versions),
    _api(
        19, (2, 7), Route.CATALOG, (m.CreateTopicsRequest, m.CreateTopicsResponse),
        refusals.create_topics,
    ),
    _api(
        20, (1, 6), Route.CATALOG, (m.DeleteTopicsRequest, m.DeleteTopicsResponse),
        refusals.delete_topics,
    ),
    _api(
        21, (0, 2), Route.NODE, (admin.DeleteRecordsRequest, admin.DeleteRecordsResponse),
        admin_refusals.delete_records,
    ),
    _api(22, (0, 5), Route.NODE, (admin.InitProducerIdRequest, admin.InitProducerIdResponse)),
    _api(
        23, (2, 4), Route.NODE,
        (m.OffsetForLeaderEpochRequest, m.OffsetForLeaderEpochResponse),
        refusals.offset_for_leader_epoch,
    ),
    _api(29, (1, 3), Route.NODE, (admin.DescribeAclsRequest, admin.DescribeAclsResponse)),
    _api(
        30, (1, 3), Route.NODE, (admin.CreateAclsRequest, admin.CreateAclsResponse),
        admin_refusals.create_acls,
    ),
    _api(
        31, (1, 3), Route.NODE, (admin.DeleteAclsRequest, admin.DeleteAclsResponse),
        admin_refusals.delete_acls,
    ),
    _api(
        32, (1, 4), Route.NODE, (m.DescribeConfigsRequest, m.DescribeConfigsResponse),
        refusals.describe_configs, COSTLY_ELEMENTS_MAX,
    ),
    _api(
        33, (0, 2), Route.CATALOG, (admin.AlterConfigsRequest, admin.AlterConfigsResponse),
        admin_refusals.alter_configs, COSTLY_ELEMENTS_MAX,
    ),
    _api(35, (1, 5), Route.NODE, (admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse)),
    _api(
        37, (0, 3), Route.CATALOG, (m.CreatePartitionsRequest, m.CreatePartitionsResponse),
        refusals.create_partitions,
    ),
    _api(
        42, (0, 2), Route.GROUPS, (m.DeleteGroupsRequest, m.DeleteGroupsResponse),
        refusals.delete_groups,
    ),
    _api(43, (0, 2), Route.NODE, (admin.ElectLeadersRequest, admin.ElectLeadersResponse)),
    _api(
        44, (0, 1), Route.CATALOG,
        (m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsResponse),
        refusals.incremental_alter_configs, COSTLY_ELEMENTS_MAX,
    ),
    _api(
        45, (0, 1), Route.NODE,
        (admin.AlterPartitionReassignmentsRequest, admin.AlterPartitionReassignmentsResponse),
    ),
    _api(
        46, (0, 0), Route.NODE,
        (admin.ListPartitionReassignmentsRequest, admin.ListPartitionReassignmentsResponse),
    ),
    _api(47, (0, 0), Route.GROUP, (m.OffsetDeleteRequest, m.OffsetDeleteResponse)),
    _api(
        48, (0, 1), Route.NODE,
        (admin.DescribeClientQuotasRequest, admin.DescribeClientQuotasResponse),
    ),
    _api(
        50, (0, 0), Route.NODE,
        (admin.DescribeUserScramCredentialsRequest, admin.DescribeUserScramCredentialsResponse),
    ),
    _api(60, (0, 2), Route.NODE, (m.DescribeClusterRequest, m.DescribeClusterResponse)),
    _api(
        61, (0, 0), Route.NODE,
        (admin.DescribeProducersRequest, admin.DescribeProducersResponse),
        admin_refusals.describe_producers,
    ),
    _api(66, (0, 2), Route.NODE, (admin.ListTransactionsRequest, admin.ListTransactionsResponse)),
    _api(
        68, (0, 1), Route.GROUP,
        (m.ConsumerGroupHeartbeatRequest, m.ConsumerGroupHeartbeatResponse),
    ),
    _api(
        69, (0, 1), Route.GROUPS,
        (m.ConsumerGroupDescribeRequest, m.ConsumerGroupDescribeResponse),
        refusals.consumer_group_describe, COSTLY_ELEMENTS_MAX,
    ),
    _api(74, (0, 1), Route.NODE, (m.ListConfigResourcesRequest, m.ListConfigResourcesResponse)),
    _api(
        75, (0, 0), Route.NODE,
        (m.DescribeTopicPartitionsRequest, m.DescribeTopicPartitionsResponse),
        refusals.describe_topic_partitions,
    ),
)  # fmt: skip

API: Final[Mapping[int, Api]] = MappingProxyType({row.key: row for row in _ROWS})
_ADVERTISED: Final = tuple(
    m.ApiVersion(
        api_key=row.key, min_version=row.advertised_min_version, max_version=row.max_version
    )
    for row in _ROWS
)
