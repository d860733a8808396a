"""A group that heartbeats in its own process, to measure the effect of other load.

20 members of one consumer group heartbeat every 100 ms each. Latency counts from the time at which
a heartbeat was due, so that neither the server nor the generator can hide a stall.
"""

from __future__ import annotations

import time
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.client.reactor import Reactor
from bench.load.modern_members import LoadMember, MemberLoad, is_settled
from bench.load.side_process import side_process
from protocol.client.frames import LENGTH, by_frame, with_number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from bench.client.reactor import Channel

MEMBERS: Final = 20
PER_SECOND: Final = 200
TOPIC: Final = "victim"
GRACE_SECONDS: Final = 30


class ProbeGroup:
    """What the probe group measured; times are ``time.perf_counter()`` of this machine."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._due = array("d")
        self._taken = array("d")

    def stop(self) -> None:
        """Stop it, and load its measurements."""
        self._pipe.send(None)
        self._due, self._taken = self._pipe.recv()

    def latencies_between(self, begun: float, ended: float) -> array[float]:
        """Return the latencies, in seconds, of the heartbeats due in a period."""
        pairs = zip(self._due, self._taken, strict=True)
        return array("d", [taken for due, taken in pairs if begun <= due < ended])


@contextmanager
def running_probe_group(address: tuple[str, int], group_id: str) -> Iterator[ProbeGroup]:
    """Run a probe group; stop it before the block ends."""
    with side_process(_heartbeat, address, group_id) as pipe:
        yield ProbeGroup(pipe)


def _heartbeat(address: tuple[str, int], group_id: str, pipe: Connection) -> None:
    reactor = Reactor()
    load = MemberLoad(reactor)
    load.add(
        [
            LoadMember(group_id, f"{group_id}-{number:02}", (TOPIC,), channel)
            for number, channel in enumerate(reactor.open(address, MEMBERS))
        ]
    )
    load.settle(lambda: is_settled(load.members, MEMBERS))
    watched = [
        _ProbeMember(member.channel, bytes(member.heartbeat_frame())) for member in load.members
    ]
    pipe.send("ready")
    begun, number = time.perf_counter(), 0
    while not pipe.poll():
        due = begun + number / PER_SECOND
        while time.perf_counter() < due:
            reactor.turn(max(due - time.perf_counter(), 0))
        watched[number % MEMBERS].send(number, due)
        number += 1
    deadline = time.perf_counter() + GRACE_SECONDS
    while any(each.sent for each in watched) and time.perf_counter() < deadline:
        reactor.turn(0.1)
    pipe.send(
        (
            array("d", [due for each in watched for due in each.due]),
            array("d", [taken for each in watched for taken in each.taken]),
        )
    )


class _ProbeMember:
    """One member's connection, whose answers are timed."""

    def __init__(self, channel: Channel, frame: bytes) -> None:
        self.due: list[float] = []
        self.taken: list[float] = []
        self.sent: dict[int, float] = {}
        self._channel = channel
        self._frame = frame
        channel.received = by_frame(self._answered)

    def send(self, number: int, due: float) -> None:
        self.sent[number] = due
        frame = self._frame
        self._channel.send(with_number(frame, number))

    def _answered(self, frame: bytes) -> None:
        due = self.sent.pop(LENGTH.unpack_from(frame)[0])
        self.due.append(due)
        self.taken.append(time.perf_counter() - due)
