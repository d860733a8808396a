"""IncrementalAlterConfigs (KIP-339): dynamic configs of brokers, topics and groups.

Resources stand for themselves: a bad one gets its error and changes nothing, the others are
changed.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from failover.catalog_records import config_record
from failover.cluster_view import BROKER, GROUP, TOPIC
from failover.topic_names import why_invalid
from protocol.config import (
    CONFIGS,
    ConfigError,
    ConfigType,
    Scope,
    find,
    text_of,
    validate,
    validate_group,
)
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.catalog import Catalog
    from protocol.groups.effects import Request

    Changes = dict[str, str | None]
    """New texts by config name; None takes the override away."""


class Operation(IntEnum):
    """What to do with a config; the numbers are those of the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def alter_configs(catalog: Catalog, request: Request) -> None:
    """Change the resources whose changes are all valid."""
    message = cast("IncrementalAlterConfigsRequest", request.message)
    counts = Counter((one.resource_type, one.resource_name) for one in message.resources)
    answers = []
    for resource in message.resources:
        key = (resource.resource_type, resource.resource_name)
        code, sentence = ErrorCode.none, None
        try:
            if counts[key] > 1:
                raise KafkaError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            changes = _validated(catalog, resource)
            if not message.validate_only:
                _apply(catalog, key, changes)
        except KafkaError as error:
            code, sentence = error.code, error.message
        answers.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=sentence,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    catalog.reply(
        request,
        IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(answers)),
    )


def _apply(catalog: Catalog, key: tuple[int, str], changes: Changes) -> None:
    current = catalog.overrides_of(key)
    for name, text in changes.items():
        if text != current.get(name):
            catalog.emit(config_record(key, name, text))


def _validated(catalog: Catalog, resource: AlterConfigsResource) -> Changes:
    """Return the changes of one resource; every rule has been checked."""
    check = _CHECKS.get(resource.resource_type)
    if check is None:
        raise KafkaError(
            ErrorCode.invalid_request, f"Resource type {resource.resource_type} can not be altered."
        )
    _check_operations(resource)
    key = (resource.resource_type, resource.resource_name)
    current = catalog.overrides_of(key)
    scope = Scope(resource.resource_type)
    changes = {one.name: _changed(scope, one, current.get(one.name)) for one in resource.configs}
    after = {**current, **changes}
    remaining = {name: text for name, text in after.items() if text is not None}
    check(catalog, resource.resource_name, changes, remaining)
    return changes


def _check_operations(resource: AlterConfigsResource) -> None:
    names = Counter(config.name for config in resource.configs)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise KafkaError(
            ErrorCode.invalid_request, f"Config {repeated[0]} is named more than once."
        )
    for config in resource.configs:
        if config.config_operation not in Operation.__members__.values():
            raise KafkaError(
                ErrorCode.invalid_request, f"Operation {config.config_operation} is not known."
            )
        if config.value is None and config.config_operation != Operation.DELETE:
            raise KafkaError(
                ErrorCode.invalid_request, f"The value of {config.name} must not be null."
            )


def _changed(scope: Scope, config: AlterableConfig, current: str | None) -> str | None:
    """Return the text a config has after the operation, None when the override is gone."""
    if config.config_operation == Operation.DELETE:
        return None
    assert config.value is not None
    if config.config_operation == Operation.SET:
        return config.value
    row = CONFIGS[scope].get(config.name)
    operation = Operation(config.config_operation).name
    if row is None or row.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"{operation} is not possible for {config.name}: it is not a list.",
        )
    text = text_of(row.default) if current is None else current
    items = [item for item in text.split(",") if item]
    for item in config.value.split(","):
        if config.config_operation == Operation.APPEND and item not in items:
            items.append(item)
        elif config.config_operation == Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_broker(
    catalog: Catalog, name: str, changes: Changes, remaining: Mapping[str, str]
) -> None:
    _check_broker_name(catalog, name)
    for config in changes:
        try:
            row = find(config)
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None
        if not row.dynamic:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Config {config} can not be changed while the broker runs.",
            )
    _check_values(changes, Scope.BROKER)
    try:
        catalog.configs.with_overrides(remaining)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_config, str(error)) from None


def _check_broker_name(catalog: Catalog, name: str) -> None:
    """Accept "" (all brokers) and the id of a registered node."""
    if not name:
        return
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"'{name}' is not the id of a broker."
        ) from None
    if node_id not in catalog.node_ids():
        raise KafkaError(
            ErrorCode.broker_id_not_registered, f"No broker with id {node_id} is registered."
        )


def _check_topic(
    catalog: Catalog, name: str, changes: Changes, remaining: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Topics have no default resource.")
    if problem := why_invalid(name):
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    check_topic_configs(remaining)
    _check_names(changes, Scope.TOPIC)
    if catalog.topic(name) is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
        )


def _check_group(
    catalog: Catalog, name: str, changes: Changes, remaining: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Groups have no default resource.")
    _check_names(changes, Scope.GROUP)
    if problem := validate_group(remaining, catalog.configs):
        raise KafkaError(ErrorCode.invalid_config, problem)


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Refuse a topic's configs with INVALID_CONFIG when one is unknown or out of bounds."""
    _check_values(configs, Scope.TOPIC)


def _check_values(configs: Mapping[str, str | None], scope: Scope) -> None:
    for name, text in configs.items():
        problem = None if text is None else validate(name, text, scope)
        if problem:
            raise KafkaError(ErrorCode.invalid_config, problem)


def _check_names(changes: Changes, scope: Scope) -> None:
    """Refuse to delete what does not exist, too: it is a typing error."""
    for name in changes:
        try:
            find(name, scope)
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None


_CHECKS: Mapping[int, Callable[[Catalog, str, Changes, Mapping[str, str]], None]] = {
    BROKER: _check_broker,
    TOPIC: _check_topic,
    GROUP: _check_group,
}

HANDLERS: Mapping[int, Callable[[Catalog, Request], None]] = {44: alter_configs}
