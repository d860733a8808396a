"""One process from a client's request to its answer, and through a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.partition_kinds import SHARE_STATE
from failover.requests import router as requests
from failover.requests.pending_find_coordinator import RECENT_MS
from failover.routing import partition_for
from protocol.groups import group_types
from protocol.groups.group_types import TABLES
from protocol.records import Record, ShareGroupMetadataKey, ShareGroupMetadataValue, encode
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import ApplyState, MemoryLog
from storage.messages import Leading
from tests.failover.apis import asks
from tests.failover.hosts import Driver, memory_driver
from tests.protocol.groups.earlier import EARLIER


def with_topic(driver: Driver) -> Driver:
    driver.host.catalog_event(NodeChanged(Node(0, "localhost", 9092)), driver.now)
    driver.pump()
    created = driver.ask(19, 7, asks.create_topics("t", partitions=4))
    assert created.topics[0].error_code == ErrorCode.none
    return driver


def static_group(driver: Driver, group: str = "g") -> tuple[str, int]:
    """Form a group of one static member; return its member id and generation."""
    joined = driver.ask(11, 9, asks.join(group, instance="i"))
    assert joined.error_code == ErrorCode.none
    member, generation = joined.member_id, joined.generation_id
    synced = driver.ask(14, 5, asks.sync(group, generation, member, {member: b"mine"}))
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    return member, generation


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[RocksLog]:
    log = RocksLog.open(tmp_path, LogIdentity(cluster_id="cluster", node_id=0, partitions=1))
    yield log
    log.close()


def test_a_group_forms_commits_and_finds_everything_again_after_a_restart(
    rocks: RocksLog,
) -> None:
    driver = with_topic(Driver(rocks).load())
    member, generation = static_group(driver)
    answer = driver.ask(
        8, 9, asks.commit("g", 42, member_id=member, generation=generation, instance="i")
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none

    again = driver.restarted()
    again.load()
    assert asks.offsets_in(again.ask(9, 9, asks.fetch("g"))) == {"g": {("t", 0): 42}}
    beat = again.ask(12, 4, asks.heartbeat("g", generation, member, "i"))
    assert beat.error_code == ErrorCode.none
    synced = again.ask(14, 5, asks.sync("g", generation, member))
    assert synced.assignment == b"mine"


def test_nothing_is_answered_before_its_record_is_written() -> None:
    driver = with_topic(memory_driver())
    ticket = driver.give(8, 9, asks.commit("g", 1))
    effects = driver.host.drain(driver.now)
    assert effects.writes and effects.sync and not effects.replies
    assert not driver.host.drain(driver.now)
    driver.log.write(effects.writes, effects.sync)
    driver.host.persisted(driver.now)
    assert [reply.ticket for reply in driver.host.drain(driver.now).replies] == [ticket]


def test_log_flush_os_writes_without_sync_but_for_votes() -> None:
    driver = memory_driver(configs={"log.flush": "os"})
    assert (len(driver.written), driver.syncs) == (4, 2), "the catalogue's vote, then the groups'"
    with_topic(driver)
    driver.written.clear()
    syncs = driver.syncs
    driver.ask(8, 9, asks.commit("g", 1))
    assert (len(driver.written), driver.syncs) == (1, syncs)


def group_in(partition: int, partitions: int, prefix: str = "g") -> str:
    """Return the id of a group that hashes to the partition."""
    names = (f"{prefix}{n}" for n in range(1_000))
    return next(name for name in names if partition_for(name, partitions) == partition)


@pytest.fixture
def three() -> Driver:
    """A node that leads two of three partitions."""
    return with_topic(memory_driver(partitions=3, leads=(0, 2)))


def test_a_group_of_a_partition_led_elsewhere_is_answered_not_coordinator(three: Driver) -> None:
    joined = three.ask(11, 9, asks.join(group_in(1, 3)))
    assert joined.error_code == ErrorCode.not_coordinator


@pytest.mark.parametrize(
    ("api_key", "api_version", "message"),
    [
        (11, 9, asks.join("")),
        (14, 5, asks.sync("", 1, "m")),
        (12, 4, asks.heartbeat("", 1, "m")),
    ],
)
def test_the_empty_group_id_is_invalid_before_anything_else(
    three: Driver, api_key: int, api_version: int, message: Any
) -> None:
    assert three.ask(api_key, api_version, message).error_code == ErrorCode.invalid_group_id


def test_a_request_for_many_groups_is_split_over_partitions_and_merged_in_its_order(
    three: Driver,
) -> None:
    groups = [group_in(n, 3, prefix) for prefix in ("a", "b") for n in (2, 0)]
    for n, group in enumerate(groups):
        three.ask(8, 9, asks.commit(group, n))
    elsewhere = group_in(1, 3)
    answer = three.ask(9, 9, asks.fetch(*groups, elsewhere))
    assert [part.group_id for part in answer.groups] == [*groups, elsewhere]
    assert [part.error_code for part in answer.groups] == [ErrorCode.none] * 4 + [
        ErrorCode.not_coordinator
    ]
    assert asks.offsets_in(answer)[groups[3]] == {("t", 0): 3}


def test_a_request_for_no_groups_is_answered(three: Driver) -> None:
    assert three.ask(15, 5, DescribeGroupsRequest(include_authorized_operations=False)).groups == ()
    assert three.ask(9, 9, asks.fetch()).groups == ()


def test_a_listing_merges_the_groups_of_every_partition_led_here(three: Driver) -> None:
    groups = [group_in(0, 3), group_in(2, 3)]
    for group in groups:
        three.ask(8, 9, asks.commit(group, 1))
    listed = three.ask(16, 5, ListGroupsRequest())
    assert sorted(group.group_id for group in listed.groups) == sorted(groups)
    assert listed.error_code == ErrorCode.none


def test_a_node_that_leads_nothing_lists_nothing() -> None:
    idle = memory_driver(partitions=3, leads=())
    listed = idle.ask(16, 5, ListGroupsRequest())
    assert (listed.error_code, listed.groups) == (ErrorCode.none, ())


def test_a_listing_does_not_show_what_is_not_committed(three: Driver) -> None:
    three.give(8, 9, asks.commit(group_in(0, 3), 1))
    ticket = three.give(16, 5, ListGroupsRequest())
    effects = three.host.drain(three.now)
    assert effects.writes and not effects.replies
    three.log.write(effects.writes, effects.sync)
    three.host.persisted(three.now)
    three.pump()
    assert len(three.replies[ticket].groups) == 1


def loading(driver: Driver) -> Driver:
    """Restart the driver's host and leave it before its log is read."""
    again = driver.restarted()
    assert not again.host.load_slice(1)
    return again


