"""A process that writes synced batches, acknowledges each on its output, and then dies.

``python -m tests.storage.dying_writer PATH BATCHES SIZE [flush] [thread]``: writes so many batches
and exits without closing anything. BATCHES 0: writes until it is killed, with an application of the
state and a drop of old batches now and then. ``thread``: syncs in a thread and goes on writing
meanwhile, as a coordinator does; what it acknowledges is what the last sync covers.
"""

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor

from storage.batch import Batch
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.disk.wal_sync import PendingSync
from storage.log import AppendBatch, ApplyState, DropBefore, Write

IDENTITY = LogIdentity(cluster_id="cluster", node_id=0, partitions=1)


def batch(offset: int, size: int = 200) -> Batch:
    return Batch(offset, 1, 1_000, ((b"k%d" % (offset % 50), bytes([offset % 251]) * size),))


def unit(offset: int, size: int) -> list[Write]:
    """Return what is written with batch ``offset``."""
    writes: list[Write] = [AppendBatch(0, batch(offset, size))]
    if offset % 7 == 6:
        recent = (batch(earlier, size) for earlier in range(max(0, offset - 7), offset))
        latest = {key: value for each in recent for key, value in each.records}
        writes.append(ApplyState(0, offset, 1, tuple(latest.items())))
    if offset % 40 == 39:
        writes.append(DropBefore(0, offset - 20))
    return writes


class Syncs:
    """Syncs a log in a thread, one sync at a time."""

    def __init__(self, log: RocksLog) -> None:
        self._log = log
        self._thread = ThreadPoolExecutor(1)
        self._under_way: tuple[PendingSync, Future[None], int] | None = None

    def wrote(self, offset: int) -> None:
        """Acknowledge what a sync has covered, and begin the next one."""
        if self._under_way is not None:
            sync, future, covered = self._under_way
            if not future.done():
                return
            future.result()
            self._log.end_sync(sync)
            os.write(1, b"%d\n" % covered)
        sync = self._log.begin_sync()
        self._under_way = sync, self._thread.submit(sync.run), offset


def main(path: str, batches: int, size: int, flush: bool, thread: bool) -> None:
    log = RocksLog.open(path, IDENTITY)
    syncs = Syncs(log)
    offset = log.stored(0).end_offset
    end = offset + batches if batches else sys.maxsize
    while offset < end:
        log.write(unit(offset, size), sync=not thread)
        if thread:
            syncs.wrote(offset)
        else:
            os.write(1, b"%d\n" % offset)
        offset += 1
    if flush:
        for family in ("log", "state", "meta"):
            log._families[family].flush()
    os._exit(9)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "flush" in sys.argv, "thread" in sys.argv)
