"""What the start of a test's cluster does, and what it leaves to those who need it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.coordinator import coordinator
from actors.testing.coordinators import NODES, LocalCluster
from actors.testing.faults import InjectedFaults
from actors.testing.stories import GroupNotes
from tests.clients.confluent import admin
from tests.waiting import WITHIN_S


async def started(directory: Path) -> tuple[float, int]:
    """Start a cluster; return how long it took, and how many brokers a client finds there."""
    began_s = time.perf_counter()
    cluster = LocalCluster(directory, {}, GroupNotes(), InjectedFaults())
    await cluster.start()
    took_s = time.perf_counter() - began_s
    listing = asyncio.to_thread(admin(cluster.spec.bootstrap).list_topics, timeout=WITHIN_S)
    brokers = (await listing).brokers
    await cluster.stop()
    return took_s, len(brokers)


def test_a_start_prepares_no_api_version_that_no_client_has_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """All versions would take as long as the rest of the start: it must stay under five seconds.

    How long it takes here is a property of the report, as it depends on what else runs.
    """

    def prepared() -> Iterator[None]:
        raise AssertionError("it prepares versions")

    monkeypatch.setattr(coordinator, "preparations", prepared)
    took_s, brokers = asyncio.run(started(tmp_path))
    assert brokers == NODES
    record_property("start_s", round(took_s, 1))
