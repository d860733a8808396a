"""A process that fills the disk below its log, prints how far it came, and waits to be killed.

``python -m tests.storage.full_disk_writer PATH FILLER stay|recover``; ``recover`` makes room by
removing FILLER, and goes on writing for a while.
"""

import os
import signal
import sys
from pathlib import Path

from storage.batch import Batch
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch, FullDiskError
from tests.waiting import until

IDENTITY = LogIdentity(cluster_id="cluster", node_id=0, partitions=1)


def main(path: Path, filler: Path, recover: bool) -> None:
    log = RocksLog.open(path, IDENTITY)
    room = os.statvfs(path)
    filler.write_bytes(bytes(room.f_bavail * room.f_bsize - (2 << 20)))
    offset = 0

    def write() -> bool:
        nonlocal offset
        batch = Batch(offset, 1, 1_000, ((b"key", os.urandom(10_000)),))
        try:
            log.write([AppendBatch(0, batch)], sync=True)
        except FullDiskError:
            return False
        offset += 1
        return True

    while write():
        pass
    if recover:
        filler.unlink()
        until(write, 100, "writing works again")
        for _ in range(50):
            write()
    os.write(1, b"%d\n" % offset)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "recover")
