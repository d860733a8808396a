"""One process from a client's request to its answer, and through a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from failover.catalog import NodeChanged
from failover.cluster_view import Node
from protocol.wire.errors import ErrorCode
from storage.identity import LogIdentity
from storage.rocks import RocksLog
from tests.failover import asks
from tests.failover.hosts import Driver, memory_driver


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
    ticket = driver.send(8, 9, asks.commit("g", 1))
    effects = driver.host.drain(driver.now)
    assert effects.writes and effects.sync and not effects.replies
    assert not driver.host.drain(driver.now)
    driver.write(effects)
    driver.host.persisted(driver.now)
    assert [reply.ticket for reply in driver.host.drain(driver.now).replies] == [ticket]
