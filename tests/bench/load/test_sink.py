"""Servers that do nothing, and what the kernel tells of the machine meanwhile."""

import os
import socket
import struct

from bench.load.sink import running_sinks
from bench.servers import machine
from tests.waiting import WITHIN_S

FRAME = struct.pack(">ihhih", 14, 12, 4, 77, -1) + b"rest"
ANSWER = struct.pack(">ii", 4, 77)


def test_a_sink_answers_each_frame_however_it_comes_and_closes_for_a_wrong_length() -> None:
    with running_sinks(2) as addresses:
        assert len(set(addresses)) == 2
        with socket.create_connection(addresses[0]) as connection:
            connection.settimeout(WITHIN_S)
            connection.sendall(FRAME * 3)
            assert received(connection, 3) == ANSWER * 3
            for at in range(0, len(FRAME), 5):
                connection.sendall(FRAME[at : at + 5])
            connection.sendall(FRAME[:6])
            connection.sendall(FRAME[6:] + FRAME)
            assert received(connection, 3) == ANSWER * 3
        for length in (-1, 0, 3, 2**31 - 1):
            with socket.create_connection(addresses[1]) as connection:
                connection.settimeout(WITHIN_S)
                connection.sendall(struct.pack(">i", length) + FRAME)
                assert not connection.recv(1)


def received(connection: socket.socket, answers: int) -> bytes:
    data = b""
    while len(data) < answers * len(ANSWER):
        data += connection.recv(1_000)
    return data


def test_own_work_is_seen_as_ours_and_as_run() -> None:
    before = machine.usage([os.getpid()])
    used = machine.usage([os.getpid()]).since(before)
    # The two clocks differ by a tick at each end, and by more on a shared machine; a kernel need
    # not have the second at all. The time limit of a test ends the loop where one stands still.
    while used.ours_s < 0.1 or 0 < used.run_s < 0.05:
        sum(range(10_000))
        used = machine.usage([os.getpid()]).since(before)
    assert used.machine_s >= 0
    assert 0 <= used.waited_share < 1


def test_shares_of_a_process_that_is_gone_are_zero() -> None:
    used = machine.usage([2**22 + 1])
    assert (used.run_s, used.waited_s, used.waited_share) == (0, 0, 0)
