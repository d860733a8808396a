"""A process that writes synced batches, acknowledges each on its output, and then dies.

``python -m tests.storage.dying_writer PATH BATCHES SIZE [flush]``: writes so many batches and exits
without closing anything. BATCHES 0: writes until it is killed, with an application of the state and
a drop of old batches now and then.
"""

import os
import sys

from storage.batch import Batch
from storage.identity import LogIdentity
from storage.log import AppendBatch, ApplyState, DropBefore, Write
from storage.rocks import RocksLog

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


def main(path: str, batches: int, size: int, flush: bool) -> None:
    log = RocksLog.open(path, IDENTITY)
    offset = log.stored(0).end_offset
    end = offset + batches if batches else sys.maxsize
    while offset < end:
        log.write(unit(offset, size), sync=True)
        os.write(1, b"%d\n" % offset)
        offset += 1
    if flush:
        for family in ("log", "state", "meta"):
            log._families[family].flush()
    os._exit(9)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "flush" in sys.argv)
