"""What requests of very many elements build, and what is ready before the first request."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from failover.apis import configs
from failover.apis import metadata as metadata_apis
from failover.catalogue import config_entries
from failover.catalogue import topics as catalog_topics
from failover.catalogue.cluster_view import BROKER, GROUP, TOPIC
from failover.catalogue.configs import SUGGESTIONS_MAX
from failover.catalogue.records import decode, encode
from protocol import config
from protocol.wire import messages as m
from protocol.wire.apis import API, COSTLY_ELEMENTS_MAX
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    BadFrame,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from protocol.wire.versions import response_plan
from tests.failover.apis import asks
from tests.failover.catalogue.catalogs import SECOND, Keeper, answer, topic
from tests.failover.hosts import memory_driver
from tests.failover.working import working_driver

MANY = 500


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> Counter[str]:
    """Count the calls of a function."""
    counts: Counter[str] = Counter()
    real = getattr(module, name)

    def counting(*arguments: Any, **named: Any) -> Any:
        counts[name] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, counting)
    return counts


def structs_written(do: Callable[[], Any]) -> int:
    """Return how many structs are encoded: each is a call of a function of ``writers``."""
    written = 0

    def tally(frame: Any, event: str, _argument: Any) -> None:
        nonlocal written
        code = frame.f_code
        is_writer = code.co_filename.startswith("<writer of ") and code.co_name == "write"
        written += event == "call" and is_writer

    sys.setprofile(tally)
    try:
        do()
    finally:
        sys.setprofile(None)
    return written


def resources(kind: int, names: list[str]) -> m.DescribeConfigsRequest:
    return m.DescribeConfigsRequest(
        resources=tuple(
            m.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for name in names
        ),
        include_synonyms=True,
        include_documentation=True,
    )


@pytest.mark.parametrize("kind", [TOPIC, GROUP, BROKER])
def test_configs_that_resources_have_in_common_are_built_once(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper()
    names = [f"name{number}" for number in range(MANY)]
    if kind == TOPIC:
        keeper.create(*(topic(name) for name in names))
    elif kind == BROKER:
        names = ["0" * (number + 1) for number in range(MANY)]
    table = config.CONFIGS[config.Scope(kind)]
    counts = counted(monkeypatch, config_entries, "_entry")
    response = answer(keeper.view(), 32, resources(kind, names))
    assert [one.resource_name for one in response.results] == names
    assert {one.error_code for one in response.results} == {ErrorCode.none}
    assert 0 < counts["_entry"] <= len(table)
    distinct = {id(entry) for one in response.results for entry in one.configs}
    assert len(distinct) == counts["_entry"]


def test_an_answer_with_configs_has_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's id can be written in many ways: a short request could ask for a gigabyte."""
    monkeypatch.setattr(configs, "ANSWER_BYTES_MAX", 1 << 20)
    names = ["0" * (number + 1) for number in range(MANY)]
    everything = replace(
        resources(BROKER, names), include_synonyms=True, include_documentation=True
    )
    response = answer(Keeper().view(), 32, everything)
    codes = [one.error_code for one in response.results]
    served = codes.index(ErrorCode.invalid_request)
    assert 0 < served < MANY and set(codes[served:]) == {ErrorCode.invalid_request}
    assert not any(one.configs for one in response.results[served:])
    assert 0.8 * (1 << 20) < len(encode_response(32, 4, 7, response)) < 1.2 * (1 << 20)


def test_a_resource_that_is_named_again_and_again_is_described_once() -> None:
    names = ["0"] * MANY + ["g"]
    response = answer(Keeper().view(), 32, resources(GROUP, names))
    assert [one.resource_name for one in response.results] == ["0", "g"]


def test_topics_created_together_have_their_configs_described_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = counted(monkeypatch, config_entries, "_entry")
    keeper = Keeper()
    results = keeper.create(*(topic(f"name{number}") for number in range(MANY)))
    assert {one.error_code for one in results.values()} == {ErrorCode.none}
    assert counts["_entry"] <= len(config.TOPIC_CONFIGS)


