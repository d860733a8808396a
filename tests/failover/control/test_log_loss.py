"""When too many logs of a partition are gone, people are told so in one sentence."""

import pytest

from failover.control.log_loss import lost_majority
from failover.partitions.status import PartitionStatus


def row(*, is_voter: bool, leader: int = -1, partition: int = 3) -> PartitionStatus:
    return PartitionStatus(
        partition=partition, state="Follower", epoch=4, leader=leader, log_start_offset=0,
        applied_offset=0, high_watermark=0, end_offset=0, voters=(), learners=(), in_sync=(),
        is_voter=is_voter,
    )  # fmt: skip


VOTER, EMPTY = row(is_voter=True), row(is_voter=False)


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ((0, 1, 2), {0: VOTER, 1: VOTER, 2: EMPTY}),
        ((0, 1, 2), {0: VOTER, 2: EMPTY}),
        ((0, 1, 2), {}),
        ((0, 1, 2), {0: EMPTY, 1: EMPTY, 2: row(is_voter=True, leader=2)}),
        ((0,), {0: VOTER}),
    ],
    ids=["a majority", "one is down", "all are down", "somebody leads", "one replica"],
)
def test_nothing_is_said_while_a_leader_can_be_elected(
    nodes: tuple[int, ...], rows: dict[int, PartitionStatus]
) -> None:
    assert lost_majority(nodes, rows) is None


@pytest.mark.parametrize(
    ("nodes", "rows", "which"),
    [
        ((0, 1, 2), {0: EMPTY, 1: VOTER, 2: EMPTY}, "those of nodes 0 and 2 are empty"),
        ((0, 1, 2), {0: EMPTY, 1: EMPTY, 2: EMPTY}, "those of nodes 0, 1 and 2 are empty"),
        ((4,), {4: EMPTY}, "that of node 4 is empty"),
    ],
)
def test_a_lost_majority_is_named_with_what_to_do(
    nodes: tuple[int, ...], rows: dict[int, PartitionStatus], which: str
) -> None:
    said = lost_majority(nodes, rows)
    assert said is not None
    assert said.startswith(f"partition 3 has no majority of readable logs: {which}; stop the")
    assert "put back the directories that were there" in said and "\n" not in said


def test_the_catalogue_is_called_by_its_name() -> None:
    said = lost_majority((0,), {0: row(is_voter=False, partition=-1)})
    assert said is not None and said.startswith("the catalogue has no majority")
