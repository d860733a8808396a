"""A log is set aside only when the voters that are left are known to have everything."""

from dataclasses import replace

import pytest

from failover.control.healing import is_safe_without, may_set_aside
from failover.partition_kinds import SHARE_STATE, replicas
from failover.partitions.status import PartitionStatus

PLACEMENT = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def row(partition: int = 0, **differs: object) -> PartitionStatus:
    told = PartitionStatus(
        partition=partition, state="Follower", epoch=7, leader=2, log_start_offset=0,
        applied_offset=0, high_watermark=500, end_offset=500, voters=(0, 1, 2), learners=(),
        in_sync=(), is_voter=True,
    )  # fmt: skip
    return replace(told, **differs)  # type: ignore[arg-type]


def leads(*complete: int, **differs: object) -> PartitionStatus:
    return row(state="Leader", complete=complete, in_sync=(0, 1, 2), **differs)


SAFE = {0: row(), 2: leads(0, 2)}


def test_a_log_may_go_when_the_voters_left_have_everything() -> None:
    assert is_safe_without(1, SAFE)


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {0: row(), 2: row()},
        {0: row(is_voter=False), 2: leads(0, 2)},
        {0: row(), 2: leads(2)},
        {0: row(), 1: row(), 2: leads(1, 2)},
        {0: row(state="Loading"), 2: leads(0, 2)},
        {0: row(epoch=8), 2: leads(0, 2)},
        {0: row(epoch=6), 2: leads(0, 2)},
        {0: row(leader=1), 2: leads(0, 2)},
        {2: leads(0, 2)},
        {0: row(), 2: leads(0, 2, voters=(0, 1, 2, 3))},
        {0: row(), 1: leads(0, 1)},
    ],
    ids=[
        "nobody runs", "nobody leads", "an empty learner", "a follower that lags",
        "only the node itself", "it still loads", "a newer epoch", "an older epoch",
        "it follows another", "one is down", "too few of four", "the leader itself",
    ],
)  # fmt: skip
def test_a_log_is_kept_while_the_others_may_lack_something(
    rows: dict[int, PartitionStatus],
) -> None:
    assert not is_safe_without(1, rows)


def test_every_partition_of_the_node_must_be_safe() -> None:
    """S7: node 0 came back empty, node 1 is damaged, node 2 alone knows everything."""
    everything = (-1, *replicas(PLACEMENT))
    assert len(everything) == 7
    sound = {0: [row(n) for n in everything], 2: [leads(0, 2, partition=n) for n in everything]}
    assert may_set_aside(1, PLACEMENT, sound)
    for one in everything:
        rows = [row(n, is_voter=n != one) for n in everything]
        assert not may_set_aside(1, PLACEMENT, {**sound, 0: rows})
    assert not may_set_aside(1, PLACEMENT, {2: sound[2]})


def test_partitions_of_other_nodes_do_not_matter() -> None:
    placement = ((0, 1, 2), (3, 4, 5))
    held = (-1, 0, SHARE_STATE.number(0))
    reports = {0: [row(n) for n in held], 2: [leads(0, 2, partition=n) for n in held]}
    assert may_set_aside(1, placement, reports)
    assert not may_set_aside(3, placement, reports)
