"""A coordinator whose program does not support the cluster's feature level does not serve."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from actors.coordinator.coordinator import Coordinator
from failover.catalogue import levels
from failover.catalogue.levels import ROLLCALL_VERSION, LevelRange
from protocol.wire.admin_messages import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.wire.errors import ErrorCode
from tests.actors.coordinator.test_coordinator import Caller, is_ready, run, running
from tests.waiting import WITHIN_S, until_async

UPDATE_FEATURES = 57
RAISE = UpdateFeaturesRequest(
    timeout=timedelta(seconds=1),
    feature_updates=(FeatureUpdateKey(feature=ROLLCALL_VERSION, max_version_level=1),),
)


def check_refusal(coordinator: Coordinator) -> None:
    assert coordinator.status()["state"] == "Failed"
    assert coordinator.failure == (
        "The cluster's rollcall.version is finalized at level 1, and this version of Rollcall "
        "supports 0: install the version that the other hosts have."
    )
    assert coordinator.is_mistake
    assert not coordinator.is_damaged, "the log is whole: it must not be replaced"


def test_it_stops_when_it_learns_of_the_level_and_does_not_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            assert coordinator.status()["levels"] == {"supported": [0, 1], "finalized": 0}
            monkeypatch.setattr(levels, "SUPPORTED", LevelRange(0, 0))  # as an older version
            caller = await Caller.to(port)
            caller.send(UPDATE_FEATURES, RAISE)

            async def failed() -> bool:
                return coordinator.state == "Failed"

            await until_async(failed, WITHIN_S, "the coordinator has stopped")
            check_refusal(coordinator)
            caller.close()
        async with running(tmp_path / "d") as (coordinator, _):
            await asyncio.wait_for(coordinator.ready.wait(), WITHIN_S)
            check_refusal(coordinator)

    run(test)


def test_a_level_that_it_supports_is_still_in_force_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            answer = await caller.ask(UPDATE_FEATURES, RAISE)
            assert answer.error_code is ErrorCode.none, answer
            assert coordinator.status()["levels"]["finalized"] == 1
            caller.close()
        async with running(tmp_path / "d") as (coordinator, _):
            await is_ready(coordinator)
            assert coordinator.status()["levels"]["finalized"] == 1

    run(test)
