"""RocksDB as the log uses it: opened with modest settings, written in atomic units.

The only file that imports RocksDB. :mod:`storage.disk.rocks` has the table of families and keys.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

import msgpack
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from storage.batch import RawRecord, pack
from storage.log import (
    AppendBatch,
    ApplyState,
    BeginInstall,
    DropBefore,
    FinishInstall,
    InstallSlice,
    InstallState,
    SaveVote,
    SaveVoters,
    TruncateFrom,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

Database: TypeAlias = Rdict

FAMILIES: Final = ("log", "state", "meta")
WRITE_BUFFER_BYTES: Final = 4 << 20
ALL_WRITE_BUFFERS_BYTES: Final = 12 << 20
BLOCK_CACHE_BYTES: Final = 8 << 20
WAL_BYTES_MAX: Final = 16 << 20

PREFIX: Final = struct.Struct(">I")
OFFSET: Final = struct.Struct(">Q")
VOTE: Final = b"vote"
VOTERS: Final = b"voters"
APPLIED: Final = b"applied"
INSTALLING: Final = b"installing"


def prefix_of(partition: int) -> bytes:
    """Return the prefix of a partition's keys; the catalogue is partition -1."""
    return PREFIX.pack(partition + 1)


class RocksBatch:
    """Writes that go into one RocksDB write batch; ``handles`` are its column families."""

    __slots__ = ("_handles", "batch")

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._handles = handles
        self.batch = WriteBatch(raw_mode=True)

    def __len__(self) -> int:
        count: int = self.batch.len()
        return count

    def meta(self, key: bytes, value: bytes) -> None:
        """Put a row into the family ``meta``."""
        self.batch.put(key, value, self._handles["meta"])

    def put(self, write: Write) -> None:
        """Add a write of the log."""
        prefix = prefix_of(write.partition)
        log, meta = self._handles["log"], self._handles["meta"]
        match write:
            case AppendBatch(_, batch):
                self.batch.put(prefix + OFFSET.pack(batch.base_offset), pack(batch), log)
            case ApplyState(_, offset, epoch, records):
                self._apply(prefix, records)
                self.batch.put(prefix + APPLIED, msgpack.packb((offset, epoch)), meta)
            case SaveVote(_, epoch, voted_for, high_watermark):
                vote = msgpack.packb((epoch, voted_for, high_watermark))
                self.batch.put(prefix + VOTE, vote, meta)
            case SaveVoters(_, voters, offset):
                members = [(voter.node_id, voter.directory_id) for voter in voters]
                self.batch.put(prefix + VOTERS, msgpack.packb((members, offset)), meta)
            case DropBefore(_, offset):
                self.batch.delete_range(prefix, prefix + OFFSET.pack(offset), log)
            case TruncateFrom(partition, offset):
                self.batch.delete_range(prefix + OFFSET.pack(offset), prefix_of(partition + 1), log)
            case _:
                self._install(prefix, write)

    def _install(
        self,
        prefix: bytes,
        write: InstallState | BeginInstall | InstallSlice | FinishInstall,
    ) -> None:
        meta = self._handles["meta"]
        match write:
            case InstallState(partition, offset, epoch, records):
                self.wipe(partition)
                self._apply(prefix, records)
                self.batch.put(prefix + APPLIED, msgpack.packb((offset, epoch)), meta)
            case BeginInstall(partition, offset, epoch):
                self.wipe(partition)
                self.batch.put(prefix + INSTALLING, msgpack.packb((offset, epoch)), meta)
            case InstallSlice(_, records):
                self._apply(prefix, records)
            case FinishInstall(_, offset, epoch):
                self.batch.delete(prefix + INSTALLING, meta)
                self.batch.put(prefix + APPLIED, msgpack.packb((offset, epoch)), meta)

    def wipe(self, partition: int) -> None:
        """Remove a partition's rows, except its voters and its vote."""
        prefix = prefix_of(partition)
        for family in ("log", "state"):
            self.batch.delete_range(prefix, prefix_of(partition + 1), self._handles[family])
        for name in (APPLIED, INSTALLING):
            self.batch.delete(prefix + name, self._handles["meta"])

    def _apply(self, prefix: bytes, records: Sequence[RawRecord]) -> None:
        for key, value in records:
            if value is None:
                self.batch.delete(prefix + key, self._handles["state"])
            else:
                self.batch.put(prefix + key, value, self._handles["state"])


def write_options(*, sync: bool) -> WriteOptions:
    """Return write options; with ``sync``, a write is on disk when it returns."""
    options = WriteOptions()
    if sync:
        options.sync = True
    return options


def open_database(directory: Path) -> Database:
    """Open or create the database in a directory; RocksDB raises a bare Exception."""
    cache = Cache(BLOCK_CACHE_BYTES)
    return Rdict(
        str(directory),
        _options(cache),
        column_families={name: _options(cache) for name in FAMILIES},
    )


def _options(cache: Cache) -> Options:
    """Return modest settings: a few MiB of memory per process, whatever the size of the data."""
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_db_write_buffer_size(ALL_WRITE_BUFFERS_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_wal_recovery_mode(DBRecoveryMode.absolute_consistency())
    return options
