"""The controller exports the cluster as it sees it; an export outlasts one that is busy."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from actors.deployment import cluster_export
from actors.deployment.cluster_export import open_cluster_metrics
from actors.metrics.row import MetricScope, MetricSource
from tests.waiting import WITHIN_S

STATUS: Mapping[str, Any] = {
    "coordinators": [{"node_id": 0, "state": "Running", "leads": [0]}],
    "workers": [{"waiting": 2}],
    "under_replicated": [],
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return what exports are opened with."""
    found: list[tuple[Any, ...]] = []

    def open_metrics(resource: object, read: object, *, sources: object) -> None:
        found.append((resource, read, sources))

    monkeypatch.setattr(cluster_export, "open_metrics", open_metrics)
    return found


def test_the_parts_of_the_overview_are_read_from_another_thread(
    opened: list[tuple[Any, ...]],
) -> None:
    async def overview() -> Mapping[str, Any]:
        return STATUS

    async def test() -> None:
        open_cluster_metrics({"service.instance.id": "controller"}, overview)
        ((resource, read, sources),) = opened
        assert resource == {"service.instance.id": "controller"}
        assert sources == [MetricSource.CONTROLLER]
        parts = {
            scope: await asyncio.wait_for(asyncio.to_thread(read, scope), WITHIN_S)
            for scope in MetricScope
        }
        assert parts[MetricScope.COORDINATOR] == [(("0",), STATUS["coordinators"][0])]
        assert parts[MetricScope.WORKER] == [(("0",), {"waiting": 2})]
        assert parts[MetricScope.CLUSTER] == [((), STATUS)]

    asyncio.run(test())


def test_an_overview_that_does_not_come_or_fails_leaves_the_export_empty(
    opened: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_export, "ASK_S", 0.01)
    cancelled = asyncio.Event()

    async def never() -> Mapping[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return STATUS

    async def failing() -> Mapping[str, Any]:
        raise OSError("unreachable")

    async def test() -> None:
        for overview in (never, failing):
            open_cluster_metrics({}, overview)
            _, read, _ = opened[-1]
            assert await asyncio.to_thread(read, MetricScope.CLUSTER) == []
        await asyncio.wait_for(cancelled.wait(), WITHIN_S)

    asyncio.run(test())
