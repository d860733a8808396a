"""DescribeConfigs and ListConfigResources: what is configured, where, and why it has its value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from failover.cluster_view import BROKER, CLIENT_METRICS, GROUP, TOPIC
from failover.config_entries import (
    BrokerLayers,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from failover.topic_names import why_invalid
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
    from collections.abc import Callable, Iterable, Mapping

    from kio.static.protocol import Entity

    from failover.cluster_view import ClusterView
    from protocol.groups.effects import Request

BROKER_LOGGER: Final = 8
"""Log levels per broker: this cluster has none to show."""


def describe_configs(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Describe the configs of each resource asked for."""
    message = cast("DescribeConfigsRequest", request.message)
    for resource in message.resources:
        if resource.resource_type not in _DESCRIBERS:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Resource type {resource.resource_type} can not be described.",
            )
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(_described(view, message, resource) for resource in message.resources),
    )


def _described(
    view: ClusterView, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    code, sentence = ErrorCode.none, None
    entries: list[DescribeConfigsResourceResult] = []
    try:
        describe = _DESCRIBERS[resource.resource_type]
        wanted = set(resource.configuration_keys or ())
        entries = [
            _trimmed(message, entry)
            for entry in describe(view, resource.resource_name)
            if not wanted or entry.name in wanted
        ]
    except KafkaError as error:
        code, sentence = error.code, error.message
    return DescribeConfigsResult(
        error_code=code,
        error_message=sentence,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(entries),
    )


def _trimmed(
    message: DescribeConfigsRequest, entry: DescribeConfigsResourceResult
) -> DescribeConfigsResourceResult:
    return replace(
        entry,
        synonyms=entry.synonyms if message.include_synonyms else (),
        documentation=entry.documentation if message.include_documentation else None,
    )


def _layers(view: ClusterView) -> BrokerLayers:
    return BrokerLayers(
        node=view.catalog.overrides_of(BROKER, str(view.node_id)),
        cluster=view.catalog.overrides_of(BROKER, ""),
        static=view.static_configs.overrides,
    )


def _broker(view: ClusterView, name: str) -> Iterable[DescribeConfigsResourceResult]:
    if not name:
        return cluster_entries(view.catalog.overrides_of(BROKER, ""))
    _check_own_id(view, name)
    return broker_entries(_layers(view))


def _check_own_id(view: ClusterView, name: str) -> None:
    """Only a broker itself knows its static configs."""
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"'{name}' is not the id of a broker."
        ) from None
    if node_id != view.node_id:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Broker {view.node_id} can not describe broker {name}: ask that one.",
        )


def _topic(view: ClusterView, name: str) -> Iterable[DescribeConfigsResourceResult]:
    if problem := why_invalid(name):
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    if name not in view.catalog.topics:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return topic_entries(view.catalog.overrides_of(TOPIC, name), _layers(view))


def _group(view: ClusterView, name: str) -> Iterable[DescribeConfigsResourceResult]:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "A group's id must not be empty.")
    return group_entries(view.catalog.overrides_of(GROUP, name), _layers(view))


def _broker_logger(view: ClusterView, name: str) -> Iterable[DescribeConfigsResourceResult]:
    _check_own_id(view, name)
    return ()


def _client_metrics(view: ClusterView, name: str) -> Iterable[DescribeConfigsResourceResult]:  # noqa: ARG001
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "A subscription's name must not be empty.")
    return ()


def list_config_resources(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List what can be configured (KIP-1142); version 0 knows client metrics only, so nothing."""
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


_DESCRIBERS: Mapping[int, Callable[[ClusterView, str], Iterable[DescribeConfigsResourceResult]]] = {
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
