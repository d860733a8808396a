"""Builders of the rows of the API table, one function for each kind of route.

Each gets the first and last version, the newest versions of request and response, the permission
that Kafka's authorizer checks, the traits, and the place of an error (None: top of the response).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.wire import refusals
from protocol.wire.api import NO_GROUP, Acl, Api, GroupsField, GroupTraits, Route

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from protocol.wire.refusals import Refuse

ELEMENTS_MAX: Final = 100_000
"""The most elements in a request's arrays: each costs 5 to 45 microseconds from the request's
bytes to the answer's, and all partitions of the process wait meanwhile."""

COSTLY_ELEMENTS_MAX: Final = 20_000
"""The same for APIs with costlier elements (up to 60) of which no client sends so many."""

READ_GROUP: Final = Acl("Group", "Read")
DESCRIBE_GROUP: Final = Acl("Group", "Describe")
DELETE_GROUP: Final = Acl("Group", "Delete")
READ_TOPIC: Final = Acl("Topic", "Read")
WRITE_TOPIC: Final = Acl("Topic", "Write")
DESCRIBE_TOPIC: Final = Acl("Topic", "Describe")
CREATE_TOPIC: Final = Acl("Topic", "Create")
DELETE_TOPIC: Final = Acl("Topic", "Delete")
ALTER_TOPIC: Final = Acl("Topic", "Alter")
DESCRIBE_CLUSTER: Final = Acl("Cluster", "Describe")
CLUSTER_ACTION: Final = Acl("Cluster", "ClusterAction")
ALTER_CLUSTER: Final = Acl("Cluster", "Alter")
WRITE_ONCE: Final = Acl("Cluster", "IdempotentWrite")
DESCRIBE_CONFIGS: Final = Acl("the resource (Topic, Group, Cluster)", "DescribeConfigs")
ALTER_CONFIGS: Final = Acl("the resource (Topic, Group, Cluster)", "AlterConfigs")
DESCRIBE_TRANSACTION: Final = Acl("TransactionalId", "Describe")
NO_ACL: Final = None


def _api(  # noqa: PLR0913, PLR0917 - a row of the table
    versions: tuple[int, int],
    route: Route,
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    refuse: Refuse | None,
    traits: GroupTraits | GroupsField | None = None,
) -> Api:
    request, response = shapes
    return Api(
        key=int(request.__api_key__),  # type: ignore[attr-defined]  # every payload has one
        name=request.__name__.removesuffix("Request"),
        min_version=versions[0],
        max_version=versions[1],
        route=route,
        request=request,
        response=response,
        refuse=refuse or refusals.at_top(response),
        acl=acl,
        group=traits if isinstance(traits, GroupTraits) else NO_GROUP,
        groups=traits if isinstance(traits, GroupsField) else None,
        newest_by_name=versions[1],
        is_switched_off=False,
        advertised_min_version=versions[0],
        elements_max=ELEMENTS_MAX,
    )


def node(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    refuse: Refuse | None = None,
) -> Api:
    """Build the row of an API that any node answers."""
    return _api(versions, Route.NODE, shapes, acl, refuse)


def catalog(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    refuse: Refuse | None = None,
) -> Api:
    """Build the row of a change of topics or configs: its records are in the catalogue's log."""
    return _api(versions, Route.CATALOG, shapes, acl, refuse)


def group(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    traits: GroupTraits,
    refuse: Refuse | None = None,
) -> Api:
    """Build the row of a request about one group, given by its ``group_id``."""
    return _api(versions, Route.GROUP, shapes, acl, refuse, traits)


def share_state(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    traits: GroupTraits,
    refuse: Refuse,
) -> Api:
    """Build the row of a request of brokers about the share state of a group's partitions."""
    return _api(versions, Route.SHARE_STATE, shapes, CLUSTER_ACTION, refuse, traits)


def groups(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    traits: GroupsField,
    refuse: Refuse,
) -> Api:
    """Build the row of a request about many groups."""
    return _api(versions, Route.GROUPS, shapes, acl, refuse, traits)


def all_groups(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    acl: Acl | None,
    refuse: Refuse | None = None,
) -> Api:
    """Build the row of a request that every partition led by the node answers."""
    return _api(versions, Route.ALL_GROUPS, shapes, acl, refuse)


def costly(api: Api) -> Api:
    """Lower the limit on a request's elements: each costs more than in other APIs."""
    return replace(api, elements_max=COSTLY_ELEMENTS_MAX)


def switched_off(api: Api) -> Api:
    """Mark an API that is answered as by a Kafka broker on which it is disabled."""
    return replace(api, is_switched_off=True)


def by_name_until(version: int, api: Api) -> Api:
    """Set the newest version that identifies topics by name; later ones use ids."""
    return replace(api, newest_by_name=version)
