"""``rollcall configs``: describe and alter configs; flags as in ``kafka-configs.sh``."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.session import add_connection_flags, connected, show, tell_done
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Mapping

    from actors.cli.client import AdminClient


class Resource(IntEnum):
    """Kafka's numbers of the resources that have configs."""

    TOPICS = 2
    BROKERS = 4
    GROUPS = 32


SET, DELETE = 0, 1
TOPIC_SOURCE, BROKER_SOURCE, DEFAULT_BROKER_SOURCE, GROUP_SOURCE = 1, 2, 3, 8
OWN_SOURCES: Final[Mapping[Resource, int]] = {
    Resource.TOPICS: TOPIC_SOURCE,
    Resource.BROKERS: BROKER_SOURCE,
    Resource.GROUPS: GROUP_SOURCE,
}
"""Where a resource's own configs come from, as opposed to the brokers' and the defaults."""

SOURCES: Final[Mapping[int, str]] = {
    TOPIC_SOURCE: "topic",
    BROKER_SOURCE: "broker",
    DEFAULT_BROKER_SOURCE: "all brokers",
    4: "server file",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    GROUP_SOURCE: "group",
}


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall configs``."""
    parser = subparsers.add_parser("configs", help="describe and alter configs")
    add_connection_flags(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name in ("describe", "alter"):
        action.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, help=f"{name} configs"
        )
    types = [each.name.lower() for each in Resource]
    parser.add_argument("--entity-type", required=True, choices=types, help="the type of resource")
    parser.add_argument("--entity-name", metavar="NAME", help="a topic, a node id or a group id")
    parser.add_argument(
        "--entity-default", action="store_true", help="with brokers: the cluster-wide default"
    )
    parser.add_argument(
        "--all", action="store_true", help="also show values that are not the resource's own"
    )
    parser.add_argument(
        "--add-config", metavar="K=V,...", help="set configs; write a value with commas as K=[A,B]"
    )
    parser.add_argument("--delete-config", metavar="K,...", help="reset configs to their defaults")
    parser.set_defaults(run=connected(configs))


def configs(client: AdminClient, args: Namespace) -> int:
    """Describe or alter."""
    resource = Resource[args.entity_type.upper()]
    if args.entity_default and (args.entity_name is not None or resource is not Resource.BROKERS):
        raise BadInputError("--entity-default is for brokers and excludes --entity-name")
    name = "" if args.entity_default else args.entity_name
    if args.action == "describe":
        return _describe(client, resource, name, args)
    if name is None:
        raise BadInputError("--alter needs --entity-name or --entity-default")
    return _alter(client, (resource, name), args)


def _describe(client: AdminClient, resource: Resource, name: str | None, args: Namespace) -> int:
    if args.add_config or args.delete_config:
        raise BadInputError("--add-config and --delete-config need --alter")
    names = [name] if name is not None else _names(client, resource, even_without_own=args.all)
    own = OWN_SOURCES[resource]
    rows = [
        (each or "(default)", entry.name, _value(entry), SOURCES.get(entry.config_source, "?"))
        for each in names
        for entry in _entries(client, resource, each)
        if args.all or entry.config_source == (own if each else DEFAULT_BROKER_SOURCE)
    ]
    show(args, (args.entity_type.upper().removesuffix("S"), "NAME", "VALUE", "SOURCE"), rows)
    return 0


def group_configs(client: AdminClient) -> dict[str, list[tuple[str, str]]]:
    """Return the dynamic configs of groups, by group id."""
    return {
        group_id: [
            (entry.name, entry.value or "")
            for entry in _entries(client, Resource.GROUPS, group_id)
            if entry.config_source == GROUP_SOURCE
        ]
        for group_id in _names(client, Resource.GROUPS)
    }


def _names(client: AdminClient, resource: Resource, *, even_without_own: bool = False) -> list[str]:
    """Find every resource of a type: of groups those with configs of their own, or all."""
    if resource is Resource.BROKERS:
        return [*(str(node_id) for node_id in sorted(client.brokers())), ""]
    if resource is Resource.TOPICS:
        return sorted(str(topic.name) for topic in client.metadata(None).topics)
    answer = client.ask(ListConfigResourcesRequest(resource_types=(resource,)))
    if answer.error_code != ErrorCode.none:
        raise ClientError(f"the resources cannot be listed: {admin.said(answer.error_code)}")
    names = {
        str(each.resource_name)
        for each in answer.config_resources
        if each.resource_type == resource  # before Kafka 4.1 brokers list client metrics only
    }
    if even_without_own:
        names |= {str(each.group_id) for each in admin.list_groups(client, (), ())}
    return sorted(names)


def _entries(client: AdminClient, resource: Resource, name: str) -> list[Any]:
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(
                resource_type=resource, resource_name=name, configuration_keys=None
            ),
        )
    )
    if resource is Resource.BROKERS and name:
        answer = client.ask_at(_broker(client, name), request)
    else:
        answer = client.ask(request)
    (result,) = answer.results
    if result.error_code != ErrorCode.none:
        why = admin.said(result.error_code, result.error_message)
        raise ClientError(f"{_shown(resource, name)} cannot be described: {why}")
    return sorted(result.configs, key=lambda entry: str(entry.name))


def _broker(client: AdminClient, name: str) -> tuple[str, int]:
    brokers = client.brokers()
    if not name.isdecimal() or int(name) not in brokers:
        raise ClientError(f"there is no broker {name}; the brokers are {_listed(brokers)}")
    return brokers[int(name)]


def _listed(brokers: Mapping[int, object]) -> str:
    return ", ".join(str(node_id) for node_id in sorted(brokers))


def _value(entry: Any) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


def _alter(client: AdminClient, entity: tuple[Resource, str], args: Namespace) -> int:
    resource, name = entity
    changes = [
        AlterableConfig(name=key, config_operation=SET, value=value)
        for key, value in parse_configs(args.add_config or "").items()
    ]
    changes += [
        AlterableConfig(name=key.strip(), config_operation=DELETE, value=None)
        for key in (args.delete_config or "").split(",")
        if key.strip()
    ]
    if not changes:
        raise BadInputError("--alter needs --add-config or --delete-config")
    request = IncrementalAlterConfigsRequest(
        resources=(
            AlterConfigsResource(
                resource_type=resource, resource_name=name, configs=tuple(changes)
            ),
        ),
        validate_only=False,
    )
    if resource is Resource.BROKERS and name:
        answer = client.ask_at(_broker(client, name), request)
    else:
        answer = client.ask(request)
    (result,) = answer.responses
    if result.error_code != ErrorCode.none:
        why = admin.said(result.error_code, result.error_message)
        raise ClientError(f"{_shown(resource, name)} could not be altered: {why}")
    header = (args.entity_type.upper().removesuffix("S"), "STATUS")
    tell_done(args, f"{_shown(resource, name)} is altered", header, (name, "altered"))
    return 0


def _shown(resource: Resource, name: str) -> str:
    kind = resource.name.lower().removesuffix("s")
    return f"{kind} {name}" if name else f"the default of every {kind}"


def parse_configs(text: str) -> dict[str, str]:
    """Read ``K=V,K=[A,B]``; brackets around a value allow commas in it and are removed."""
    found: dict[str, str] = {}
    rest = text.strip()
    while rest:
        name, equals, after = rest.partition("=")
        if not equals or not name.strip() or "," in name:
            raise BadInputError(f"{text!r} is not a list of configs: give K=V,K=[A,B]")
        if after.startswith("["):
            value, closing, rest = after[1:].partition("]")
            if not closing or (rest and not rest.startswith(",")):
                raise BadInputError(f"{text!r}: a bracket is not closed")
            rest = rest.removeprefix(",")
        else:
            value, _, rest = after.partition(",")
        found[name.strip()] = value.strip()
        rest = rest.strip()
    return found
