"""When a node's disk syncs too slowly for the node to lead."""

from failover.sync_times import KEPT, SyncTimes
from storage.log import MemoryLog
from tests.failover.apis import asks
from tests.failover.hosts import T0, Driver


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


class SlowDisk(Driver):
    """Its next sync goes on until the test ends it."""

    is_slow = False

    def sync(self) -> bool:
        super().sync()
        return not self.is_slow


def test_the_rows_of_a_node_tell_of_its_slow_disk() -> None:
    driver = SlowDisk(MemoryLog())
    driver.load()
    driver.ask(19, 7, asks.create_topics("t"))
    driver.is_slow = True
    driver.give(8, 8, asks.commit("g", 1))
    driver.pump()
    assert not any(row.is_slow for row in driver.host.status(driver.now))
    driver.now += 500
    assert all(row.is_slow for row in driver.host.status(driver.now))
    driver.turn.synced()
    driver.now += 60_000
    assert all(row.is_slow for row in driver.host.status(driver.now))
