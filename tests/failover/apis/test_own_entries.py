"""What only a Rollcall node knows is in DescribeConfigs for who asks by name, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from failover.apis import looks, own_entries
from failover.apis.events import EVENTS
from failover.apis.looks import ESCAPED, GROUPS_FROM, LOOK
from failover.apis.own_entries import (
    ENTRIES_MAX,
    HEAD_BYTES,
    LONG_BYTES_MAX,
    OWN_ENTRIES,
    TEXT_BYTES_MAX,
)
from failover.apis.stories import STORIES
from failover.catalogue.cluster_view import BROKER, GROUP
from failover.catalogue.config_entries import (
    BrokerLayers,
    broker_entries,
    groups_entries,
    topics_entries,
)
from failover.led_groups import LedGroups
from protocol.config import BROKER_CONFIGS, GROUP_CONFIGS
from protocol.groups import shard
from protocol.groups.group_type import GroupSummary
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
    monkeypatch.setattr(looks, "OVERLAP", 0)
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


def test_groups_that_are_deleted_between_two_pages_hide_no_others(
    driver: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "ROWS_MAX", 4)
    monkeypatch.setattr(looks, "OVERLAP", 2)
    for number in range(8):
        driver.ask(68, 1, beat(f"g-{number}", "m-1"))
    first = page(driver, 0)
    for group_id in ("g-0", "g-3"):
        driver.ask(68, 1, beat(group_id, "m-1", -1))
        driver.ask(42, 2, m.DeleteGroupsRequest(groups_names=(group_id,)))
    second = page(driver, first["next"])
    assert {row[0] for row in (*first["groups"], *second["groups"])} >= {"g-4", "g-5"}


def test_rows_go_on_from_shard_to_shard() -> None:
    class Shard:
        def __init__(self, *group_ids: str) -> None:
            self.group_ids = group_ids

        def summary(self, _group_id: str) -> GroupSummary:
            return GroupSummary("consumer", "Empty", "consumer")

    led = LedGroups(1, dict)
    led.shards = lambda: [Shard("a", "b"), Shard(), Shard("c"), Shard("d", "e")]  # type: ignore
    names = "abcde"
    for start in range(7):
        for count in range(1, 7):
            found = "".join(row.group_id for row in led.rows(start, count))
            assert found == names[start : start + count]


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("name", ["g" * 32_000, "\N{SNOWMAN}" * 10_000, '"' * 16_000])
def test_a_group_whose_name_fills_an_answer_is_left_out(
    driver: Working, version: int, name: str
) -> None:
    for group_id in ("a", name, "z"):
        driver.ask(68, 1, beat(group_id, "m-1"))
    answer = page(driver, 0, version)
    assert [row[0] for row in answer["groups"]] == ["a", "z"]
    assert answer["next"] == -1


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
    monkeypatch.setattr(own_entries, "LONG_BYTES_MAX", HEAD_BYTES + ESCAPED * len("m-1") - 1)
    assert look(driver) == {"state": "Assigning", "members": 1, "rebalances": 1, "sessions": {}}


def of_many(driver: Working, *resources: tuple[int, str, tuple[str, ...]]) -> list[str]:
    """Return the values of all entries of several resources in one answer."""
    asked = tuple(
        m.DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=keys
        )
        for resource_type, name, keys in resources
    )
    answer = driver.ask(DESCRIBE_CONFIGS, 4, m.DescribeConfigsRequest(resources=asked))
    assert len(answer.results) == len(resources)
    return [entry.value for result in answer.results for entry in result.configs]


def events(driver: Working, group_id: str = "g") -> list[tuple[str, str]]:
    found = json.loads(entries(driver, (GROUP, group_id), EVENTS)[EVENTS])["events"]
    return [(each["what"], each["who"]["member_id"]) for each in found]


def test_the_leader_has_the_last_events_of_members(driver: Working) -> None:
    for epoch in (0, -1):
        driver.ask(68, 1, beat("g", "m-1", epoch))
    assert events(driver) == [("joined", "m-1"), ("left", "m-1")]
    assert events(driver, "another") == []


def test_the_newest_events_come_if_not_all_fit(
    driver: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in (0, -1):
        driver.ask(68, 1, beat("g", "m-1", epoch))
    whole = len(entries(driver, (GROUP, "g"), EVENTS)[EVENTS])
    monkeypatch.setattr(own_entries, "LONG_BYTES_MAX", HEAD_BYTES + whole - 100)
    assert events(driver) == [("left", "m-1")]
    monkeypatch.setattr(own_entries, "LONG_BYTES_MAX", HEAD_BYTES + 1)
    assert events(driver) == []


def test_one_answer_has_a_bounded_number_of_them(driver: Working) -> None:
    keys = tuple(f"{GROUPS_FROM}{number}" for number in range(10))
    of_groups = [(GROUP, f"g-{number}", (LOOK, STORIES)) for number in range(10)]
    assert len(of_many(driver, (BROKER, "0", keys))) == ENTRIES_MAX
    assert len(of_many(driver, *of_groups)) == ENTRIES_MAX
    assert len(of_many(driver, *of_groups[:1], (BROKER, "0", keys))) == ENTRIES_MAX


def test_one_answer_has_a_bounded_number_of_their_bytes(driver: Working) -> None:
    for number in range(60):
        driver.ask(68, 1, beat(f"{number:02}" + "g" * 25_000, "m-1"))
    found = of_many(driver, (BROKER, "0", tuple(f"{GROUPS_FROM}{n}" for n in range(3))))
    assert len(found) == 2, "the second has one group"
    assert sum(map(len, found)) < LONG_BYTES_MAX + TEXT_BYTES_MAX


@pytest.mark.parametrize(
    "key", ["groups", "groups.", "groups.-1", "groups.1234567890", "groups.00", "looks"]
)
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


@pytest.mark.parametrize(
    ("make", "overrides"),
    [(groups_entries, {}), (groups_entries, {INTERVAL: "7000"}), (topics_entries, {})],
)
def test_configs_by_name_are_those_of_all(make: Any, overrides: dict[str, str]) -> None:
    everything = make(BrokerLayers()).of(overrides)
    for wanted in ({each.name for each in everything[::3]}, {everything[1].name}, {"none"}):
        some = make(BrokerLayers()).of(overrides, wanted)
        assert some == tuple(each for each in everything if each.name in wanted)


def test_a_brokers_configs_by_name_are_those_of_all() -> None:
    entries_of = broker_entries(BrokerLayers())
    everything = entries_of.of()
    wanted = {each.name for each in everything[::5]}
    assert broker_entries(BrokerLayers()).of(wanted) == tuple(
        each for each in everything if each.name in wanted
    )
    assert entries_of.of() is everything, "it is built once"
