"""When a node's disk syncs too slowly for the node to lead."""

import pytest

from failover.sync_times import KEPT, KEPT_MS, SyncTimes
from tests.failover.apis import asks
from tests.failover.hosts import T0
from tests.failover.working import working_driver


def test_a_sync_of_half_an_election_timeout_is_slow_while_it_lasts_and_after_it() -> None:
    syncs = SyncTimes(1_000)
    assert not syncs.are_slow(T0)
    syncs.began(T0)
    assert not syncs.are_slow(T0 + 499)
    assert syncs.are_slow(T0 + 500)
    syncs.ended(T0 + 600)
    for number in range(KEPT):
        assert syncs.are_slow(T0 + 1_000)
        syncs.began(T0 + 1_000 + number)
        syncs.ended(T0 + 1_001 + number)
    assert not syncs.are_slow(T0 + 2_000)


def test_the_rows_of_a_node_tell_of_its_slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = working_driver()
    monkeypatch.setattr(driver, "sync", lambda: False)  # it goes on until the test ends it
    driver.give(8, 8, asks.commit("g", 1))
    driver.pump()
    assert not any(row.is_slow for row in driver.host.status(driver.now))
    driver.now += 500
    assert all(row.is_slow for row in driver.host.status(driver.now))
    driver.turn.synced()
    driver.now += KEPT_MS - 1
    assert all(row.is_slow for row in driver.host.status(driver.now))
    driver.now += 1
    assert not any(row.is_slow for row in driver.host.status(driver.now))
