"""Orders of the controller, and drains, in plain sentences."""

from typing import get_args

import pytest

from actors.logs.drains import drain_message
from actors.logs.orders import LINES_MAX, ORDERS, order_messages
from failover.control.leadership_planner import Campaign, LeadershipTransfer, Order


def test_every_kind_of_order_has_its_sentence() -> None:
    assert ORDERS.keys() == set(get_args(Order))


def test_an_order_names_its_partition_as_operators_know_it() -> None:
    orders = [Campaign(1, 7), LeadershipTransfer(2, -1, 0), LeadershipTransfer(2, 1_000_003, 0)]
    assert list(order_messages(orders)) == [
        "coordinator 1 is asked to stand for election in partition 7",
        "coordinator 2 is asked to hand over the catalogue and share state partition 3"
        " to coordinator 0",
    ]


def test_orders_about_many_partitions_share_lines() -> None:
    fifty = [Campaign(number % 2, number) for number in range(50)]
    first, second = order_messages(fifty)
    assert first.startswith("coordinator 0 is asked to stand for election in partition 0, parti")
    assert second.endswith("partition 23 and 13 more")
    apart = list(order_messages([Campaign(number, number) for number in range(50)]))
    assert len(apart) == LINES_MAX + 1
    assert apart[-1] == "38 more coordinators are asked for the like"


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ({}, "it led nothing"),
        ({0: 1, 3: 1, 6: 0}, "its 3 leaderships went to others, 1 to coordinator 0, 2 to"),
        ({0: 1, 3: None}, "1 of its 2 leaderships went to others, 1 to coordinator 1; no new"),
        ({0: None, -1: None}, "no new leader is known of partition 0 and the catalogue"),
    ],
)
def test_the_end_of_a_drain_says_where_leaderships_went(
    leaders: dict[int, int | None], said: str
) -> None:
    assert drain_message(2, leaders).startswith(f"coordinator 2 is drained: {said}")
