"""The scenarios that come with the program: each one's figures show what it is about."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from bench.scenarios import simulated
from bench.scenarios.files import found, names
from bench.scenarios.plan import expand
from bench.scenarios.record import GroupCosts
from bench.scenarios.verdict import judge

Costs = Mapping[str, GroupCosts]

SHOWS: Final[Mapping[str, Callable[[Costs], bool]]] = {
    "autoscaler-flapping": lambda of: (
        of["hasty"].rebalances > 3 * of["patient"].rebalances and of["hasty"].moved > 50
    ),
    "bad-application": lambda of: of["bad"].rebalances > 20 and not of["neighbour"].rebalances,
    "churn": lambda of: (
        of["classic"].unavailable_member_ms > 10 * of["modern"].unavailable_member_ms
    ),
    "crash-restart": lambda of: (
        of["same-instance-id"].rebalances == 0
        and min(of[name].unowned_ms for name in ("new-instance-id", "no-instance-id")) > 40_000
    ),
    "deploy-by-protocol": lambda of: (
        of["classic"].unavailable_member_ms
        > 10 * max(of[name].unavailable_member_ms for name in ("modern", "shared", "streams"))
    ),
    "leader-loss-in-deploy": lambda of: of["orders"].rebalances == 0,
    "long-pauses": lambda of: (
        of["shorter"].rebalances == 0 and min(of["longer"].moved, of["modern"].moved) > 0
    ),
    "mass-restart": lambda of: (
        of["static"].rebalances == 0 and of["dynamic"].unowned_ms > 2 * of["static"].unowned_ms
    ),
    "node-drains": lambda of: of["one-by-one"].rebalances > of["all-at-once"].rebalances > 0,
    "pod-names-on-a-deployment": lambda of: (
        of["stateful-set"].rebalances == 0 and of["deployment"].unowned_ms > 40_000
    ),
    "poll-timeout": lambda of: of["dynamic"].rebalances == of["modern"].rebalances == 4,
    "rolling-deploy": lambda of: of["static"].moved == 0 and of["dynamic"].moved > 50,
    "scale-steps": lambda of: of["ordered"].rebalances > of["at-once"].rebalances > 0,
    "slow-revokes": lambda of: (
        of["classic"].unavailable_member_ms > 10 * of["modern"].unavailable_member_ms
        and of["classic"].unavailable_member_ms > 10 * of["quick"].unavailable_member_ms
    ),
    "steady": lambda of: not any(each.moved or each.unavailable_member_ms for each in of.values()),
    "streams-scale-out": lambda of: of["streams"].members == 12,
    "which-deploy": lambda of: of["orders"].rebalances > 0,
    "zombie": lambda of: of["classic"].failed == 1 and of["modern"].moved == 0,
}


def test_each_scenario_has_a_row() -> None:
    assert set(SHOWS) == set(names())


@pytest.mark.parametrize("name", SHOWS)
def test_a_shipped_scenario_is_clean_and_shows_what_it_is_about(name: str) -> None:
    scenario = found(name)
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    verdict = judge(scenario, record, "simulated")
    assert verdict.is_clean, verdict.text()
    costs = {each.group.name: each.costs for each in verdict.groups}
    assert SHOWS[name](costs), verdict.text()
