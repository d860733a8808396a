"""How soon members of an unsettled group are asked back, and that a lasting unrest costs little."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.config import Configs
from protocol.groups.consumer.group import KIND
from protocol.groups.modern.runtime import UnsettledPeriod
from protocol.groups.modern.unsettled import LASTING_HEARTBEATS_PER_S, heartbeat_interval_ms

T0 = 1_700_000_000_000
ASSIGNMENT_MS, INTERVAL_MS, SOON_MS = 1_000, 5_000, 1_250


class Asking:
    """Asks for the interval of a group's members, as answers to heartbeats do."""

    def __init__(self, members: int) -> None:
        self.live: Any = SimpleNamespace(
            unsettled_period=UnsettledPeriod(),
            group=SimpleNamespace(kind=KIND, members=range(members)),
        )
        self.ctx: Any = SimpleNamespace(configs=Configs({}), rng=random.Random(1))

    def at(self, ms: int) -> int:
        return heartbeat_interval_ms(self.ctx, self.live, ASSIGNMENT_MS, INTERVAL_MS, T0 + ms)

    def throughout(self, begin_ms: int, end_ms: int) -> list[int]:
        return [self.at(ms) for ms in range(begin_ms, end_ms, 100)]


@pytest.mark.parametrize("members", [1, 200, 1_000, 100_000])
def test_members_are_asked_back_soon_while_the_group_may_settle(members: int) -> None:
    assert set(Asking(members).throughout(0, INTERVAL_MS)) == {SOON_MS}


@pytest.mark.parametrize(
    ("members", "told_ms"), [(1, SOON_MS), (125, SOON_MS), (200, 2_000), (400, 4_000)]
)
def test_in_a_lasting_unrest_all_members_together_come_so_often_and_no_more(
    members: int, told_ms: int
) -> None:
    asking = Asking(members)
    asking.throughout(0, INTERVAL_MS)
    assert set(asking.throughout(INTERVAL_MS, 60_000)) == {told_ms}
    assert members * 1000 / told_ms <= LASTING_HEARTBEATS_PER_S


@pytest.mark.parametrize("members", [500, 1_000, 100_000])
def test_members_of_a_large_group_in_lasting_unrest_do_not_all_come_at_once(members: int) -> None:
    asking = Asking(members)
    asking.throughout(0, INTERVAL_MS)
    told = asking.throughout(INTERVAL_MS, 60_000)
    assert min(told) >= INTERVAL_MS * 4 // 5
    assert max(told) <= INTERVAL_MS
    assert len(set(told)) > len(told) // 2


def test_after_a_quiet_interval_it_is_another_unrest() -> None:
    asking = Asking(200)
    asking.throughout(0, 20_000)
    assert asking.at(20_000 + INTERVAL_MS - 200) == 2_000
    assert asking.at(40_000) == SOON_MS


def test_nobody_is_asked_to_come_later_than_after_the_heartbeat_interval() -> None:
    asking = Asking(1)
    assert heartbeat_interval_ms(asking.ctx, asking.live, 15_000, INTERVAL_MS, T0) == INTERVAL_MS