def test_while_loading_groups_are_asked_to_wait_and_heartbeats_believed() -> None:
    driver = with_topic(memory_driver())
    static_group(driver)
    for partition in range(4):
        driver.ask(8, 9, asks.commit("other", 1, partition=partition))
    driver.log.write(driver.host.checkpoint().writes, sync=True)
    again = loading(driver)
    wait = ErrorCode.coordinator_load_in_progress
    assert again.ask(11, 9, asks.join("g")).error_code == wait
    assert again.ask(9, 9, asks.fetch("g")).groups[0].error_code == wait
    assert again.ask(16, 5, ListGroupsRequest()).error_code == wait
    assert again.ask(12, 4, asks.heartbeat("g", 1, "m")).error_code == ErrorCode.none
    committed = again.ask(8, 9, asks.commit("g", 1))
    assert committed.topics[0].partitions[0].error_code == wait
    assert again.host.status()[1].state == "Loading"
    again.load()
    assert again.ask(16, 5, ListGroupsRequest()).error_code == ErrorCode.none


def test_a_stall_of_this_process_expels_nobody() -> None:
    driver = with_topic(memory_driver())
    member, generation = static_group(driver)
    driver.now += 120_000
    driver.host.tick(driver.now, stalled_ms=119_000)
    driver.pump()
    beat = driver.ask(12, 4, asks.heartbeat("g", generation, member, "i"))
    assert beat.error_code == ErrorCode.none


def test_a_member_that_is_silent_while_we_are_awake_is_expelled_and_the_diary_says_so() -> None:
    driver = with_topic(memory_driver())
    member, generation = static_group(driver)
    driver.wait(31_000)
    beat = driver.ask(12, 4, asks.heartbeat("g", generation, member, "i"))
    assert beat.error_code == ErrorCode.unknown_member_id
    assert [event.kind for event in driver.host.led.events("g")][-1] == "expired"
    assert driver.host.led.events("unknown") == []


def test_a_handler_with_a_bug_answers_unknown_server_error_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = with_topic(memory_driver())

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(TABLES, "handlers", {**TABLES.handlers, 12: broken})
    monkeypatch.setattr(requests, "NODE_HANDLERS", {**requests.NODE_HANDLERS, 60: broken})
    beat = driver.ask(12, 4, asks.heartbeat("g", 1, "m"))
    assert beat.error_code == ErrorCode.unknown_server_error
    [note] = driver.notes
    assert note.startswith(
        "Heartbeat 4 from client (/127.0.0.1) for group g failed: ZeroDivisionError: a bug ("
    )
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=False
    )
    described = driver.ask(60, 2, request)
    assert described.error_code == ErrorCode.unknown_server_error
    static_group(driver)


def test_a_fetch_waits_for_its_deadline_and_is_forgotten_with_its_client() -> None:
    driver = with_topic(memory_driver())
    topic = driver.host.view.catalog.topics.by_name("t")
    assert topic is not None
    first, second = (driver.give(1, 12, asks.records_of("t", topic.topic_id)) for _ in range(2))
    driver.pump()
    assert not driver.replies.keys() & {first, second}
    assert driver.host.next_deadline() == driver.now + 500
    driver.host.abandon(second)
    driver.wait(500)
    assert driver.replies[first].error_code == ErrorCode.none
    assert second not in driver.replies


