"""Every served API is sent in simulations, and answered well in some of them."""

from collections import Counter

from failover.simulation.clients.callers import CALLS, MEMBERS_SEND, NOT_DONE_HERE
from failover.simulation.one_seed import run_seed
from failover.simulation.settings import GroupMix
from protocol.wire import apis

ENOUGH = (0, 2, 13, 6, 4, 11)
"""These were, the last time that somebody looked; others follow if they are not any more."""


def test_every_served_api_is_sent() -> None:
    missing = {
        api.name for key, api in apis.API.items() if key not in CALLS and key not in MEMBERS_SEND
    }
    assert missing == set(), "add a row to failover.simulation.clients.callers.CALLS"


def test_every_served_api_is_answered_well_within_a_few_seeds() -> None:
    calls: Counter[tuple[str, bool]] = Counter()
    wanted = {api.request.__name__ for key, api in apis.API.items() if key not in NOT_DONE_HERE}
    for seed in (*ENOUGH, *range(20, 40)):
        groups = GroupMix.ALL if seed else GroupMix.CLASSIC  # else few groups are classic ones
        report = run_seed(seed, groups=groups)
        assert report.violation is None
        calls.update(report.calls)
        if all(calls[name, True] for name in wanted):
            break
    assert {name for name in wanted if not calls[name, True]} == set()
