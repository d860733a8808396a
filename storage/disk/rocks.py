"""The log on disk: one RocksDB per process, three column families.

=========  ==============================  =====================================================
family     key                             value
=========  ==============================  =====================================================
``log``    partition, base offset          a batch's envelope (:mod:`storage.batch`)
``state``  partition, record key           the latest committed record value (the compacted topic)
``meta``   partition, name                 the vote; the voters; the applied offset
``meta``   name                            the directory's identity, its id, its last start, and the
                                           peers' starts (:mod:`storage.disk.incarnation`)
=========  ==============================  =====================================================

Partitions and offsets are big-endian, so RocksDB's order is the log's order. The identity and the
Partitions and offsets are big-endian, so RocksDB's order is the log's order. The identity and the
id of the directory are also in ``meta.properties`` next to the database (Kafka's name and format),
where they are checked before anything is opened. The database takes precedence: an empty one is not
the replica that those files name.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgpack

from storage.batch import Batch, unpack
from storage.disk import witness
from storage.disk.database import (
    APPLIED,
    FAMILIES,
    INSTALLING,
    OFFSET,
    PREFIX,
    VOTE,
    VOTERS,
    RocksBatch,
    open_database,
    prefix_of,
    write_options,
)
from storage.disk.directory import (
    QUOTA,
    claim,
    cut_torn_tail,
    damaged,
    has_room,
    is_corruption,
    is_full,
    mark_damaged,
    no_room,
    refuse_marked,
    refusing_damage,
    renew,
    stale,
    unreadable,
)
from storage.disk.identity import LogIdentity, check, render
from storage.disk.incarnation import Incarnation, SeenIncarnations
from storage.disk.wal import SYNCED, SYNCED_KEY
from storage.disk.wal_sync import PendingSync, WalSync
from storage.log import (
    NOBODY,
    CorruptLogError,
    LogError,
    Snapshot,
    SnapshotGoneError,
    Stored,
    Write,
    in_slices,
)
from storage.messages import ReplicaKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.disk.database import Database

BLOCK_ROWS = 64
"""Rows fetched at once when reading millions: each step of a generator has a cost."""

OFFSET_MAX = (1 << 64) - 1
IDENTITY = b"identity"
DIRECTORY = b"directory"
INCARNATION = b"incarnation"
PEERS = b"peers"
TOKEN_BYTES = 8
NO_ROWS: bytes = msgpack.packb(())


class _Cursor:
    """One of RocksDB's iterators, or None once the log is closed.

    As long as an iterator exists, even if only in the frames of an exception, the database stays
    open, and nothing else can open the directory.
    """

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class RocksLog:
    """A :class:`storage.log.Log` in RocksDB.

    ``notes`` describe what opening found (for example a torn tail that was cut). ``incarnation``
    is this start of the directory: synced, and never used before.
    """

    def __init__(self, path: Path, database: Database, notes: Sequence[str]) -> None:
        self._path = path
        self._database = database
        self._families = {name: database.get_column_family(name) for name in FAMILIES}
        self._handles = {name: database.get_column_family_handle(name) for name in FAMILIES}
        self._synced = write_options(sync=True)
        self._unsynced = write_options(sync=False)
        self.notes = tuple(notes)
        self.incarnation = Incarnation("")
        self._known = SeenIncarnations()
        self._witness = witness.load(path)
        self._is_stuck = False
        self._is_in_use = False
        self._cursors: WeakSet[_Cursor] = WeakSet()
        self._wal = WalSync(path)
        self._mark: bytes | None = None
        """The extent of the last sync: the next write records it (:mod:`storage.disk.wal`)."""

    @classmethod
    def open(cls, path: Path | str, identity: LogIdentity) -> RocksLog:
        """Open or create the log in ``path``; raises :class:`storage.log.LogError`."""
        directory = Path(path)
        was_there = (directory / witness.NOTE).exists()
        directory_id = claim(directory, identity)
        refuse_marked(directory)
        notes: list[str] = []
        try:
            database = open_database(directory)
        except Exception as error:
            notes.append(cut_torn_tail(directory, error))
            with refusing_damage(directory):
                database = open_database(directory)
        log = cls(directory, database, notes)
        try:
            log._own(identity, directory_id, was_there)
            log._verify(identity)
            log._forget_unfinished(identity)
            log._begin()
            log._is_in_use = True
        except LogError:
            log.close()
            raise
        except Exception as error:
            log.close()
            raise unreadable(directory, error) from error
        return log

    def close(self) -> None:
        """Close the database. It loses no writes, so a full disk does not matter.

        No sync may be under way.
        """
        if not self._families:
            return
        self._wal.close()
        for part in (*self._families.values(), self._database):
            with suppress(Exception):
                part.close()
        self._is_in_use = False
        self._families.clear()
        self._handles.clear()
        for cursor in self._cursors:
            cursor.rows = None

    @property
    def directory_id(self) -> str:
        """The random id of the directory, as the database has it."""
        return self.incarnation.directory_id

    def vouch(self, claim: Incarnation) -> bool:
        """Return whether a peer's directory may be the newest state of itself; False: a copy.

        The peer's start is first stored on disk. Raises :class:`storage.log.LogError`.
        """
        if not self._known.judge(claim):
            return False
        if self._known.learn(claim):
            try:
                self._families["meta"].put(PEERS, msgpack.packb(self._known.rows()), self._synced)
            except Exception as error:
                if not is_full(str(error)):
                    raise LogError(f"{self._path}: the log cannot be written ({error}).") from error
        return True

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        """Write all as one RocksDB write batch; it is on disk on return if ``sync``.

        After :class:`storage.log.FullDiskError`, readers see none of it. RocksDB checks for room
        every five seconds and then moves its data to new files, so nothing depends on the file that
        could not be written or synced; later writes succeed again. After any other error the log
        must be reopened: RocksDB writes and syncs what it recovers to new files too, since after a
        failed sync it is unknown which bytes of the old ones have reached the disk. An error that
        says corruption marks the directory as damaged, since opening it again may find nothing:
        RocksDB notices damage in dead rows only when it compacts them.
        """
        if self._is_stuck:
            self._raise_stuck()
        unit = RocksBatch(self._handles)
        for write in writes:
            unit.put(write)
        if self._mark is not None:
            unit.meta(SYNCED_KEY, self._mark)
        try:
            self._database.write(unit.batch, self._synced if sync else self._unsynced)
        except Exception as error:
            said = str(error)
            if is_corruption(said):
                raise mark_damaged(self._path, said) from error
            if not is_full(said):
                raise LogError(f"{self._path}: the log cannot be written ({said}).") from error
            self._is_stuck = QUOTA in said
            raise no_room(self._path) from error
        self._mark = None

    def begin_sync(self) -> PendingSync:
        """Return the sync of all writes so far, to be run in any thread.

        Raises :class:`storage.log.LogError`.
        """
        try:
            return self._wal.begin()
        except OSError as error:
            raise LogError(f"{self._path}: the log cannot be synced ({error}).") from error

    def end_sync(self, sync: PendingSync) -> None:
        """Note that a sync is done. The next one must not begin before."""
        self._wal.end(sync)
        self._mark = SYNCED.pack(max(sync.number, 0), sync.bytes)

    def _raise_stuck(self) -> None:
        """Refuse writes: RocksDB does not recover on its own after an exceeded quota."""
        if has_room(self._path):
            raise LogError(f"{self._path}: there is room again; the log must be opened anew.")
        raise no_room(self._path)

    def stored(self, partition: int) -> Stored:
        """Return what is stored of a partition."""
        prefix = prefix_of(partition)
        meta = self._families["meta"]
        with refusing_damage(self._path):
            epoch, voted_for, high_watermark = _unpacked(meta.get(prefix + VOTE), (0, NOBODY, 0))
            applied_offset, applied_epoch = _unpacked(meta.get(prefix + APPLIED), (0, 0))
            members, voters_offset = _unpacked(meta.get(prefix + VOTERS), ((), 0))
            voters = tuple(ReplicaKey(*member) for member in members)
            if meta.get(prefix + INSTALLING) is not None:
                return Stored(
                    epoch=epoch, voted_for=voted_for, voters=voters, voters_offset=voters_offset
                )
        first, last = self._first(partition), self._last(partition)
        end_offset = last.end_offset if last else applied_offset
        return Stored(
            epoch=epoch,
            voted_for=voted_for,
            high_watermark=min(max(high_watermark, applied_offset), end_offset),
            applied_offset=applied_offset,
            applied_epoch=applied_epoch,
            start_offset=first.base_offset if first else applied_offset,
            end_offset=end_offset,
            last_epoch=last.leader_epoch if last else applied_epoch,
            voters=voters,
            voters_offset=voters_offset,
        )

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``, without reading those before."""
        for batch in self._envelopes(partition, offset):
            if batch.end_offset > offset:
                yield batch

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order."""
        return chain.from_iterable(self._state_blocks(partition, prefix))

    def _state_blocks(self, partition: int, of: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        if self._families["meta"].get(prefix_of(partition) + INSTALLING) is not None:
            return
        prefix = prefix_of(partition) + of
        for rows in self._blocks("state", prefix, prefix):
            yield [(key[PREFIX.size :], value) for key, value in rows]

    def snapshot(self, partition: int) -> Snapshot:
        """Return the current compacted state; RocksDB's iterators do not see later writes."""
        stored = self.stored(partition)
        rows = self.state(partition)
        first = next(rows, None)  # the iteration begins now
        slices = in_slices(() if first is None else chain((first,), rows))
        return Snapshot(stored.applied_offset, stored.applied_epoch, stored.voters, slices)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Refuse damage; mark it, so that the next start knows of damage found in use."""
        try:
            with refusing_damage(self._path):
                yield
        except CorruptLogError as error:
            if self._is_in_use:
                mark_damaged(self._path, str(error.__cause__ or "its rows end early"))
            raise

    def _envelopes(self, partition: int, offset: int = 0) -> Iterator[Batch]:
        """Iterate over a partition's batches from the one that holds ``offset`` on."""
        prefix = prefix_of(partition)
        with self._reading():
            first = self._at_or_before(prefix, offset) if offset > 0 else None
            for rows in self._blocks("log", prefix, first or prefix, size=1):
                yield unpack(rows[0][1])

    def _at_or_before(self, prefix: bytes, offset: int) -> bytes | None:
        """Return the key of a partition's last batch that begins at or before ``offset``."""
        cursor = self._cursor(self._families["log"].iter())
        cursor.rows.seek_for_prev(prefix + OFFSET.pack(offset))
        cursor.rows.status()
        if not cursor.rows.valid():
            return None
        key: bytes = cursor.rows.key()
        return key if key.startswith(prefix) else None

    def _blocks(
        self, family: str, prefix: bytes, first: bytes, size: int = BLOCK_ROWS
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Iterate over a partition's rows in key order from ``first`` on, in blocks of ``size``.

        The bounds in rocksdict's ReadOptions do not outlive the call that sets them, so the prefix
        marks the end. Its iterators end silently at a damaged block, so an end of data is checked a
        second time.
        """
        last = first
        cursor = self._cursor(self._families[family].items(from_key=first))
        with self._reading():
            while block := list(islice(self._rows(cursor), size)):
                last = block[-1][0]
                if not last.startswith(prefix):
                    if own := [row for row in block if row[0].startswith(prefix)]:
                        yield own
                    return
                yield block
            self._check_end(family, last)

    def _cursor(self, rows: Any) -> _Cursor:
        cursor = _Cursor(rows)
        self._cursors.add(cursor)
        return cursor

    def _rows(self, cursor: _Cursor) -> Iterator[tuple[bytes, bytes]]:
        if cursor.rows is None:
            raise SnapshotGoneError(f"{self._path}: the log was closed while it was read.")
        rows: Iterator[tuple[bytes, bytes]] = cursor.rows
        return rows

    def _check_end(self, family: str, last: bytes) -> None:
        """Raise if data after the row ``last`` cannot be read."""
        cursor = self._cursor(self._families[family].iter())
        cursor.rows.seek(last)
        if cursor.rows.valid() and cursor.rows.key() == last:
            cursor.rows.next()
        if cursor.rows.valid():
            raise damaged(self._path, "its rows end early")
        cursor.rows.status()

    def _first(self, partition: int) -> Batch | None:
        return next(self._envelopes(partition), None)

    def _last(self, partition: int) -> Batch | None:
        prefix = prefix_of(partition)
        cursor = self._cursor(self._families["log"].iter())
        with refusing_damage(self._path):
            cursor.rows.seek_for_prev(prefix + OFFSET.pack(OFFSET_MAX))
            cursor.rows.status()
            if cursor.rows.valid() and cursor.rows.key().startswith(prefix):
                return unpack(cursor.rows.value())
        return None

    def _own(self, identity: LogIdentity, claimed_id: str, was_there: bool) -> None:
        """Check that the database belongs to this node and is the newest state of its directory.

        ``claimed_id`` is the id in ``meta.properties``. If that file existed before, an empty
        database has lost the votes and records of that id, and gets another id. A database of an
        earlier version adopts the id.
        """
        meta = self._families["meta"]
        with refusing_damage(self._path):
            found, known_id = meta.get(IDENTITY), meta.get(DIRECTORY)
            last = Incarnation(*_unpacked(meta.get(INCARNATION), (claimed_id, 0, ())))
            self._known = SeenIncarnations(msgpack.unpackb(meta.get(PEERS) or NO_ROWS))
        text = render(identity).encode()
        if found is not None and found != text:
            check(str(self._path), found.decode(), identity)
        if found is None and was_there:
            claimed_id = renew(self._path, identity)
            last = Incarnation(claimed_id)
            gone = (
                f"{self._path}: its database is gone; this node begins empty, as another replica."
            )
            self.notes += (gone,)
        if known_id is None:
            unit = RocksBatch(self._handles)
            unit.meta(IDENTITY, text)
            unit.meta(DIRECTORY, claimed_id.encode())
            self._database.write(unit.batch, self._synced)
            meta.flush()
        elif known_id.decode() != claimed_id:
            raise stale(self._path, "its meta.properties are not those of its database")
        if why := witness.objection(self._path, self._witness, last):
            raise stale(self._path, why)
        self.incarnation = Incarnation(last.directory_id, last.number, tuple(last.tokens))

    def _begin(self) -> None:
        """Record this start: in the database first, then next to the directory."""
        seen, last = self._witness, self.incarnation
        if not last.number:
            witness.save(
                self._path, seen, last
            )  # otherwise a start that dies right here looks like a copy
        more = witness.ACCEPTED_STARTS if seen.is_accepting else 1
        now = self.incarnation = last.next(os.urandom(TOKEN_BYTES).hex(), more)
        row = msgpack.packb((now.directory_id, now.number, now.tokens))
        self._families["meta"].put(INCARNATION, row, self._synced)
        witness.save(self._path, seen, now)

    def _verify(self, identity: LogIdentity) -> None:
        """Check every batch: its checksum and its position."""
        for partition in identity.numbers:
            stored = self.stored(partition)
            at = stored.start_offset
            for batch in self._envelopes(partition):
                if batch.base_offset != at:
                    raise damaged(self._path, f"offset {at} of partition {partition} is missing")
                at = batch.end_offset
            if at < stored.applied_offset or stored.start_offset > stored.applied_offset:
                raise damaged(self._path, f"partition {partition} has a gap at {at}")

    def _forget_unfinished(self, identity: LogIdentity) -> None:
        """Empty the partitions whose snapshot was never completed."""
        unit = RocksBatch(self._handles)
        for partition in identity.numbers:
            if self._families["meta"].get(prefix_of(partition) + INSTALLING) is not None:
                unit.wipe(partition)
        if unit:
            self._database.write(unit.batch, self._synced)


def _unpacked(value: bytes | None, default: tuple[Any, ...]) -> tuple[Any, ...]:
    return default if value is None else tuple(msgpack.unpackb(value))