def test_dynamic_configs_reach_the_shards() -> None:
    driver = with_topic(memory_driver())
    name = "group.consumer.assignment.interval.ms"
    altered = driver.ask(44, 1, asks.set_broker_config(name, "77"))
    assert altered.responses[0].error_code == ErrorCode.none
    assert driver.host.view.configs.integer(name) == 77
    assert driver.host._state.groups[0].machine.configs.integer(name) == 77


def test_only_partitions_with_a_known_leader_are_named_by_find_coordinator() -> None:
    driver = with_topic(memory_driver(partitions=2, leads=(0,)))
    driver.wait(RECENT_MS)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_in(0, 2), group_in(1, 2)))
    found = driver.ask(10, 6, request)
    assert [each.error_code for each in found.coordinators] == [
        ErrorCode.none,
        ErrorCode.coordinator_not_available,
    ]
    assert (found.coordinators[0].node_id, found.coordinators[0].port) == (0, 9092)


def test_a_leader_heard_of_is_named_until_a_newer_one_is() -> None:
    driver = with_topic(memory_driver(partitions=2, leads=(0,)))
    driver.host.catalog_event(NodeChanged(Node(1, "other", 9093)), driver.now)
    driver.pump()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_in(1, 2),))
    driver.host.receive_peer(1, [Leading(1, 5, 1)], driver.now)
    driver.host.receive_peer(1, [Leading(1, 4, 0)], driver.now)
    driver.host.peer_down(1, driver.now)
    driver.wait(RECENT_MS)
    assert driver.ask(10, 6, request).coordinators[0].node_id == 1
    driver.host.catalog_event(NodeChanged(Node(1, "other", 9093, up=False)), driver.now)
    driver.pump()
    found = driver.ask(10, 6, request).coordinators[0]
    assert found.error_code == ErrorCode.coordinator_not_available


def test_the_status_has_a_row_for_each_partition_held_here(three: Driver) -> None:
    three.ask(8, 9, asks.commit(group_in(2, 3), 1))
    rows = three.host.status()
    assert [row.partition for row in rows] == [-1, 0, 2, *map(SHARE_STATE.number, (0, 2))]
    assert [row.state for row in rows] == ["Leader"] * 5
    assert [row.epoch for row in rows] == [1] * 5
    assert rows[2].high_watermark == rows[2].end_offset == 2


def test_a_checkpoint_leaves_nothing_to_replay(three: Driver) -> None:
    three.ask(8, 9, asks.commit(group_in(2, 3), 1))
    effects = three.host.checkpoint()
    three.log.write(effects.writes, effects.sync)
    assert all(row.applied_offset == row.end_offset for row in three.host.status())
    again = three.restarted().load()
    assert asks.offsets_in(again.ask(9, 9, asks.fetch(group_in(2, 3))))


def test_the_same_events_give_the_same_effects() -> None:
    def story() -> list[Any]:
        driver = with_topic(memory_driver(partitions=3, leads=(0, 1, 2)))
        for name in ("b", "a", "c"):
            driver.ask(11, 9, asks.join(name, instance="i"))
        return [driver.written, driver.replies, driver.sent]

    assert story() == story()


def test_records_that_nothing_here_replays_are_counted_and_stay_in_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later version has written them: it finds them again after a downgrade to this one."""
    monkeypatch.setattr(group_types, "TABLES", EARLIER)
    log = MemoryLog()
    first = with_topic(Driver(log).load())
    first.ask(8, 8, asks.commit("g", 5))
    log.write(first.host.checkpoint().writes, sync=True)
    value = ShareGroupMetadataValue(epoch=2, metadata_hash=0)
    row = encode(Record(ShareGroupMetadataKey(group_id="s"), value))
    stored = log.stored(0)
    log.write([ApplyState(0, stored.applied_offset, stored.applied_epoch, [row])], sync=True)
    again = first.restarted(log)
    again.load()
    assert again.host.partitions[1].skipped == 1
    again.ask(8, 8, asks.commit("g", 6))
    log.write(again.host.checkpoint().writes, sync=True)
    assert row in list(log.state(0))
    assert asks.offsets_in(again.ask(9, 8, asks.fetch("g"))) == {"g": {("t", 0): 6}}


def test_a_partition_has_groups_from_the_first_member_or_offset_on() -> None:
    driver = with_topic(memory_driver())

    def has_groups() -> dict[int, bool]:
        return {row.partition: row.has_groups for row in driver.host.status()}

    assert not any(has_groups().values())
    driver.ask(8, 8, asks.commit("g", 1))
    static_group(driver, "h")
    expected = {partition_for(group, driver.host.identity.partitions) for group in ("g", "h")}
    assert {number for number, some in has_groups().items() if some} == expected
