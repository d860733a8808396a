"""How large a log is and how much room its disk has: measured off the loop, and not too often."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from actors.coordinator import disk_room
from actors.coordinator.disk_room import MEASURE_MS, DiskRoom, measure
from actors.disk_words import disk_words, in_units
from storage.disk.directory import set_aside
from tests.waiting import WITHIN_S, until_async


def test_a_measurement_has_the_log_its_disk_and_what_was_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "n0"
    log.mkdir()
    (log / "000001.sst").write_bytes(b"x" * 5_000)
    (tmp_path / "n0.old-1").mkdir()
    assert measure(log)["set_aside"] == 0
    assert set_aside(log).name == "n0.corrupt-1"
    (log / "stale-1").mkdir()
    (log / "000002.log").write_bytes(b"x" * 700)
    found, room = measure(log), os.statvfs(log)
    assert (found["log_bytes"], found["set_aside"]) == (700, 2)
    assert found["total_bytes"] == room.f_blocks * room.f_frsize
    assert 0 < found["free_bytes"] <= found["total_bytes"]


def test_it_is_measured_on_a_thread_and_at_most_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def counted(directory: Path) -> dict[str, int]:
        threads.append(threading.get_ident())
        return measure(directory)

    monkeypatch.setattr(disk_room, "measure", counted)

    async def test() -> None:
        now = [0]
        room = DiskRoom(tmp_path, asyncio.get_running_loop(), lambda: now[0])
        assert room.status() == {}, "nobody waits for the disk"

        async def is_known() -> bool:
            return bool(room.status())

        await until_async(is_known, WITHIN_S, "it is measured")
        for _ in range(100):
            room.status()
        assert len(threads) == 1
        now[0] += MEASURE_MS
        tmp_path.rmdir()
        assert room.status(), "what was measured last"

        async def is_unknown() -> bool:
            return not room.status()

        await until_async(is_unknown, WITHIN_S, "the disk cannot be read")
        assert len(threads) == 2
        assert threading.get_ident() not in threads

    asyncio.run(test())


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 bytes"), (1_023, "1023 bytes"), (1_536, "1.5 KiB"), (20 << 20, "20 MiB"),
     (5 << 50, "5120 TiB")],
)  # fmt: skip
def test_sizes_are_said_in_units(size: int, said: str) -> None:
    assert in_units(size) == said


def test_what_was_not_measured_is_not_said() -> None:
    assert disk_words({}) == ""
