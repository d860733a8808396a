"""What the controller asks coordinators for, as log lines; many orders that are alike share one."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from failover.control.leadership_planner import Campaign, LeadershipTransfer
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from failover.control.leadership_planner import Order

NAMED_MAX: Final = 12
"""Partitions that a line names; the others are counted."""

LINES_MAX: Final = 12
"""Lines about the orders of one look; the others are counted."""


def _campaign(order: Campaign) -> tuple[str, str]:
    return f"coordinator {order.node_id} is asked to stand for election in", ""


def _transfer(order: LeadershipTransfer) -> tuple[str, str]:
    return f"coordinator {order.node_id} is asked to hand over", f" to coordinator {order.to}"


ORDERS: Final[Mapping[type, Callable[..., tuple[str, str]]]] = MappingProxyType(
    {Campaign: _campaign, LeadershipTransfer: _transfer}
)
"""The words before and after the names of partitions, for each type of order."""


def order_messages(orders: Iterable[Order]) -> Iterator[str]:
    """Return a line for all orders that differ by their partition only."""
    alike: dict[tuple[str, str], list[str]] = {}
    for order in orders:
        alike.setdefault(ORDERS[type(order)](order), []).append(title_of(order.partition))
    lines = [f"{before} {named(titles)}{after}" for (before, after), titles in alike.items()]
    yield from lines[:LINES_MAX]
    if len(lines) > LINES_MAX:
        yield f"{len(lines) - LINES_MAX} more coordinators are asked for the like"


def named(titles: list[str]) -> str:
    """Return names in one phrase, such as ``partition 1, partition 4 and 7 more``."""
    more = len(titles) - NAMED_MAX
    if more > 0:
        return f"{', '.join(titles[:NAMED_MAX])} and {more} more"
    return " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
