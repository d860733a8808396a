"""When a node knows the catalogue well enough to lead groups."""

from types import SimpleNamespace
from typing import Any

import pytest

from failover.catalogue.known import CatalogKnowledge
from failover.partitions.partition import PartitionState
from storage.log import NOBODY

PATIENCE_MS = 2_000


def catalog(**more: Any) -> Any:
    """A follower that has a log and has heard of nobody yet."""
    replica = {"is_current": False, "end_offset": 6, "leader_id": NOBODY}
    replica |= {key: more.pop(key) for key in list(more) if key in replica}
    own = {"settled": True, "state": PartitionState.FOLLOWER, **more}
    return SimpleNamespace(replica=SimpleNamespace(**replica), **own)


@pytest.mark.parametrize(
    ("seen", "at_once", "later"),
    [
        ({"is_current": True}, True, True),
        ({"is_current": True, "settled": False}, False, True),
        ({}, False, True),
        ({"settled": False}, False, True),
        ({"leader_id": 1}, False, False),
        ({"end_offset": 0}, False, False),
        ({"state": PartitionState.LOADING, "settled": False}, False, False),
    ],
)
def test_it_is_known_when_all_of_it_came_or_nobody_leads_it(
    seen: dict[str, Any], at_once: bool, later: bool
) -> None:
    known = CatalogKnowledge(catalog(**seen), PATIENCE_MS, 0)
    assert known.look(1) is at_once
    if not at_once:
        assert known.look(PATIENCE_MS) is later
    assert known.is_known is (at_once or later)


@pytest.mark.parametrize("seen", [{"leader_id": 1}, {"settled": False, "leader_id": 1}])
def test_it_is_looked_at_again_and_not_all_the_time(seen: dict[str, Any]) -> None:
    known = CatalogKnowledge(catalog(**seen), PATIENCE_MS, 0)
    now = looks = 0
    while (due_ms := known.due_ms) is not None and due_ms <= 10 * PATIENCE_MS:
        now = max(now, due_ms)
        known.look(now)
        looks += 1
    assert looks <= 11
