"""DescribeConfigs and ListConfigResources: the configs, where they are set, and their sources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from failover.apis.own_entries import OwnEntries
from failover.catalogue.cluster_view import BROKER, CLIENT_METRICS, GROUP, TOPIC
from failover.catalogue.config_entries import (
    BrokerLayers,
    broker_entries,
    bytes_of,
    cluster_entries,
    groups_entries,
    topics_entries,
)
from failover.catalogue.topic_names import why_invalid
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request

BROKER_LOGGER: Final = 8
"""Log levels per broker: this cluster has none."""

ANSWER_BYTES_MAX: Final = 64 << 20
"""The most bytes of all entries of an answer; later resources are refused."""


def describe_configs(view: ClusterView, request: Request, now_ms: int) -> Entity:
    """Describe the configs of each requested resource."""
    message = cast("DescribeConfigsRequest", request.message)
    for resource in message.resources:
        if resource.resource_type not in _DESCRIBERS:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Resource type {resource.resource_type} cannot be described.",
            )
    answers = _Answers(view, message, request.api_version, now_ms)
    asked = {
        (one.resource_type, one.resource_name, frozenset(one.configuration_keys or ())): one
        for one in reversed(message.resources)
    }
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(answers.described(asked[key]) for key in reversed(asked)),
    )


class _Answers:
    """State shared by the answers to one request: equal entries are built once."""

    def __init__(
        self, view: ClusterView, message: DescribeConfigsRequest, api_version: int, now: int
    ) -> None:
        self.view = view
        self._message = message
        self._own = OwnEntries(view, api_version, now)
        self._room_bytes = ANSWER_BYTES_MAX
        self._sizes: dict[int, int] = {}
        layers = _layers(view)
        self.node = broker_entries(layers, self._trimmed)
        self.cluster = cluster_entries(layers.cluster, self._trimmed)
        self.topics = topics_entries(layers, self._trimmed)
        self.groups = groups_entries(layers, self._trimmed)

    def described(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        code, sentence = ErrorCode.none, None
        entries: Sequence[DescribeConfigsResourceResult] = ()
        kind, name = resource.resource_type, resource.resource_name
        wanted = frozenset(resource.configuration_keys or ())
        try:
            entries = _DESCRIBERS[kind](self, name, wanted)
            if wanted:
                entries = (*entries, *map(self._trimmed, self._own.of(kind, name, wanted)))
            self._take_room(entries)
        except KafkaError as error:
            code, sentence, entries = error.code, error.message, ()
        return DescribeConfigsResult(
            error_code=code,
            error_message=sentence,
            resource_type=kind,
            resource_name=name,
            configs=tuple(entries),
        )

    def _take_room(self, entries: Sequence[DescribeConfigsResourceResult]) -> None:
        """Refuse a resource for which the answer has no more room.

        A broker's id can be written in many ways, and each is described.
        """
        sizes = self._sizes  # of entries that this answer holds, most of them many times
        for entry in entries:
            if id(entry) not in sizes:
                sizes[id(entry)] = bytes_of(entry)
            self._room_bytes -= sizes[id(entry)]
        if self._room_bytes < 0:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"The answer would have more than {ANSWER_BYTES_MAX >> 20} MiB: ask for fewer"
                " resources at a time.",
            )

    def _trimmed(self, entry: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
        return replace(
            entry,
            synonyms=entry.synonyms if self._message.include_synonyms else (),
            documentation=entry.documentation if self._message.include_documentation else None,
        )


def _layers(view: ClusterView) -> BrokerLayers:
    return BrokerLayers(
        node=view.catalog.overrides_of(BROKER, str(view.node_id)),
        cluster=view.catalog.overrides_of(BROKER, ""),
        static=view.static_configs.overrides,
    )


def _broker(
    answers: _Answers, name: str, wanted: Set[str]
) -> Sequence[DescribeConfigsResourceResult]:
    if not name:
        return answers.cluster.of(wanted)
    _check_own_id(answers.view, name)
    return answers.node.of(wanted)


def _check_own_id(view: ClusterView, name: str) -> None:
    """Refuse another broker's id: only a broker itself knows its static configs."""
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"'{name}' is not the id of a broker."
        ) from None
    if node_id != view.node_id:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Broker {view.node_id} cannot describe broker {name}: ask that one.",
        )


def _topic(
    answers: _Answers, name: str, wanted: Set[str]
) -> Sequence[DescribeConfigsResourceResult]:
    catalog = answers.view.catalog
    if problem := why_invalid(name):
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    if name not in catalog.topics:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return answers.topics.of(catalog.overrides_of(TOPIC, name), wanted)


def _group(
    answers: _Answers, name: str, wanted: Set[str]
) -> Sequence[DescribeConfigsResourceResult]:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "A group's id must not be empty.")
    return answers.groups.of(answers.view.catalog.overrides_of(GROUP, name), wanted)


def _broker_logger(
    answers: _Answers,
    name: str,
    wanted: Set[str],  # noqa: ARG001
) -> Sequence[DescribeConfigsResourceResult]:
    _check_own_id(answers.view, name)
    return ()


def _client_metrics(
    answers: _Answers,  # noqa: ARG001
    name: str,
    wanted: Set[str],  # noqa: ARG001
) -> Sequence[DescribeConfigsResourceResult]:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "A subscription's name must not be empty.")
    return ()


def list_config_resources(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List what can be configured (KIP-1142); version 0 covers only client metrics, so nothing."""
    message = cast("ListConfigResourcesRequest", request.message)
    known = _LISTERS if request.api_version >= 1 else {CLIENT_METRICS: _LISTERS[CLIENT_METRICS]}
    asked = set(message.resource_types) or set(known)
    if not asked <= set(known):
        raise KafkaError(ErrorCode.unsupported_version)
    resources = tuple(
        ConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type, names in known.items()
        if resource_type in asked
        for name in names(view)
    )
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, config_resources=resources
    )


def _configured_groups(view: ClusterView) -> Iterable[str]:
    return sorted(name for kind, name in view.catalog.overrides if kind == GROUP)


def _node_names(view: ClusterView) -> Iterable[str]:
    return (str(node_id) for node_id in view.catalog.nodes)


_Describer: TypeAlias = (
    "Callable[[_Answers, str, Set[str]], Sequence[DescribeConfigsResourceResult]]"
)

_DESCRIBERS: Mapping[int, _Describer] = {
    TOPIC: _topic,
    BROKER: _broker,
    BROKER_LOGGER: _broker_logger,
    CLIENT_METRICS: _client_metrics,
    GROUP: _group,
}

_LISTERS: Mapping[int, Callable[[ClusterView], Iterable[str]]] = {
    GROUP: _configured_groups,
    CLIENT_METRICS: lambda _: (),
    BROKER_LOGGER: _node_names,
    BROKER: _node_names,
    TOPIC: lambda view: view.catalog.topics.names(),
}


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    32: describe_configs,
    74: list_config_resources,
}
