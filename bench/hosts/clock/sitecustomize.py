"""Moves the wall clock of this Python program by what the host's clock file says at each moment.

Python imports this when it starts: :class:`bench.hosts.host.NamespaceHost` puts this
folder on its path.
``datetime.now()``, libraries in C, Java and the kernel keep the machine's wall clock. libfaketime
could move it for libraries, too, but not the deadlines that they hand to the kernel.
"""

import mmap
import os
import struct
import time

NUMBER = struct.Struct("=q")


def _move_clock(path: str) -> None:
    with open(path, "rb") as file:
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    clock_gettime_ns, real = time.clock_gettime_ns, time.CLOCK_REALTIME

    def time_ns() -> int:
        """Return the host's Unix time in nanoseconds."""
        (ahead_ns,) = NUMBER.unpack(offset[:8])
        return clock_gettime_ns(real) + int(ahead_ns)

    def seconds() -> float:
        """Return the host's Unix time in seconds."""
        return time_ns() / 1e9

    time.time_ns, time.time = time_ns, seconds


if "HOST_CLOCK" in os.environ:
    _move_clock(os.environ["HOST_CLOCK"])
