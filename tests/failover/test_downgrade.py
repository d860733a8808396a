"""A node of an earlier version reads a log with records of later group types, and keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.groups import group_types
from protocol.wire.errors import ErrorCode
from tests.failover.apis import asks
from tests.failover.hosts import Driver
from tests.failover.working import beat, context, hard, working_driver
from tests.protocol.groups.streams.streams_talk import subtopology, topology
from tests.protocol.groups.test_downgrade import CONFIGS, EARLIER, share_beat, streams_beat

TOPOLOGY = topology(subtopology(sources=("t",)))


def groups_of(driver: Driver) -> dict[str, Any]:
    return {name: hard(driver)["groups"][name] for name in ("g", "s")}


def share_state(driver: Driver) -> Any:
    machine: Any = driver.host.partitions[2].machine
    return machine.context.states


def applied(driver: Driver) -> int:
    return driver.log.stored(0).applied_offset


@pytest.mark.thorough
def test_an_earlier_version_keeps_what_it_skips_when_it_compacts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver(configs=CONFIGS)
    for message in (
        beat("c", "A"),
        share_beat("s", "A"),
        streams_beat("g", "A", topology=TOPOLOGY),
        streams_beat("g", "B", topology=TOPOLOGY),
    ):
        assert driver.ask(message.__api_key__, 1, message).error_code is ErrorCode.none
    before = groups_of(driver)
    share_states = share_state(driver)
    assert share_states["s"]

    monkeypatch.setattr(group_types, "TABLES", EARLIER)
    earlier = driver.restarted().load()
    assert sorted(context(earlier).groups) == ["c"]
    assert earlier.host.partitions[1].skipped > 10
    was_applied = applied(earlier)
    for number in range(1_100):
        earlier.ask(8, 9, asks.commit(f"other-{number}", 7))
    assert applied(earlier) > was_applied  # its compacted state is on disk

    monkeypatch.undo()
    later = earlier.restarted().load()
    assert later.host.partitions[1].skipped == 0
    assert groups_of(later) == before
    assert share_state(later) == share_states
    assert context(later).offsets["other-2"]
