"""The tables are whole: each row has its handler, each trait is what the request really does."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from failover.apis import produce, transactions, unused
from failover.apis.table import NODE_HANDLERS
from failover.catalogue import catalog, records, state
from protocol.groups.group_types import TABLES
from protocol.groups.share_state import requests as share_state_requests
from protocol.records import RECORD_TYPES, RecordType
from protocol.wire.api import Api, Route
from protocol.wire.apis import API, error_response
from protocol.wire.convert import blank, unwrap
from protocol.wire.errors import ErrorCode
from protocol.wire.kafka_4_4.index import request_shape
from tests.failover.hosts import Driver
from tests.failover.working import working_driver
from tests.protocol.wire.test_apis import codes

ROWS = list(API.values())
NAMES = [row.name for row in ROWS]
HANDLERS = {
    Route.NODE: NODE_HANDLERS,
    Route.GROUP: TABLES.handlers,
    Route.GROUPS: TABLES.handlers,
    Route.ALL_GROUPS: TABLES.handlers,
    Route.SHARE_STATE: share_state_requests.HANDLERS,
    Route.CATALOG: catalog.HANDLERS,
}
"""Where a request of each route is answered."""


# --- requests


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_served_api_has_one_handler_where_its_route_leads(row: Api) -> None:
    tables = [table for table in map(HANDLERS.get, Route) if table is not None]
    assert row.key in HANDLERS[row.route]
    assert sum(row.key in table for table in {id(each): each for each in tables}.values()) == 1


def test_no_handler_waits_for_a_request_that_is_not_served() -> None:
    assert {key for table in HANDLERS.values() for key in table} == set(API)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_row_has_the_traits_of_its_route(row: Api) -> None:
    assert (row.groups is not None) is (row.route is Route.GROUPS)
    assert row.elements_max > 0
    assert row.weight > 0
    assert row.advertised_min_version <= row.min_version <= row.max_version
    if row.route is Route.NODE:
        assert row.retry_error is None
    else:
        assert row.retry_error is not None
        assert row.retry_error.retriable
    if row.route is not Route.GROUP:
        group = row.group
        assert not (group.is_leased or group.is_believed or group.waits_for_members)


def names_topics_by_id_only(shape: Any) -> bool:
    """Tell whether a topic of the request has an id and no name beside it."""
    names = {each.name for each in fields(shape)}
    if "topic_id" in names and not names & {"name", "topic"}:
        return True
    kinds = [unwrap(each)[0] for each in fields(shape)]
    return any(names_topics_by_id_only(kind) for kind in kinds if is_dataclass(kind))


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_newest_version_that_names_topics_is_what_kafkas_schemas_say(row: Api) -> None:
    """ConsumerGroupHeartbeat subscribes by names and owns by ids, in every version."""
    by_name = [
        version
        for version in range(row.min_version, row.max_version + 1)
        if not names_topics_by_id_only(request_shape(row.key, version))
    ]
    assert row.newest_by_name == (by_name or [row.max_version])[-1]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_what_is_switched_off_is_answered_by_a_module_of_what_is_not_done(row: Api) -> None:
    if row.route is not Route.NODE:
        assert not row.is_switched_off
        return
    not_done = [each.__name__ for each in (produce, transactions, unused)]
    assert row.is_switched_off is (NODE_HANDLERS[row.key].__module__ in not_done)


CODE = ErrorCode.not_coordinator


def one_of_each(shape: Any) -> Any:
    """Build a message with one element in each of its arrays."""
    given: dict[str, Any] = {}
    for column in fields(shape):
        kind, is_array, _ = unwrap(column)
        if is_dataclass(kind):
            given[column.name] = (one_of_each(kind),) if is_array else one_of_each(kind)
        elif is_array:
            value = {"string": "a", "int32": 0}.get(column.metadata["kafka_type"])
            given[column.name] = () if value is None else (value,)
    return blank(shape, **given)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_an_error_has_a_place_in_every_response(row: Api) -> None:
    """Only ApiVersions has nothing but its own error; all others show any code."""
    for version in range(row.min_version, row.max_version + 1):
        answer = error_response(row.key, one_of_each(row.request), CODE, "why", version)
        assert isinstance(answer, row.response)
        assert CODE in codes(answer), version


def asked(driver: Driver, row: Api, group_id: str) -> Any:
    message = replace(one_of_each(row.request), group_id=group_id)
    return driver.ask(row.key, row.newest_by_name, message)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.route is Route.GROUP], ids=lambda row: row.name
)
def test_a_group_must_be_named_exactly_where_the_row_says_so(row: Api) -> None:
    told = codes(asked(working_driver(), row, ""))
    assert (ErrorCode.invalid_group_id in told) is row.group.needs_id


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.route is not Route.CATALOG], ids=lambda row: row.name
)
def test_a_request_that_is_said_to_write_nothing_writes_nothing(row: Api) -> None:
    """Its blank form, and one about a group and a topic, give no records of any group."""
    if row.writes(blank(row.request)):
        return
    driver = working_driver()
    ends = [partition.replica.end_offset for partition in driver.host.partitions[1:]]
    driver.ask(row.key, row.newest_by_name, blank(row.request))
    driver.ask(row.key, row.newest_by_name, one_of_each(row.request))
    assert ends == [partition.replica.end_offset for partition in driver.host.partitions[1:]]


# --- records


def test_a_record_type_has_a_replay_or_says_that_it_is_skipped() -> None:
    replayed = {row.key.__name__ for row in RECORD_TYPES.values() if row.is_replayed}
    assert replayed == {key.__name__ for key in TABLES.replays}


@pytest.mark.parametrize("row", RECORD_TYPES.values(), ids=lambda row: row.key.__name__)
def test_a_record_type_names_the_group_that_it_belongs_to(row: RecordType) -> None:
    first = fields(row.key)[0]
    assert first.name in ("group", "group_id")
    assert not (row.is_kept and not row.is_replayed)


def test_a_record_type_of_the_catalogue_has_a_replay() -> None:
    assert {key for key, _ in records.RECORD_TYPES.values()} == set(state.REPLAYS)
