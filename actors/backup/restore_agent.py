"""A short-lived actor on each host, by which ``rollcall restore`` writes a backup's state there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.backup.files import segment_path, verify
from actors.backup.manifest import MANIFEST
from actors.backup.restoring import Restoration, clear, complete, refuse_data
from actors.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.cluster.data_dir import ClusterFile

RECEIVED: Final = ".restored-backup"
"""The copy of the backup in a host's data directory, while nodes are made of it."""


class RestoreAgent:
    """Receives a backup on one host, and makes the host's nodes of it.

    Its methods return a sentence if they fail.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._backup = self._directory / RECEIVED
        self._node_ids: tuple[int, ...] = ()

    def begin(self) -> str:
        """Refuse a data directory that holds data."""
        try:
            refuse_data(self._directory)
            shutil.rmtree(self._backup, ignore_errors=True)
            self._backup.mkdir()
        except CommandError as error:
            return str(error)
        except OSError as error:
            return f"{self._backup} cannot be written: {error.strerror}."
        return ""

    def receive(self, partition: int | None, data: bytes) -> str:
        """Append bytes to the file of a partition; None: to the manifest."""
        path = self._backup / MANIFEST
        if partition is not None:
            path = segment_path(self._backup, partition)
        try:
            path.parent.mkdir(exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
        except OSError as error:
            return f"{path} cannot be written: {error.strerror}."
        return ""

    def write_nodes(self, cluster: ClusterFile, node_ids: Sequence[int]) -> dict[int, str] | str:
        """Make the logs of these nodes; return the ids of their directories."""
        self._node_ids = tuple(node_ids)
        try:
            restoration = Restoration(self._backup, verify(self._backup), cluster)
            return restoration.write_nodes(self._directory, node_ids)
        except CommandError as error:
            return str(error)

    def complete(self, cluster: ClusterFile, directories: Sequence[str]) -> str:
        """Record all nodes' directories: from now on this is the data of a cluster."""
        try:
            complete(cluster, self._directory, directories, self._node_ids)
        except CommandError as error:
            return str(error)
        except OSError as error:
            return f"{self._directory} cannot be written: {error.strerror}."
        shutil.rmtree(self._backup, ignore_errors=True)
        return ""

    def clear(self) -> str:
        """Remove what was written."""
        shutil.rmtree(self._backup, ignore_errors=True)
        clear(self._directory)
        return ""
