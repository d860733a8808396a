"""Planted bugs in what disks and followers hold, and in elections that nobody stands for."""

from collections.abc import Callable, Mapping
from typing import Any

from failover import host
from failover.full_disk import Backlog, TurnWrites
from failover.simulation.nodes import disks
from failover.simulation.patches import Patch
from failover.turn import Turn
from storage.election import Election
from storage.following import Following
from storage.log import AppendBatch, TruncateFrom
from tests.simulation.planted.mutations import Mutation


def full_disk_taken_for_written() -> list[Patch]:
    original = Backlog.write

    def write(self: Any, effects: Any, now: int) -> Any:
        written = original(self, effects, now)
        if written or not effects.writes:
            return written
        return [TurnWrites(effects.number, effects.writes, effects.sync)]

    return [(Backlog, "write", write)]


def sent_before_synced() -> list[Patch]:
    original = Turn._begin_sync

    def begin_sync(self: Turn) -> bool:
        began = original(self)
        self._unsynced.clear()
        return began

    return [(Turn, "_begin_sync", begin_sync)]


def snapshot_taken_over_a_longer_log() -> list[Patch]:
    return [(Following, "_has", lambda self, offset, epoch: False)]


def truncation_and_appends_not_synced() -> list[Patch]:
    without = tuple(
        each for each in host.SYNCED_BY_MAJORITY if each not in (AppendBatch, TruncateFrom)
    )
    return [(host, "SYNCED_BY_MAJORITY", without)]


def nobody_stands_again() -> list[Patch]:
    original = Election.wait_anew

    def wait_anew(self: Election) -> None:
        original(self)
        if self.core.epoch > 2:
            self._timeout = 1 << 40

    return [(Election, "wait_anew", wait_anew)]


def misdirected_sector_believed() -> list[Patch]:
    return [(disks, "check_place", lambda written_at, place: None)]


LOG_PLANTED: tuple[tuple[Callable[[], list[Patch]], int, str], ...] = (
    (full_disk_taken_for_written, 5, "what a full disk refused is taken for written"),
    (sent_before_synced, 0, "writes are taken for synced before they are"),
    (snapshot_taken_over_a_longer_log, 4, "a snapshot replaces a log that has more"),
    (truncation_and_appends_not_synced, 0, "what is appended and truncated is not synced"),
    (nobody_stands_again, 9, "after some elections nobody stands"),
    (misdirected_sector_believed, 21, "what is read where another batch was written is believed"),
)
LOG_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed) for function, seed, about in LOG_PLANTED
}
