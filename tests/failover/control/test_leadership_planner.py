"""What the controller advises, from what it was told."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from failover.control.leadership_planner import (
    CAMPAIGN_AGAIN_MS,
    CAMPAIGN_AGAIN_MS_MAX,
    HAND_OVER_AGAIN_MS,
    REBALANCE_MS,
    TRANSFER_AGAIN_MS,
    Campaign,
    LeadershipPlanner,
    LeadershipTransfer,
)
from failover.partition_kinds import SHARE_STATE
from failover.partitions.status import PartitionStatus

T0 = 1_700_000_000_000
PLACEMENT = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def row(
    partition: int,
    state: str,
    *,
    epoch: int = 1,
    end_offset: int = 10,
    in_sync: Sequence[int] = (0, 1, 2),
    has_groups: bool = True,
    is_slow: bool = False,
) -> PartitionStatus:
    return PartitionStatus(
        partition=partition,
        state=state,
        epoch=epoch,
        leader=-1,
        log_start_offset=0,
        applied_offset=0,
        high_watermark=end_offset,
        end_offset=end_offset,
        voters=(0, 1, 2),
        learners=(),
        in_sync=tuple(in_sync) if state == "Leader" else (),
        has_groups=has_groups,
        is_slow=is_slow,
    )


class Watch:
    """Three nodes; each leads its partition, and node 0 the catalogue, unless told otherwise."""

    def __init__(self, rebalance_ms: int | None = REBALANCE_MS) -> None:
        self.controller = LeadershipPlanner(range(3), PLACEMENT, (0, 1, 2), rebalance_ms)
        self.now = T0
        self.leads = {-1: 0, 0: 0, 1: 1, 2: 2}
        self.epochs = dict.fromkeys(self.leads, 1)
        self.ends: dict[tuple[int, int], int] = {}
        self.loading: set[int] = set()
        self.alive = {0, 1, 2}
        self.in_sync = [0, 1, 2]
        self.empty: set[int] = set()
        self.slow: set[int] = set()

    def report(self) -> None:
        for node in sorted(self.alive):
            rows = [self.row(node, partition, leader) for partition, leader in self.leads.items()]
            self.controller.report(node, rows, self.now)

    def row(self, node: int, partition: int, leader: int) -> PartitionStatus:
        state = "Leader" if node == leader else "Loading" if node in self.loading else "Follower"
        end_offset = self.ends.get((node, partition), 10)
        epoch = self.epochs.get(partition, 1)
        return row(
            partition,
            state,
            epoch=epoch,
            end_offset=end_offset,
            in_sync=self.in_sync,
            has_groups=partition not in self.empty,
            is_slow=node in self.slow,
        )

    def orders(self, later_ms: int = 0) -> list[Campaign | LeadershipTransfer]:
        self.now += later_ms
        return self.controller.orders(self.now)

    def kill(self, node: int) -> None:
        self.alive.discard(node)
        self.controller.down(node)


def test_a_quiet_cluster_needs_no_orders() -> None:
    watch = Watch()
    watch.report()
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS * 2) == []


def test_the_most_complete_standby_of_a_dead_process_is_called_on_at_once() -> None:
    watch = Watch()
    watch.ends = {(1, 0): 9, (2, 0): 10, (1, -1): 10, (2, -1): 9}
    watch.report()
    watch.kill(0)
    assert watch.orders() == [Campaign(1, -1), Campaign(2, 0)]
    assert watch.orders(1) == []


def test_a_standby_whose_machine_is_still_loading_comes_last() -> None:
    watch = Watch()
    watch.ends = {(1, 0): 9}
    watch.loading = {2}
    watch.report()
    watch.kill(0)
    assert Campaign(1, 0) in watch.orders()


def test_a_standby_whose_disk_syncs_slowly_comes_last() -> None:
    watch = Watch()
    watch.ends = {(1, 0): 9}
    watch.slow = {2}
    watch.report()
    watch.kill(0)
    assert Campaign(1, 0) in watch.orders()
    assert Campaign(2, 0) in watch.orders(CAMPAIGN_AGAIN_MS)


def test_no_leadership_goes_back_to_a_disk_that_syncs_slowly() -> None:
    watch = Watch()
    watch.leads |= {0: 1, 2: 1}
    watch.empty, watch.slow = {2}, {0, 2}
    watch.report()
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS) == []
    watch.slow = set()
    watch.report()
    assert watch.orders() == [LeadershipTransfer(1, 2, 2)]
    assert watch.orders(REBALANCE_MS) != []


def test_a_campaign_that_brought_no_leader_is_given_to_the_next_best() -> None:
    watch = Watch()
    watch.report()
    watch.kill(0)
    assert Campaign(1, 0) in watch.orders()
    assert Campaign(2, 0) in watch.orders(CAMPAIGN_AGAIN_MS)
    assert Campaign(1, 0) in watch.orders(CAMPAIGN_AGAIN_MS)


def test_campaigns_that_bring_no_leader_are_given_ever_more_time() -> None:
    """A vote waits for a sync, which a slow disk takes long for; another campaign ends it."""
    watch = Watch()
    watch.report()
    watch.kill(0)
    times = [watch.now for _ in range(1_200) if Campaign(1, 0) in watch.orders(100)]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 2 * CAMPAIGN_AGAIN_MS and pauses[-1] >= CAMPAIGN_AGAIN_MS_MAX
    watch.leads[0] = 1
    watch.report()
    assert watch.orders() == []
    watch.leads[0] = -1
    watch.report()
    assert Campaign(1, 0) in watch.orders(CAMPAIGN_AGAIN_MS)


def test_a_zombie_of_an_older_epoch_is_not_taken_for_the_leader() -> None:
    watch = Watch()
    watch.report()
    newer = row(0, "Leader", epoch=2)
    watch.controller.report(1, [newer], watch.now)
    assert watch.controller.leader(0) == 1


def test_leadership_goes_back_to_a_preferred_replica_that_has_long_been_caught_up() -> None:
    watch = Watch()
    watch.leads[0] = 1
    watch.in_sync = [1, 2]
    watch.report()
    assert watch.orders(REBALANCE_MS) == []
    watch.in_sync = [0, 1, 2]
    watch.report()
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS - 1) == []
    assert watch.orders(1) == [LeadershipTransfer(1, 0, 0)]
    assert watch.orders(1) == []


def test_a_draining_node_hands_over_what_it_leads_and_gets_nothing_back() -> None:
    watch = Watch()
    watch.report()
    watch.controller.drain(0)
    assert watch.orders() == [LeadershipTransfer(0, -1, 1), LeadershipTransfer(0, 0, 1)]
    watch.leads |= {-1: 1, 0: 1}
    watch.report()
    assert watch.orders(REBALANCE_MS * 2) == []
    watch.controller.drain(0, False)
    watch.orders()
    assert watch.orders(REBALANCE_MS) == [LeadershipTransfer(1, 0, 0)]  # the catalogue stays


def test_leadership_that_buys_no_balance_stays_where_it_is() -> None:
    watch = Watch()
    watch.leads |= {0: 1, 1: 0}
    watch.report()
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS) == []


def test_leadership_goes_back_slowly_one_partition_after_the_other() -> None:
    watch = Watch()
    watch.leads |= {0: 2, 1: 2}
    watch.report()
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS) == [LeadershipTransfer(2, 0, 0)]
    assert watch.orders(TRANSFER_AGAIN_MS - 1) == []
    assert watch.orders(1) == [LeadershipTransfer(2, 0, 0)]  # it did not succeed
    watch.leads[0] = 0
    watch.report()
    assert watch.orders(TRANSFER_AGAIN_MS) == [LeadershipTransfer(2, 1, 1)]


def test_leadership_stays_where_it_is_when_it_is_not_to_be_balanced() -> None:
    watch = Watch(rebalance_ms=None)
    watch.leads |= {0: 2, 1: 2}
    watch.report()
    assert watch.orders() == []
    assert watch.orders(10 * REBALANCE_MS) == []


def test_a_partition_without_groups_goes_home_at_once_whatever_the_balance() -> None:
    watch = Watch()
    watch.leads |= {-1: 2, 0: 1, 1: 0}
    watch.empty = {-1, 0}
    watch.report()
    assert watch.orders() == [
        LeadershipTransfer(1, 0, 0)
    ]  # neither the catalogue nor what holds groups
    assert watch.orders(HAND_OVER_AGAIN_MS - 1) == []
    assert watch.orders(1) == [LeadershipTransfer(1, 0, 0)]  # it did not succeed


def test_several_partitions_without_groups_go_home_together() -> None:
    watch = Watch()
    watch.leads |= {0: 2, 1: 2}
    watch.empty = {0, 1, 2}
    watch.report()
    assert watch.orders() == [LeadershipTransfer(2, 0, 0), LeadershipTransfer(2, 1, 1)]


@pytest.mark.parametrize("trouble", ["not in sync", "draining", "dead", "loading", "not wanted"])
def test_a_partition_without_groups_stays_while_its_preferred_node_can_not_lead(
    trouble: str,
) -> None:
    watch = Watch(None if trouble == "not wanted" else REBALANCE_MS)
    watch.leads[0] = 1
    watch.leads[-1] = 1
    watch.empty = {0}
    watch.in_sync = [1, 2] if trouble == "not in sync" else [0, 1, 2]
    watch.loading = {0} if trouble == "loading" else set()
    watch.controller.drain(0, trouble == "draining")
    watch.report()
    if trouble == "dead":
        watch.kill(0)
    assert watch.orders() == []
    assert watch.orders(REBALANCE_MS) == []


def test_while_the_cluster_starts_everything_goes_home_at_once() -> None:
    watch = Watch()
    watch.controller.is_starting = True
    states = list(SHARE_STATE.numbers(3))
    watch.leads |= {-1: 2, 0: 2, 1: 2, states[0]: 2, states[1]: 1, states[2]: 2}
    watch.report()
    assert not watch.controller.is_at_home()
    assert watch.orders() == [
        LeadershipTransfer(2, -1, 0),
        LeadershipTransfer(2, 0, 0),
        LeadershipTransfer(2, 1, 1),
        LeadershipTransfer(2, states[0], 0),
    ]
    watch.leads |= {-1: 0, 0: 0, 1: 1, states[0]: 0}
    watch.report()
    assert watch.controller.is_at_home()
    assert watch.orders(REBALANCE_MS) == []


def test_a_start_waits_for_no_node_that_can_not_lead_yet() -> None:
    watch = Watch()
    watch.leads |= {
        -1: 1,
        0: 1,
        **dict.fromkeys(SHARE_STATE.numbers(2), 1),
        SHARE_STATE.number(2): 2,
    }
    watch.report()
    assert not watch.controller.is_at_home()
    watch.kill(0)
    assert watch.controller.is_at_home()
    watch.kill(1)
    assert not watch.controller.is_at_home()  # somebody has to lead


def test_a_controller_that_begins_anew_orders_nothing_it_does_not_know_of() -> None:
    assert Watch().orders() == []
