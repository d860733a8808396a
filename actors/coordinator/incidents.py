"""Writes files with the events of a partition before a failure (:mod:`failover.recording`).

They are in the directory ``incidents`` beside the logs' directories. Their number is limited: a
request that fails on every retry writes only the first few.
"""

from __future__ import annotations

import logging
import os
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple

from failover.partition_kinds import title_of
from failover.recording.dump import About, write_dump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from failover.recording.recorder import Recording
    from protocol.config import Configs

_log = logging.getLogger("rollcall.coordinator")

FILES_MAX: Final = 10
"""The limit for each node; to get more, move some away."""

INTERVAL_MS: Final = 60_000
"""The minimum time between two files of a partition."""

ONLY_US: Final = 0o600


class Recorded(NamedTuple):
    """A file of :mod:`failover.recording.dump`, empty if nothing is recorded.

    ``missing`` are the partitions led here that are not in it, each with the reason.
    """

    data: bytes
    missing: Sequence[tuple[int, str]]


class Incidents:
    """Writes the files of one node."""

    def __init__(self, directory: Path, cluster_id: str, node_id: int) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._written_ms: dict[int, int] = {}

    def about(self) -> About:
        """Return where and when it was recorded."""
        return About(
            version=version("rollcall"),
            cluster_id=self._cluster_id,
            node_id=self._node_id,
            at_ms=time.time_ns() // 1_000_000,
        )

    def is_due(self, partition: int, now: int) -> bool:
        """Return whether a file of this partition may be written now, and count it if so."""
        written_ms = self._written_ms.get(partition)
        if written_ms is not None and now - written_ms < INTERVAL_MS:
            return False
        self._written_ms[partition] = now
        return True

    def write(self, recordings: Sequence[Recording], configs: Configs) -> None:
        """Write a file, if there are not too many; log the result.

        Any thread may call this; it never raises.
        """
        try:
            for recording in recordings:
                self._write(recording, configs)
        except Exception as error:
            _log.warning("the recording cannot be written: %s", error)

    def _write(self, recording: Recording, configs: Configs) -> None:
        about = self.about()
        own = f"node-{self._node_id}-"
        self._directory.mkdir(parents=True, exist_ok=True)
        there = sum(name.startswith(own) for name in os.listdir(self._directory))
        if there >= FILES_MAX:
            _log.warning(
                "what was recorded is not written: there are %d files of this node in %s",
                there,
                self._directory,
            )
            return
        name = f"{own}partition-{recording.partition}-{about.at_ms}.msgpack"
        data = write_dump([recording], configs, about)
        path = self._directory / name
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ONLY_US), "wb") as file:
            file.write(data)
        draft.rename(path)
        _log.warning(
            "wrote what %s was told before it failed (%s) to %s",
            title_of(recording.partition),
            recording.why,
            path,
        )
