"""A fault reaches every API that is served: over a socket, in its oldest and its newest version."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from actors.cli.client import parse_bootstrap
from actors.client.blocking import BlockingConnection
from actors.testing.cluster import ClusterForTests
from protocol.wire.api import Api, Route
from protocol.wire.apis import API, PRODUCE
from protocol.wire.convert import default_of, unwrap
from protocol.wire.errors import ErrorCode
from tests.protocol.wire.test_apis import codes
from tests.waiting import WITHIN_S

ERROR = ErrorCode.delegation_token_expired
"""No request gets it otherwise: there are no delegation tokens here."""

NO_PLACE = {(35, 1), (35, 2)}
"""Versions whose answers have no place for an error of the request, in Kafka as well: those of
DescribeLogDirs without a top-level error."""

GROUP = "x"
COUNT = 2
EVERY_API = pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)


def sample(shape: type) -> Any:
    """Return a message with one element in each array, and :data:`GROUP` in each text."""
    return shape(**{each.name: _value(each) for each in fields(shape)})


def _value(column: Any) -> Any:
    kind, is_array, nullable = unwrap(column)
    if is_dataclass(kind):
        one = sample(kind)  # type: ignore[arg-type]
    elif column.metadata["kafka_type"] == "string":
        one = GROUP
    elif column.metadata["kafka_type"] == "uuid":
        one = UUID(int=7)
    elif is_array:
        one = 0
    else:
        return default_of(column)
    if is_array:
        return (one,)
    return None if nullable and is_dataclass(kind) else one


def request_of(api: Api) -> Any:
    """Return a request of an API; a Produce that is to be answered."""
    made = sample(api.request)
    return replace(made, acks=-1) if api.key == PRODUCE else made


class Client:
    """A client of one coordinator: the first one, whoever leads the group."""

    def __init__(self, cluster: ClusterForTests) -> None:
        (self._address, *_) = parse_bootstrap(cluster.bootstrap)

    def ask(self, api: Api, version: int) -> set[ErrorCode]:
        """Send a request; return the errors in its answer."""
        agreed = {api.key: version}
        with BlockingConnection(self._address, WITHIN_S, "a-client", agreed) as connection:
            return codes(connection.ask(request_of(api)))


@EVERY_API
def test_as_many_requests_of_any_api_as_asked_for_get_the_error(
    rollcall_cluster: ClusterForTests, api: Api
) -> None:
    client = Client(rollcall_cluster)
    rollcall_cluster.fault(api.name, ERROR.name.upper(), COUNT)
    for version in (api.min_version, api.max_version):
        found = client.ask(api, version)
        assert (ERROR in found) is ((api.key, version) not in NO_PLACE), version
    assert rollcall_cluster.faults_left() == 0
    assert ERROR not in client.ask(api, api.max_version)


OF_GROUPS = [api for api in API.values() if api.route in (Route.GROUP, Route.GROUPS)]


@pytest.mark.parametrize("api", OF_GROUPS, ids=lambda api: api.name)
def test_a_fault_of_one_group_leaves_requests_about_others_alone(
    rollcall_cluster: ClusterForTests, api: Api
) -> None:
    client = Client(rollcall_cluster)
    rollcall_cluster.fault(api.name, ERROR.name.upper(), 1, group="another")
    assert ERROR not in client.ask(api, api.max_version)
    rollcall_cluster.fault(api.name, ERROR.name.upper(), 1, group=GROUP)
    assert ERROR in client.ask(api, api.max_version)
    assert rollcall_cluster.faults_left() == 1
