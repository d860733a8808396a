"""A storm of bytes in small: the same frames and connections as ``rollcall bench hostile``."""

import time
from array import array
from types import SimpleNamespace

import pytest

from bench.cases import hostile
from bench.cases.well_behaved import WellBehavedResult, well_behaved_clients
from bench.client.blocking_client import BlockingClient
from bench.load import hostile_connections
from bench.load.hostile_connections import BURST, FLOOD_BURST, HostileLoad
from bench.load.hostile_frames import Pool
from bench.load.offsets import groups_on
from protocol.wire.apis import API
from protocol.wire.frames import BadFrame, UnsupportedApiVersion, decode_request
from tests.actors.coordinator.coordinators import running

FRAMES = 10_000
FRAMES_MIN = FRAMES // 20
SECONDS_MAX = 30
"""A machine that is busy with other things sends fewer frames; nothing else depends on it."""


def test_a_pool_comes_again_from_its_seed_and_holds_what_it_should() -> None:
    pool, again = Pool(1, 1_000), Pool(1, 1_000)
    assert (pool.valid, pool.rough) == (again.valid, again.rough)
    assert Pool(2, 100).valid != pool.valid[:100]
    keys = {decode_request(frame[4:]).api_key for frame in pool.valid}
    assert keys == set(API)
    bad = 0
    for frame in pool.rough:
        try:
            decode_request(frame[4:])
        except (BadFrame, UnsupportedApiVersion):
            bad += 1
    assert bad > len(pool.rough) // 3


def test_a_storm_of_bytes_harms_no_innocent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_connections, "SILENT", 100)
    with running() as cluster:
        bootstrap = [(each.listener.host, each.listener.port) for each in cluster.spec.places]
        epochs = [_epochs(each.status()) for each in cluster.coordinators]
        group_ids = [next(groups_on(number, 3, "innocent")) for number in range(3)]
        with well_behaved_clients(bootstrap, group_ids) as innocents:
            storm = HostileLoad(Pool(1, 2_000), bootstrap, [])
            deadline = time.monotonic() + SECONDS_MAX
            try:
                while storm.count.frames < FRAMES and (
                    time.monotonic() < deadline or storm.count.frames <= FRAMES_MIN
                ):
                    storm.turn()
                    assert not innocents.has_failed()
            finally:
                storm.close()
            result = innocents.stop()
        assert not result.failure
        assert storm.count.frames > FRAMES_MIN
        assert len(result.taken) and result.others
        assert [_epochs(each.status()) for each in cluster.coordinators] == epochs
        assert all(each.state == "Running" for each in cluster.coordinators)
        for address in bootstrap:
            with BlockingClient(address) as connection:
                connection.api_versions()


class Unheard(HostileLoad):
    """A storm with the clock in our hands, on connections that take all and answer nothing."""

    def connect(self, address, broken):  # type: ignore[no-untyped-def]
        return SimpleNamespace(send=lambda _: None, close=lambda: None)


def test_valid_heartbeats_fill_the_pace_that_other_frames_do_not_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        hostile_connections, "RawConnection", lambda *_: SimpleNamespace(tick=lambda: None)
    )
    here = ("127.0.0.1", 1)
    storm = Unheard(Pool(1, 100), [here], (), {here: [bytes(40)]}, per_second=5_000)
    begun = storm.now_s
    for second, mutated, flooding in ((0.1, 100, 400), (0.5, 500, 2_000), (1.2, 1_000, 4_000)):
        storm.now_s = begun + second
        storm.mutated.turn()
        storm.flooding.turn()
        assert storm.mutated.sent == pytest.approx(mutated, abs=2 * BURST)
        due = 5_000 * second - storm.mutated.sent
        most = hostile_connections.BURST_CONNECTIONS * (FLOOD_BURST + 1)
        assert min(due, most) <= storm.flooding.sent <= min(due, most) + FLOOD_BURST + 1
        assert storm.flooding.sent == pytest.approx(flooding, abs=5 * BURST + FLOOD_BURST)


@pytest.mark.parametrize(
    ("calm", "neutral", "storm", "is_good"),
    [
        (1.0, 1.0, 2.0, True),
        (1.0, 1.0, 2.1, False),
        (1.0, 3.0, 5.9, True),  # the generator alone does as much: the machine, not the cluster
        (1.0, 3.0, 6.1, False),
        (3.0, 1.0, 5.9, True),
    ],
)
def test_the_innocents_p99_may_double_against_a_machine_with_the_generator_on_it(
    calm: float, neutral: float, storm: float, is_good: bool
) -> None:
    result = WellBehavedResult(due=array("d"), taken=array("d"), others=0, failure="")
    figures = {"calm_p99_ms": calm, "neutral_p99_ms": neutral, "storm_p99_ms": storm}
    broken = hostile._broken(figures, result, hostile.ClusterObservation([1.0], [1.0]))
    assert (not broken) is is_good


def test_a_failed_request_an_election_and_too_much_memory_are_broken_each() -> None:
    result = WellBehavedResult(due=array("d"), taken=array("d"), others=0, failure="no answer")
    observed = hostile.ClusterObservation([1.0], [1_000.0], gone=True, elections=2)
    assert len(hostile._broken({}, result, observed)) == 4


def _epochs(status: dict) -> list[int]:  # type: ignore[type-arg]
    return [row["epoch"] for row in status["partitions"]]