def described_groups() -> tuple[m.DescribeConfigsResponse, int]:
    names = [f"name{number}" for number in range(MANY)]
    response = answer(Keeper().view(), 32, resources(GROUP, names))
    return response, len(response.results[0].configs)


def test_an_entry_that_many_results_hold_is_written_once() -> None:
    response, entries = described_groups()
    one = replace(response, results=response.results[:1])
    assert structs_written(lambda: encode_response(32, 4, 7, one)) > entries
    assert structs_written(lambda: encode_response(32, 4, 7, response)) <= MANY + 3
    written = encode_response(32, 4, 7, response)
    _, read = decode_response(32, 4, written[4:])
    assert read == response


@pytest.mark.parametrize("version", range(API[32].min_version, API[32].max_version))
def test_an_entry_that_many_results_hold_is_copied_once(version: int) -> None:
    response, entries = described_groups()
    old: Any = response_plan(32, version).down(response)
    assert len(old.results) == MANY
    assert len({id(entry) for one in old.results for entry in one.configs}) == entries


def test_a_placement_that_many_partitions_have_is_written_once() -> None:
    keeper = Keeper()
    keeper.create(topic("t", partitions=10_000, replication_factor=2))
    [record] = keeper.records
    assert structs_written(lambda: encode(record)) <= 10
    assert decode(*encode(record)) == record


def test_many_bad_names_are_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, config, "get_close_matches")
    keeper = Keeper()
    few = alter(range(SUGGESTIONS_MAX))
    assert all("did you mean" in one.error_message for one in keeper.ask(44, few).responses)
    assert counts["get_close_matches"] == SUGGESTIONS_MAX
    many = alter(range(MANY))
    for one in keeper.ask(44, many).responses:
        assert one.error_message == "Unknown group config name: consumer.session.timeout.mz"
    keeper.create(*(topic(f"t{number}", configs={"retention.mz": "1"}) for number in range(MANY)))
    assert counts["get_close_matches"] == SUGGESTIONS_MAX


def alter(numbers: range) -> m.IncrementalAlterConfigsRequest:
    bad = m.AlterableConfig(name="consumer.session.timeout.mz", config_operation=0, value="1")
    return m.IncrementalAlterConfigsRequest(
        resources=tuple(
            m.AlterConfigsResource(resource_type=GROUP, resource_name=f"g{number}", configs=(bad,))
            for number in numbers
        ),
        validate_only=False,
    )


def test_a_name_longer_than_any_configs_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(len(name) for table in config.CONFIGS.values() for name in table)
    assert longest < config.NAME_CHARACTERS_MAX
    counts = counted(monkeypatch, config, "get_close_matches")
    with pytest.raises(config.ConfigError, match=r"^Unknown broker config name: x*$"):
        config.find("x" * (config.NAME_CHARACTERS_MAX + 1))
    assert not counts


def test_a_request_creates_so_many_partitions_and_no_more() -> None:
    keeper = Keeper()
    most = catalog_topics.PARTITIONS_MAX
    topics = [topic("a", partitions=most), topic("b", partitions=1)]
    results = keeper.create(*topics)
    assert {one.error_code for one in results.values()} == {ErrorCode.policy_violation}
    assert keeper.records == []
    results = keeper.create(topic("a", partitions=most - 1), topic("b", partitions=1))
    assert {one.error_code for one in results.values()} == {ErrorCode.none}
    grown = m.CreatePartitionsRequest(
        topics=(
            m.CreatePartitionsTopic(name="a", count=most, assignments=None),
            m.CreatePartitionsTopic(name="b", count=2, assignments=None),
        ),
        timeout=SECOND,
        validate_only=False,
    )
    refused = keeper.ask(37, grown).results
    assert [one.error_code for one in refused] == [ErrorCode.policy_violation] * 2


