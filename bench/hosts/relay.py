"""A program that delays frames: it reads them from one network device and sends them back later.

The bridge leads the frames of delayed hosts here. A line of the standard input says how long those
of one host wait: its hardware address, the delay and the jitter in milliseconds. Each line is
answered by one when it is in force. The frames of a host keep their order, as on a real path, also
when one waits much longer than the next. The program uses nothing but the standard library.
"""

import heapq
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 15, 23
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
BUFFER_BYTES = 64 << 20
VNET_HEADER_BYTES = 10
"""Before each frame: whether it is to be cut into segments, and its checksum to be computed."""

SENDER = slice(VNET_HEADER_BYTES + 6, VNET_HEADER_BYTES + 12)
FRAME_BYTES_MAX = VNET_HEADER_BYTES + (1 << 17)
WAITING_BYTES_MAX = 256 << 20
"""More than that is dropped, as a router does whose buffers are full."""

AT_ONCE = 256


class Relay:
    """Frames that wait, the soonest first."""

    def __init__(self, device: str, seed: int) -> None:
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.wire.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self.wire.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        self.wire.bind((device, ETH_P_ALL))
        self.wire.setblocking(False)
        self.random = random.Random(seed)
        self.delays: dict[bytes, tuple[float, float]] = {}
        self.last_s: dict[bytes, float] = {}
        self.waiting: list[tuple[float, int, bytes]] = []
        self.waiting_bytes = 0
        self.count = 0

    def set_delay(self, line: str) -> None:
        """Follow one line of the input."""
        mac, delay_ms, jitter_ms = line.split()
        self.delays[bytes.fromhex(mac.replace(":", ""))] = (
            float(delay_ms) / 1000,
            float(jitter_ms) / 1000,
        )

    def take(self, now_s: float) -> None:
        """Read the frames that have come."""
        for _ in range(AT_ONCE):
            try:
                frame = self.wire.recv(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                continue  # of a kind that a header cannot describe
            sender = frame[SENDER]
            delay_s, jitter_s = self.delays.get(sender, (0.0, 0.0))
            wait_s = max(delay_s + self.random.uniform(-jitter_s, jitter_s), 0.0)
            due_s = max(now_s + wait_s, self.last_s.get(sender, 0.0))
            if self.waiting_bytes + len(frame) <= WAITING_BYTES_MAX:
                self.last_s[sender] = due_s
                self.count += 1
                self.waiting_bytes += len(frame)
                heapq.heappush(self.waiting, (due_s, self.count, frame))

    def give(self, now_s: float) -> None:
        """Send the frames that are due."""
        while self.waiting and self.waiting[0][0] <= now_s:
            _, _, frame = heapq.heappop(self.waiting)
            self.waiting_bytes -= len(frame)
            try:
                self.wire.send(frame)
            except OSError:
                continue  # lost, as frames are

    def run(self) -> None:
        """Go on until the input ends."""
        poll = select.poll()
        poll.register(self.wire, select.POLLIN)
        poll.register(sys.stdin, select.POLLIN)
        while True:
            wait_s = self.waiting[0][0] - time.monotonic() if self.waiting else None
            ready = poll.poll(None if wait_s is None else max(wait_s, 0.0) * 1000)
            self.give(time.monotonic())
            self.take(time.monotonic())
            if any(fd == sys.stdin.fileno() for fd, _ in ready):
                line = sys.stdin.readline()
                if not line:
                    return
                self.set_delay(line)
                sys.stdout.write("delayed\n")
                sys.stdout.flush()


if __name__ == "__main__":
    Relay(sys.argv[1], seed=77).run()
