"""What only a Rollcall node knows is in DescribeConfigs for who asks by name, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from failover.apis import looks, own_entries
from failover.apis.looks import GROUPS_FROM, LOOK
from failover.apis.own_entries import ENTRIES_MAX, LONG_BYTES_MAX, OWN_ENTRIES, TEXT_BYTES_MAX
from failover.apis.stories import STORIES
from failover.catalogue.cluster_view import BROKER, GROUP
from protocol.config import BROKER_CONFIGS, GROUP_CONFIGS
from protocol.groups import shard
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.working import Working, beat, working_driver

DESCRIBE_CONFIGS = 32
INTERVAL = "consumer.heartbeat.interval.ms"


@pytest.fixture
def driver() -> Working:
    driver = working_driver()
    driver.host.led.rebalances = lambda group_id: (len(group_id), 2)
    return driver


def entries(
    driver: Working, resource: tuple[int, str], *keys: str, version: int = 4
) -> dict[str, Any]:
    resource_type, name = resource
    asked = m.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    request = m.DescribeConfigsRequest(resources=(asked,))
    (result,) = driver.ask(DESCRIBE_CONFIGS, version, request).results
    assert result.error_code is ErrorCode.none
    return {each.name: each.value for each in result.configs}


def look(driver: Working, group_id: str = "g") -> Any:
    return json.loads(entries(driver, (GROUP, group_id), LOOK)[LOOK])


def page(driver: Working, start: int, version: int = 4) -> Any:
    key = f"{GROUPS_FROM}{start}"
    return json.loads(entries(driver, (BROKER, "0"), key, version=version)[key])


def test_a_look_has_state_counts_and_sessions(driver: Working) -> None:
    driver.ask(68, 1, beat("g", "m-1"))
    driver.wait(1_000)
    sessions = {"m-1": [44_000, 45_000]}
    found = {"state": "Assigning", "members": 1, "rebalances": 1, "sessions": sessions}
    assert look(driver) == found


def test_a_look_has_the_first_sessions(driver: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "SESSIONS_MAX", 2)
    for number in (3, 1, 2):
        driver.ask(68, 1, beat("g", f"m-{number}"))
    assert list(look(driver)["sessions"]) == ["m-1", "m-2"]


def test_a_look_at_nothing(driver: Working) -> None:
    assert look(driver) == {"state": "", "members": 0, "rebalances": 1, "sessions": {}}


def test_who_does_not_lead_has_no_look(driver: Working) -> None:
    driver.host.led._groups = dict
    assert look(driver) is None
    assert page(driver, 0) == {"next": -1, "groups": []}


@pytest.mark.parametrize(("groups", "rows_max"), [(0, 2), (1, 2), (2, 2), (3, 2), (7, 3)])
def test_all_groups_come_in_pages(
    driver: Working, monkeypatch: pytest.MonkeyPatch, groups: int, rows_max: int
) -> None:
    monkeypatch.setattr(looks, "ROWS_MAX", rows_max)
    for number in range(groups):
        driver.ask(68, 1, beat(f"g-{number}", "m-1"))
    found, start, pages = [], 0, 0
    while start >= 0:
        answer = page(driver, start)
        assert len(answer["groups"]) <= rows_max
        found += answer["groups"]
        start, pages = answer["next"], pages + 1
    assert found == [[f"g-{n}", "consumer", "Assigning", 1, 3, 2] for n in range(groups)]
    assert pages == groups // rows_max + 1


@pytest.mark.parametrize(("version", "most"), [(3, TEXT_BYTES_MAX), (4, LONG_BYTES_MAX)])
def test_long_names_shorten_a_page(driver: Working, version: int, most: int) -> None:
    for number in range(60):
        driver.ask(68, 1, beat(f"{number:02}" + "g" * 25_000, "m-1"))
    answer = page(driver, 0, version)
    assert 0 < len(answer["groups"]) == answer["next"] < 60
    assert len(json.dumps(answer)) <= most
    assert page(driver, answer["next"], version)["groups"], "and the others follow"


def test_sessions_that_do_not_fit_are_left_out(
    driver: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.ask(68, 1, beat("g", "m-1"))
    monkeypatch.setattr(own_entries, "LONG_BYTES_MAX", 80)
    assert look(driver) == {"state": "Assigning", "members": 1, "rebalances": 1, "sessions": {}}


def test_one_answer_has_a_bounded_number_of_them(driver: Working) -> None:
    keys = [f"{GROUPS_FROM}{number}" for number in range(10 * ENTRIES_MAX)]
    assert len(entries(driver, (BROKER, "0"), *keys)) == ENTRIES_MAX


def test_one_answer_has_a_bounded_number_of_their_bytes(driver: Working) -> None:
    for number in range(60):
        driver.ask(68, 1, beat(f"{number:02}" + "g" * 25_000, "m-1"))
    found = entries(driver, (BROKER, "0"), f"{GROUPS_FROM}0", f"{GROUPS_FROM}1", f"{GROUPS_FROM}2")
    assert len(found) == 2, "the second has one group"
    assert sum(map(len, found.values())) < LONG_BYTES_MAX + TEXT_BYTES_MAX


@pytest.mark.parametrize("key", ["groups", "groups.", "groups.-1", "groups.1234567890", "looks"])
def test_other_names_are_not_known(driver: Working, key: str) -> None:
    assert entries(driver, (BROKER, "0"), f"rollcall.{key}") == {}
    assert entries(driver, (GROUP, "g"), f"rollcall.{key}") == {}


def test_each_belongs_to_one_type_of_resource(driver: Working) -> None:
    keys = (STORIES, LOOK, f"{GROUPS_FROM}0", INTERVAL)
    assert set(entries(driver, (GROUP, "g"), *keys)) == {STORIES, LOOK, INTERVAL}
    assert set(entries(driver, (BROKER, "0"), *keys)) == {f"{GROUPS_FROM}0"}
    assert entries(driver, (BROKER, ""), *keys) == {}


def test_who_asks_for_all_configs_meets_none_of_them(driver: Working) -> None:
    for resource, table in (((GROUP, "g"), GROUP_CONFIGS), ((BROKER, "0"), BROKER_CONFIGS)):
        names = set(entries(driver, resource))
        assert names <= set(table)
        assert not any(row.pattern.fullmatch(name) for row in OWN_ENTRIES for name in names)
