"""A pump polls its sockets between the halves of a turn: what is answered there, and what waits."""

import asyncio
from typing import Any

from actors.coordinator.pump import SERVE_S
from protocol.wire.apis import API
from protocol.wire.frames import encode_request
from tests.actors.coordinator.pumps import connected, pump_of
from tests.failover.apis import asks
from tests.failover.working import classic_member, working_driver

COMMIT, HEARTBEAT = 8, 12


def frame_of(key: int, message: Any) -> bytes:
    return encode_request(key, API[key].newest_by_name, 1, "client", message)


async def repeated_heartbeat() -> None:
    driver = working_driver()
    member_id, generation = classic_member(driver, "quiet")
    pump, log = pump_of(driver)
    quiet, answers = connected(pump)
    busy, others = connected(pump)
    beat = frame_of(HEARTBEAT, asks.heartbeat("quiet", generation, member_id))
    quiet.data_received(beat)
    pump.turn()
    assert not answers.sent, "the first half answers nothing"
    pump.turn()
    first, answers.sent = answers.sent, b""
    assert first

    busy.data_received(frame_of(COMMIT, asks.commit("busy", 5)))
    pump.turn()
    quiet.data_received(beat)
    assert answers.sent == first
    assert (log.units, others.sent) == (0, b""), "the commit is neither written nor answered yet"
    pump.turn()
    assert log.units == 1
    pump.close()


async def request_in_between() -> None:
    pump, log = pump_of(working_driver())
    early, _ = connected(pump)
    late, _ = connected(pump)
    early.data_received(frame_of(COMMIT, asks.commit("early", 5)))
    pump.turn()
    late.data_received(frame_of(COMMIT, asks.commit("late", 5)))
    pump.turn()
    assert (log.units, len(pump.listener.inbox)) == (1, 1)
    pump.turn()
    assert (log.units, len(pump.listener.inbox)) == (1, 0)
    pump.turn()
    assert log.units == 2
    pump.close()


async def serving_times() -> list[float]:
    """Return how long a turn may serve that comes after one with a slow write and no requests."""
    pump, _ = pump_of(working_driver())
    pump._writing._sum_s = 0.008
    pump.turn()
    times: list[float] = []
    client, _ = connected(pump)
    client.data_received(frame_of(COMMIT, asks.commit("g", 5)))
    pump.listener.serve = lambda seconds: bool(times.append(seconds))  # type: ignore[method-assign, func-returns-value]
    pump.turn()
    pump.close()
    return times


async def turns_until_idle() -> int:
    pump, log = pump_of(working_driver())
    early, _ = connected(pump)
    late, _ = connected(pump)
    early.data_received(frame_of(COMMIT, asks.commit("early", 5)))
    await asyncio.sleep(0)
    late.data_received(frame_of(COMMIT, asks.commit("late", 5)))
    for _ in range(8):
        await asyncio.sleep(0)
    pump.close()
    return log.units


def test_a_repeated_heartbeat_is_answered_between_the_halves_of_a_turn() -> None:
    asyncio.run(repeated_heartbeat())


def test_a_request_that_comes_between_the_halves_waits_for_the_next_turn() -> None:
    asyncio.run(request_in_between())


def test_the_next_turn_comes_without_another_event() -> None:
    assert asyncio.run(turns_until_idle()) == 2


def test_a_turn_without_requests_forgets_how_long_the_last_write_took() -> None:
    assert asyncio.run(serving_times()) == [SERVE_S]
