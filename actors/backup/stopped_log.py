"""The log of a stopped node, opened as a copy, so that nothing of it changes."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.cluster import data_dir
from actors.cluster.data_dir import CLUSTER_FILE
from actors.errors import BadInputError
from storage.disk.database import open_database
from storage.disk.directory import cut_torn_tail
from storage.disk.rocks import RocksLog
from storage.log import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_stopped(directory: Path) -> None:
    """Raise BadInputError if it is not a data directory, or if a running cluster uses it."""
    if not (directory / CLUSTER_FILE).is_file():
        raise BadInputError(f"{directory} is not a data directory: it has no {CLUSTER_FILE}.")
    data_dir.check_unlocked(directory)


def open_copy(source: Path, copy: Path) -> RocksLog:
    """Copy a node's directory and open the copy. Raises LogError, OSError or shutil.Error."""
    shutil.copytree(source, copy)
    try:
        database = open_database(copy)
    except Exception as error:
        cut_torn_tail(copy, error)
        try:
            database = open_database(copy)
        except Exception as again:
            raise LogError(f"{copy}: the log cannot be opened ({again}).") from again
    return RocksLog(copy, database, ())


@contextmanager
def opened_copy(source: Path) -> Iterator[RocksLog]:
    """Open a copy in a temporary directory, which is removed in the end; errors name ``source``."""
    with tempfile.TemporaryDirectory(prefix="rollcall-log-") as directory:
        copy = Path(directory) / source.name
        try:
            log = open_copy(source, copy)
        except (LogError, OSError, shutil.Error) as error:
            raise LogError(str(error).replace(str(copy), str(source))) from error
        try:
            yield log
        finally:
            log.close()
