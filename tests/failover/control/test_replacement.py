"""A coordinator leaves a lost host late, one at a time, when the others have everything."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from failover.control.replacement import HostsView, Replacement, ReplacementPlanner, spare_host
from failover.partition_kinds import CATALOG, SHARE_STATE
from failover.partitions.status import PartitionStatus
from tests.failover.control.test_healing import leads, row

PLACEMENT = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
NUMBERS = (CATALOG.first, 0, 1, 2, *SHARE_STATE.numbers(3))
HOMES = ("a", "b", "c")
AFTER_MS = 600_000
ALL: dict[str, str | None] = dict.fromkeys("abcd")
WITHOUT_B: dict[str, str | None] = dict.fromkeys("acd")


def reports_of(*, learners: tuple[int, ...] = ()) -> dict[int, list[PartitionStatus]]:
    """Nodes 0 and 2 serve, and 2 leads everything."""
    led = leads(0, 2, learners=learners)
    return {
        0: [row(number) for number in NUMBERS],
        2: [replace(led, partition=number) for number in NUMBERS],
    }


def view(
    living: Mapping[str, str | None] = WITHOUT_B,
    reports: Mapping[int, Sequence[PartitionStatus]] | None = None,
    homes: Sequence[str] = HOMES,
) -> HostsView:
    return HostsView(
        homes=homes, living=living, reports=reports_of() if reports is None else reports
    )


def planner(after_ms: int = AFTER_MS) -> ReplacementPlanner:
    return ReplacementPlanner(PLACEMENT, after_ms)


def test_a_lost_host_is_replaced_after_the_time() -> None:
    watching = planner()
    assert watching.look(view(), 0) is None
    assert watching.look(view(), AFTER_MS - 1) is None
    assert watching.look(view(), AFTER_MS) == Replacement(1, "d")


def test_a_host_that_is_back_starts_the_time_again() -> None:
    watching = planner()
    watching.look(view(), 0)
    assert watching.look(view(ALL), AFTER_MS - 1) is None
    assert watching.look(view(), AFTER_MS) is None
    assert watching.look(view(), 2 * AFTER_MS) == Replacement(1, "d")


def test_a_coordinator_that_serves_is_not_away_whatever_ray_says_of_its_host() -> None:
    watching = planner()
    everybody = {**reports_of(), 1: [row(number) for number in NUMBERS]}
    assert watching.look(view(reports=everybody), 0) is None
    assert watching.look(view(reports=everybody), AFTER_MS) is None


def test_with_0_nothing_is_replaced() -> None:
    watching = planner(0)
    assert watching.look(view(), 0) is None
    assert watching.look(view(), 10 * AFTER_MS) is None


def test_nothing_is_replaced_while_the_others_may_lack_records() -> None:
    watching = planner()
    alone = {2: reports_of()[2]}
    watching.look(view(reports=alone), 0)
    assert watching.look(view(reports=alone), AFTER_MS) is None
    assert watching.look(view(), AFTER_MS + 1) == Replacement(1, "d")


def test_one_is_replaced_at_a_time() -> None:
    watching = planner()
    filling = reports_of(learners=(0,))
    watching.look(view(reports=filling), 0)
    assert watching.look(view(reports=filling), AFTER_MS) is None


def test_without_a_spare_host_it_is_said_and_the_cluster_goes_on() -> None:
    watching = planner()
    living: dict[str, str | None] = dict.fromkeys("ac")
    watching.look(view(living), 0)
    assert watching.look(view(living), AFTER_MS) is None
    assert watching.problems == (
        "The host b of coordinator 1 is away, and no host is spare: each of the others has a"
        " replica of its partitions. Add a host to the Ray cluster.",
    )
    assert watching.look(view(ALL), AFTER_MS + 1) is None
    assert watching.problems == ()


def test_a_spare_host_is_on_another_rack_and_has_few_coordinators() -> None:
    placement = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (3, 0, 1))
    homes = ("a", "b", "c", "d")
    racks = {"a": "1", "c": "2", "d": "3", "e": "1", "f": None}
    assert spare_host(2, placement, homes, racks) == "f", "d has a coordinator"
    assert spare_host(2, placement, homes, {**racks, "f": "1"}) == "d", "it shares no partition"
    assert spare_host(1, placement, homes, {**racks, "f": "4"}) == "f"
    assert spare_host(1, placement, homes, {"a": "1", "c": "2", "d": "3"}) is None
