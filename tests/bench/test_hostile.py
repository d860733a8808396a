"""A storm of bytes in small: the same frames and connections as ``rollcall bench hostile``."""

import time

import pytest

from bench import hostile_storm
from bench.asking import Connection
from bench.hostile_frames import Pool
from bench.hostile_storm import Storm
from bench.innocents import innocent_clients
from bench.offsets import groups_on
from protocol.wire.apis import API
from protocol.wire.frames import BadFrame, UnsupportedApiVersion, decode_request
from tests.actors.coordinators import running

FRAMES = 10_000
SECONDS_MAX = 60
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
    monkeypatch.setattr(hostile_storm, "SILENT", 100)
    with running() as cluster:
        bootstrap = [(each.host, each.port) for each in cluster.spec.listeners]
        epochs = [_epochs(each.status()) for each in cluster.coordinators]
        group_ids = [next(groups_on(number, 3, "innocent")) for number in range(3)]
        with innocent_clients(bootstrap, group_ids) as innocents:
            storm = Storm(Pool(1, 2_000), bootstrap, [])
            deadline = time.monotonic() + SECONDS_MAX
            try:
                while storm.count.frames < FRAMES and time.monotonic() < deadline:
                    storm.turn()
                    assert not innocents.has_failed()
            finally:
                storm.close()
            felt = innocents.stop()
        assert not felt.failure
        assert storm.count.frames > FRAMES // 20
        assert len(felt.taken) and felt.others
        assert [_epochs(each.status()) for each in cluster.coordinators] == epochs
        assert all(each.state == "Running" for each in cluster.coordinators)
        for address in bootstrap:
            with Connection(address) as connection:
                connection.api_versions()


def _epochs(status: dict) -> list[int]:  # type: ignore[type-arg]
    return [row["epoch"] for row in status["partitions"]]
