"""A writer killed by ``kill -9`` at random moments, again and again on one directory.

ROLLCALL_CRASH_ROUNDS sets how often (20 unless told; ``make crash`` asks for 200).
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from storage.disk.rocks import RocksLog
from storage.log import MemoryLog
from tests.storage.dying_writer import IDENTITY, batch, unit

pytestmark = pytest.mark.thorough


ROUNDS = int(os.environ.get("ROLLCALL_CRASH_ROUNDS", "20"))
SIZE = 200


def killed_at_random(path: Path, rng: random.Random, *options: str) -> int:
    """Let a writer go on until it is killed; return the last offset that it acknowledged."""
    writer_args = ["-m", "tests.storage.dying_writer", str(path), "0", str(SIZE), *options]
    command = [sys.executable, *writer_args]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = -1
        for _ in range(rng.randrange(1, 150)):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        rest = writer.stdout.read().split()
    return int(rest[-1]) if rest else acknowledged


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_no_acknowledged_write_is_lost_over_many_kills(tmp_path: Path) -> None:
    rng = random.Random(os.environ.get("ROLLCALL_CRASH_SEED", "1"))
    end = 0
    for _ in range(ROUNDS):
        acknowledged = killed_at_random(tmp_path, rng)
        log = RocksLog.open(tmp_path, IDENTITY)
        stored = log.stored(0)
        assert stored.end_offset > acknowledged
        assert stored.end_offset <= acknowledged + 2, "one write may be under way, no more"
        model = expected(end := stored.end_offset)
        assert list(log.batches(0, 0)) == list(model.batches(0, 0))
        assert dict(log.state(0)) == dict(model.state(0))
        assert log.stored(0) == model.stored(0)
        log.close()
    assert end > ROUNDS


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_nothing_that_a_sync_in_a_thread_covered_is_lost_over_many_kills(tmp_path: Path) -> None:
    rng = random.Random(os.environ.get("ROLLCALL_CRASH_SEED", "2"))
    end = 0
    for _ in range(ROUNDS // 2):
        acknowledged = killed_at_random(tmp_path, rng, "thread")
        log = RocksLog.open(tmp_path, IDENTITY)
        stored = log.stored(0)
        assert stored.end_offset > acknowledged
        model = expected(end := stored.end_offset)
        assert list(log.batches(0, 0)) == list(model.batches(0, 0))
        assert dict(log.state(0)) == dict(model.state(0))
        log.close()
    assert end > ROUNDS


def expected(end_offset: int) -> MemoryLog:
    """Return the log that a writer leaves which was never killed."""
    log = MemoryLog()
    for offset in range(end_offset):
        log.write(unit(offset, SIZE), sync=True)
    return log


def test_what_the_writer_writes_is_what_this_test_expects() -> None:
    assert expected(8).stored(0).applied_offset == 6
    assert [found.base_offset for found in expected(41).batches(0, 0)] == list(range(19, 41))
    assert list(expected(2).batches(0, 0)) == [batch(0), batch(1)]
