"""What the kernel tells of processes."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from bench.servers.processes import (
    cpu_seconds,
    descendants,
    free_port,
    listener,
    resident_bytes,
    started,
    thread_cpu_seconds,
)


def test_the_listener_of_a_port_is_found():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert listener(server.getsockname()[1]) == os.getpid()


def test_a_port_without_a_listener_has_none():
    assert listener(free_port()) is None


def test_a_child_is_a_descendant_until_it_ends():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in descendants(os.getpid())
        assert started(child.pid) is not None
    finally:
        child.communicate(b"\n")
    assert child.pid not in descendants(os.getpid())
    assert started(child.pid) is None


def test_cpu_time_and_memory_of_this_process_are_seen():
    before = cpu_seconds([os.getpid()])
    while cpu_seconds([os.getpid()]) == before:
        pass
    assert resident_bytes([os.getpid()]) > 1 << 20


def test_the_cpu_time_of_each_thread_is_seen():
    used = thread_cpu_seconds(os.getpid())
    mine = threading.get_native_id()
    while thread_cpu_seconds(os.getpid())[mine] == used[mine]:
        pass
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(threading.get_native_id).result()
        assert thread_cpu_seconds(os.getpid())[other] < cpu_seconds([os.getpid()])


def test_a_process_that_is_gone_counts_for_nothing():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert (cpu_seconds([child.pid]), resident_bytes([child.pid])) == (0, 0)
