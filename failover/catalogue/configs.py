"""IncrementalAlterConfigs (KIP-339) and AlterConfigs: dynamic configs of all resources.

The older AlterConfigs replaces all configs of a resource: those that it does not name are removed.
Resources are independent: an invalid one gets an error and stays unchanged, the others are changed.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar, cast

from failover.catalogue.cluster_view import BROKER, GROUP, TOPIC
from failover.catalogue.records import config_record
from failover.catalogue.topic_names import why_invalid
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
from protocol.wire.admin_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    LegacyConfigsResource,
    LegacyConfigsResourceResponse,
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from failover.catalogue.state import CatalogState
    from protocol.groups.effects import Request

    Changes = dict[str, str | None]
    """New texts by config name; None removes the override."""


T = TypeVar("T", AlterConfigsResourceResponse, LegacyConfigsResourceResponse)


SUGGESTIONS_MAX: Final = 8
"""Above this many resources or topics, an error does not suggest which config was meant."""


class Operation(IntEnum):
    """What to do with a config; the numbers are those of the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(catalog: CatalogState, request: Request) -> None:
    """Change the resources whose changes are all valid."""
    message = cast("IncrementalAlterConfigsRequest", request.message)
    errors = _alter(catalog, message.resources, validate_only=message.validate_only)
    catalog.reply(
        request,
        IncrementalAlterConfigsResponse(
            throttle_time=NO_THROTTLE,
            responses=tuple(_answers(AlterConfigsResourceResponse, message.resources, errors)),
        ),
    )


def alter_configs(catalog: CatalogState, request: Request) -> None:
    """Replace the configs of the resources whose new ones are all valid."""
    message = cast("AlterConfigsRequest", request.message)
    changes = [_replacement(catalog, resource) for resource in message.resources]
    errors = _alter(catalog, changes, validate_only=message.validate_only)
    catalog.reply(
        request,
        AlterConfigsResponse(
            throttle_time=NO_THROTTLE,
            responses=tuple(_answers(LegacyConfigsResourceResponse, message.resources, errors)),
        ),
    )


def _replacement(catalog: CatalogState, resource: LegacyConfigsResource) -> AlterConfigsResource:
    """Convert AlterConfigs to operations: set what is named, delete everything else."""
    named = {config.name for config in resource.configs}
    current = catalog.overrides_of((resource.resource_type, resource.resource_name))
    settings = [
        AlterableConfig(name=one.name, config_operation=Operation.SET, value=one.value)
        for one in resource.configs
    ]
    deletions = [
        AlterableConfig(name=name, config_operation=Operation.DELETE, value=None)
        for name in current
        if name not in named
    ]
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(*settings, *deletions),
    )


def _alter(
    catalog: CatalogState, resources: Sequence[AlterConfigsResource], *, validate_only: bool
) -> list[KafkaError | None]:
    """Change what is valid; return the errors of the resources, in their order."""
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    suggests = len(resources) <= SUGGESTIONS_MAX
    errors: list[KafkaError | None] = []
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        try:
            if counts[key] > 1:
                raise KafkaError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            changes = _validated(catalog, resource, suggests)
        except KafkaError as error:
            errors.append(error)
            continue
        errors.append(None)
        if not validate_only:
            _apply(catalog, key, changes)
    return errors


def _answers(
    kind: type[T],
    resources: Sequence[AlterConfigsResource | LegacyConfigsResource],
    errors: Sequence[KafkaError | None],
) -> Iterator[T]:
    for resource, error in zip(resources, errors, strict=True):
        yield kind(
            error_code=ErrorCode.none if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )


def _apply(catalog: CatalogState, key: tuple[int, str], changes: Changes) -> None:
    current = catalog.overrides_of(key)
    for name, text in changes.items():
        if text != current.get(name):
            catalog.emit(config_record(key, name, text))


def _validated(catalog: CatalogState, resource: AlterConfigsResource, suggests: bool) -> Changes:
    """Return the changes of one resource, after checking every rule."""
    check = _CHECKS.get(resource.resource_type)
    if check is None:
        raise KafkaError(
            ErrorCode.invalid_request, f"Resource type {resource.resource_type} cannot be altered."
        )
    _check_operations(resource)
    key = (resource.resource_type, resource.resource_name)
    current = catalog.overrides_of(key)
    scope = Scope(resource.resource_type)
    changes = {one.name: _changed(scope, one, current.get(one.name)) for one in resource.configs}
    after = {**current, **changes}
    remaining = {name: text for name, text in after.items() if text is not None}
    check(catalog, resource.resource_name, changes, remaining, suggests)
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
    """Return a config's text after the operation, None when the override is removed."""
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
    catalog: CatalogState,
    name: str,
    changes: Changes,
    remaining: Mapping[str, str],
    suggests: bool,
) -> None:
    _check_broker_name(catalog, name)
    for config in changes:
        try:
            row = find(config, suggests=suggests)
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None
        if not row.dynamic:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Config {config} cannot be changed while the broker runs.",
            )
    _check_values(changes, Scope.BROKER, suggests)
    try:
        catalog.configs.with_overrides(remaining)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_config, str(error)) from None


def _check_broker_name(catalog: CatalogState, name: str) -> None:
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
    catalog: CatalogState,
    name: str,
    changes: Changes,
    remaining: Mapping[str, str],
    suggests: bool,
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Topics have no default resource.")
    if problem := why_invalid(name):
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    check_topic_configs(remaining, suggests)
    _check_names(changes, Scope.TOPIC, suggests)
    if catalog.topic(name) is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
        )


def _check_group(
    catalog: CatalogState,
    name: str,
    changes: Changes,
    remaining: Mapping[str, str],
    suggests: bool,
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Groups have no default resource.")
    _check_names(changes, Scope.GROUP, suggests)
    if problem := validate_group(remaining, catalog.configs):
        raise KafkaError(ErrorCode.invalid_config, problem)


def check_topic_configs(configs: Mapping[str, str], suggests: bool = True) -> None:
    """Refuse a topic's configs with INVALID_CONFIG when one is unknown or out of bounds."""
    _check_values(configs, Scope.TOPIC, suggests)


def _check_values(configs: Mapping[str, str | None], scope: Scope, suggests: bool) -> None:
    for name, text in configs.items():
        problem = None if text is None else validate(name, text, scope, suggests=suggests)
        if problem:
            raise KafkaError(ErrorCode.invalid_config, problem)


def _check_names(changes: Changes, scope: Scope, suggests: bool) -> None:
    """Refuse also to delete a config that does not exist: it is a typing error."""
    for name in changes:
        try:
            find(name, scope, suggests=suggests)
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None


_CHECKS: Mapping[int, Callable[[CatalogState, str, Changes, Mapping[str, str], bool], None]] = {
    BROKER: _check_broker,
    TOPIC: _check_topic,
    GROUP: _check_group,
}

HANDLERS: Mapping[int, Callable[[CatalogState, Request], None]] = {
    33: alter_configs,
    44: incremental_alter_configs,
}