def test_one_metadata_request_creates_so_many_topics_and_no_more() -> None:
    count = metadata_apis.AUTO_CREATED_MAX + 1
    asked = m.MetadataRequest(
        topics=tuple(
            m.MetadataRequestTopic(topic_id=None, name=f"t{number}") for number in range(count)
        ),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    made = answer(Keeper().view(), 3, asked)
    assert len(made.response.topics) == count
    assert len(made.mutation.topics) == metadata_apis.AUTO_CREATED_MAX


@pytest.mark.parametrize("key", [15, 69])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_group_that_is_named_again_and_again_is_described_once(key: int, partitions: int) -> None:
    driver = memory_driver(partitions=partitions, leads=range(partitions))
    names = tuple(f"g{number % 3}" for number in range(MANY))
    field = "groups" if key == 15 else "group_ids"
    asked = blank(API[key].request, **{field: names})
    described = driver.ask(key, API[key].max_version, asked)
    assert [one.group_id for one in described.groups] == ["g0", "g1", "g2"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_offsets_of_a_group_are_listed_once_however_often_they_are_asked_for(
    partitions: int,
) -> None:
    driver = working_driver(partitions=partitions, leads=range(partitions))
    for group in ("g0", "g1"):
        driver.ask(8, 8, asks.commit(group, 5))
    every = [
        m.OffsetFetchRequestGroup(group_id=f"g{number % 2}", topics=None, member_id=f"m{number}")
        for number in range(MANY)
    ]
    one = m.OffsetFetchRequestTopics(topic_id=None, name="t", partition_indexes=(7,))
    some = m.OffsetFetchRequestGroup(group_id="g1", topics=(one,))
    response = driver.ask(9, 9, m.OffsetFetchRequest(groups=(*every, some), require_stable=False))
    found = [
        (group.group_id, [each.partition_index for each in topic.partitions])
        for group in response.groups
        for topic in group.topics
    ]
    assert found == [("g0", [0]), ("g1", [0]), ("g1", [7])]


def test_topics_that_collide_are_found_without_looking_at_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = Keeper()
    keeper.create(*(topic(f"a.{number}") for number in range(MANY)))
    counts = counted(monkeypatch, catalog_topics, "collision_key")
    names = [f"b.{number}" for number in range(MANY)]
    results = keeper.create(*map(topic, [*names, "a_7", "c.d", "c_d"]))
    refused = {name: one.error_message for name, one in results.items() if one.error_message}
    assert refused == {
        "a_7": "Topic 'a_7' collides with existing topic 'a.7'.",
        "c_d": "Topic 'c_d' collides with existing topic 'c.d'.",
    }
    assert counts["collision_key"] <= 4 * MANY


def test_one_request_creates_so_many_topics_and_no_more() -> None:
    keeper = Keeper()
    names = [f"t{number}" for number in range(catalog_topics.TOPICS_MAX + 1)]
    results = keeper.create(*map(topic, names))
    assert {one.error_code for one in results.values()} == {ErrorCode.policy_violation}
    assert keeper.records == []


@pytest.mark.parametrize("key", [32, 33, 44, 15, 69])
def test_costly_apis_take_fewer_elements(key: int) -> None:
    assert API[key].elements_max == COSTLY_ELEMENTS_MAX
    groups = tuple(f"g{number}" for number in range(COSTLY_ELEMENTS_MAX + 1))
    if key == 15:
        request = m.DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        decode_request(encode_request(15, 5, 7, "c", replace(request, groups=groups[1:]))[4:])
        with pytest.raises(BadFrame, match="more than 20000 elements"):
            decode_request(encode_request(15, 5, 7, "c", request)[4:])


PREPARED = r"""
import sys
from protocol.wire.apis import API
from protocol.wire.convert import blank
from protocol.wire.frames import decode_request, encode_response
from protocol.wire.versions import UnsupportedVersionError, request_plan
from protocol.wire.writers import encoder
from tests.actors.coordinator.coordinators import running

with running(1):
    before = set(sys.modules)
    for api in API.values():
        for version in range(api.min_version, api.max_version + 1):
            shape = request_plan(api.key, version).shape
            flexible = shape.__flexible__
            header = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0" * 4
            frame = header + b"\xff\xff" + b"\0" * flexible + encoder(shape)(blank(shape))
            decode_request(frame)
            try:
                encode_response(api.key, version, 7, blank(api.response))
            except UnsupportedVersionError:
                pass  # one group, key or member is wanted
    print(sorted(set(sys.modules) - before))
"""


def test_when_a_coordinator_is_ready_no_api_version_imports_anything() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PREPARED], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
