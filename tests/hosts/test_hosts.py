"""Hosts have their own of everything, links fail in silence, and nothing is left in the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.hosts import namespaces
from bench.hosts.host import DATA, ROOT, NamespaceHost, Running
from bench.hosts.hosts import NamespaceHosts
from tests.hosts import talk
from tests.hosts.conftest import NewHosts
from tests.waiting import WITHIN_S, until

TALK = ("python", "-I", "-S", Path(talk.__file__))


class Trio:
    """Three hosts, and on each a program that listens."""

    def __init__(self, hosts: NamespaceHosts) -> None:
        self.hosts = hosts
        self.ears = {host: listen(host) for host in hosts}

    def tell(self, sender: NamespaceHost, receiver: NamespaceHost, *texts: str) -> None:
        """Send datagrams; it must never fail."""
        talked(sender, "send", receiver.ip, *texts)

    def heard(self, host: NamespaceHost, last: str) -> list[str]:
        """Return all that a host has heard up to a text, which must come."""
        lines = self.ears[host].says(f"{last}\n").splitlines()
        return lines[: lines.index(last)]


def listen(host: NamespaceHost) -> Running:
    """Start a program that listens."""
    running = host.popen(*TALK, "listen")
    running.says("listening")
    return running


def talked(host: NamespaceHost, *words: str) -> list[str]:
    """Return the lines of a program that talks."""
    done = host.run(*TALK, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def pings(sender: NamespaceHost, receiver: NamespaceHost, count: int = 3) -> list[float]:
    """Return the milliseconds of some round trips."""
    return [float(line) for line in talked(sender, "ping", receiver.ip, str(count))]


def uptime_s(host: NamespaceHost) -> float:
    """Return how long a host has been up, by its steady clock."""
    return float(host.run("cat", "/proc/uptime").stdout.split()[0])


def inhabitants(namespace: str) -> list[int]:
    """Return the processes in a PID namespace that have a program: none that waits to be reaped."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(path / "ns" / "pid") == namespace and os.readlink(path / "exe"):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def namespace_of(pid: int) -> str:
    """Return the PID namespace of a process."""
    return os.readlink(f"/proc/{pid}/ns/pid")


@pytest.fixture(scope="module")
def all_three(hosts_are_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with NamespaceHosts(3, tmp_path_factory.mktemp("hosts")) as hosts:
        yield Trio(hosts)


@pytest.fixture
def trio(all_three: Trio) -> Iterator[Trio]:
    """Give the three hosts of this module; what a test breaks is mended."""
    yield all_three
    all_three.hosts.heal()


def test_hosts_reach_each_other_by_both_kinds_of_address_and_by_name(trio: Trio) -> None:
    one, two, _ = trio.hosts
    for address in (two.ip, two.ip6, two.name):
        assert len(talked(one, "ping", address, "2")) == 2, address
    assert one.run("cat", "/proc/sys/kernel/hostname").stdout == "host1\n"
    assert talked(one, "push", two.ip6, "3000000")[0].endswith("True")


def test_a_cut_is_silent_and_heals(trio: Trio) -> None:
    one, two, three = trio.hosts
    trio.hosts.cut(one)
    trio.tell(one, two, "cut: lost")
    trio.tell(two, one, "cut: lost")
    trio.tell(two, three, "cut: of no concern")
    assert "LOWER_UP" in one.run("ip", "link", "show", "eth0").stdout
    trio.hosts.heal()
    trio.tell(one, two, "cut: healed")
    trio.tell(two, one, "cut: healed")
    assert "cut: lost" not in trio.heard(two, "cut: healed")
    assert "cut: lost" not in trio.heard(one, "cut: healed")
    trio.heard(three, "cut: of no concern")


def test_a_cut_one_way_loses_nothing_of_the_other(trio: Trio) -> None:
    one, two, three = trio.hosts
    trio.hosts.cut_one_way(one, two)
    trio.tell(one, two, "one way: lost")
    trio.tell(two, one, "one way: arrives")
    trio.tell(one, three, "one way: arrives")
    trio.hosts.cut_one_way(one)
    trio.tell(one, three, "one way: lost")
    trio.tell(three, one, "one way: arrives, too")
    trio.hosts.heal(one)
    for receiver in (two, three):
        trio.tell(one, receiver, "one way: healed")
        assert "one way: lost" not in trio.heard(receiver, "one way: healed")
    trio.heard(one, "one way: arrives")
    trio.heard(one, "one way: arrives, too")
    trio.heard(three, "one way: arrives")


def test_two_hosts_are_cut_off_from_each_other_alone(trio: Trio) -> None:
    one, two, three = trio.hosts
    trio.hosts.cut(one, two)
    trio.tell(one, two, "pair: lost")
    trio.tell(two, one, "pair: lost")
    for sender, receiver in ((one, three), (three, one), (two, three), (three, two)):
        trio.tell(sender, receiver, f"pair: {sender.name} arrives")
    trio.hosts.heal()
    for sender, receiver in ((one, two), (two, one)):
        trio.tell(sender, receiver, "pair: healed")
        heard = trio.heard(receiver, "pair: healed")
        assert "pair: lost" not in heard
        assert "pair: host3 arrives" in heard
    trio.heard(three, "pair: host1 arrives")
    trio.heard(three, "pair: host2 arrives")


def test_sides_of_a_split_hear_only_themselves(new_hosts: NewHosts) -> None:
    one, two, three, four, five = hosts = new_hosts(5)
    trio = Trio(hosts)
    hosts.split([one, two], [three, four], [five])
    everybody = ",".join(host.ip for host in hosts)
    for sender in hosts:
        talked(sender, "send", everybody, sender.name)
    hosts.heal()
    talked(one, "send", everybody, "healed")
    heard = [set(trio.heard(host, "healed")) - {"listening"} for host in hosts]
    assert heard == [{"host1", "host2"}] * 2 + [{"host3", "host4"}] * 2 + [{"host5"}]


def test_what_a_delayed_host_sends_is_late(trio: Trio) -> None:
    one, two, three = trio.hosts
    trio.hosts.delay(one, 60)
    assert min(pings(one, two)) >= 60
    assert min(pings(two, one)) >= 60
    trio.hosts.delay(two, 40, jitter_ms=20)
    assert min(pings(one, two)) >= 80
    assert min(pings(two, three)) >= 20
    trio.hosts.heal()
    until(lambda: min(pings(one, two)) < 20, WITHIN_S, "the delay has gone")


def test_a_delay_keeps_the_order_and_every_byte(trio: Trio) -> None:
    one, two, _ = trio.hosts
    trio.hosts.delay(one, 15, jitter_ms=15)
    texts = [f"order: {number}" for number in range(100)]
    trio.tell(one, two, *texts, "order: end")
    heard = [text for text in trio.heard(two, "order: end") if text.startswith("order")]
    assert heard == texts
    for address in (two.ip, two.ip6):
        assert talked(one, "push", address, "2000000")[0].endswith("True")


def test_a_host_loses_about_as_many_packets_as_is_said(trio: Trio) -> None:
    one, two, _ = trio.hosts
    trio.hosts.loss(one, 30)
    trio.tell(one, two, *(f"loss: {number}" for number in range(300)))
    trio.hosts.loss(one, 100)
    trio.tell(one, two, "loss: all")
    trio.hosts.heal()
    trio.tell(one, two, "loss: healed")
    heard = [text for text in trio.heard(two, "loss: healed") if text.startswith("loss")]
    assert 140 <= len(heard) <= 270  # ten standard deviations
    assert "loss: all" not in heard


def test_a_narrow_link_lets_no_more_through(trio: Trio) -> None:
    one, two, _ = trio.hosts
    trio.hosts.bandwidth(one, 2_000)
    took_ms, is_whole = talked(one, "push", two.ip, "150000")[0].split()
    assert float(took_ms) >= (150_000 - 16_000) * 8 / 2_000
    assert is_whole == "True"
    trio.hosts.heal()
    assert "tbf" not in one.run("tc", "qdisc", "show").stdout


def test_a_host_has_its_own_files_in_memory_and_below_tmp_and_shares_the_others(
    trio: Trio,
) -> None:
    one, two, _ = trio.hosts
    places = ("/tmp", "/dev/shm", str(DATA))
    for place in places:
        assert one.run("touch", f"{place}/mine").returncode == 0
        for host in (one, two):
            assert host.run("test", "-e", f"{place}/mine").returncode == (host is two)
        assert not Path(place, "mine").exists()
    assert (one.disk / DATA.name / "mine").exists()
    assert one.run("cmp", __file__, ROOT / "tests" / "hosts" / "test_hosts.py").returncode == 0
    assert one.run("python", "-c", "import actors").stderr == ""


def test_a_host_sees_only_its_own_processes(trio: Trio) -> None:
    one, _, _ = trio.hosts
    pids = one.run("sh", "-c", "echo /proc/[0-9]*").stdout.split()
    assert len(pids) == 3, "the first process, the listener and the shell"


def test_children_whose_parents_have_died_leave_no_zombies(trio: Trio) -> None:
    one, _, _ = trio.hosts
    one.run("sh", "-c", "(sleep 0 & sleep 0 &) &")
    namespace = namespace_of(one.namespaces.pid)

    def seen_inside() -> int:
        return len(one.run("sh", "-c", "echo /proc/[0-9]*").stdout.split())

    until(
        lambda: (len(inhabitants(namespace)), seen_inside()) == (2, 3),
        WITHIN_S,
        "only the first process, the listener and the shell that looks",
    )


def test_signals_and_codes_pass_between_a_test_and_its_programs(trio: Trio) -> None:
    one, _, _ = trio.hosts
    assert one.run("sh", "-c", "exit 3").returncode == 3
    running = one.popen("sh", "-c", "trap 'echo ended; exit 4' TERM; echo begun; sleep 60 & wait")
    running.says("begun")
    running.process.terminate()
    assert running.process.wait(WITHIN_S) == 4
    assert running.said() == "begun\nended\n"


def test_each_host_has_its_own_clocks(trio: Trio) -> None:
    one, two, _ = trio.hosts
    read = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.time_ns(), flush=True)"
    running = two.popen("python", "-c", read, stdin=subprocess.PIPE)

    def wall_s() -> float:
        assert running.process.stdin is not None
        before = len(running.said().splitlines())
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        until(lambda: running.said().endswith("\n") and len(running.said().splitlines()) > before,
              WITHIN_S, "it tells the time")  # fmt: skip
        seconds, nanoseconds = running.said().splitlines()[-1].split()
        assert abs(float(seconds) - int(nanoseconds) / 1e9) < 60
        return float(seconds)

    first_s = wall_s()
    trio.hosts.set_clock(two, -3_600_000)
    assert wall_s() < first_s - 3_000
    trio.hosts.set_clock(two, 0)
    assert wall_s() >= first_s
    running.process.kill()
    steady = "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic())"
    read_by_each = [host.run("python", "-c", steady).stdout.split() for host in (one, two)]
    for mine, theirs in zip(*read_by_each, strict=True):
        assert float(theirs) - float(mine) > 90_000


def test_a_host_that_vanishes_says_nothing_more_to_anybody(new_hosts: NewHosts) -> None:
    one, two = hosts = new_hosts(2)
    listen(one)
    up_s = uptime_s(one)
    daemon = one.run("sh", "-c", "setsid sleep 1000 & exec touch /tmp/data/kept /dev/shm/gone")
    assert daemon.returncode == 0
    peer = two.popen(*TALK, "hold", one.ip, stdin=subprocess.PIPE)
    peer.says("connected")
    namespace = namespace_of(one.namespaces.pid)
    assert len(inhabitants(namespace)) == 3
    hosts.vanish(one)
    assert inhabitants(namespace) == []
    talked(two, "send", one.ip, "nobody hears this")
    assert peer.process.stdin is not None
    peer.process.stdin.write(b"\n")
    peer.process.stdin.flush()
    peer.says("BlockingIOError")  # no end of the connection has arrived
    hosts.come_back(one, empty=False)
    peer.process.stdin.write(b"\n")
    peer.process.stdin.close()
    peer.says("ConnectionResetError")  # the host is another one since it has booted
    peer.process.wait(WITHIN_S)
    assert uptime_s(one) < up_s
    assert one.run("ls", DATA).stdout == "kept\n"
    assert one.run("ls", "/dev/shm").stdout == ""


def test_a_host_comes_back_empty_and_its_link_is_as_bad_as_it_was(new_hosts: NewHosts) -> None:
    one, two, three = hosts = new_hosts(3)
    trio = Trio(hosts)
    one.run("touch", DATA / "lost", "/tmp/lost")
    hosts.cut_one_way(one, two)
    hosts.bandwidth(one, 1_000)
    hosts.delay(one, 100)
    hosts.vanish(one)
    hosts.cut_one_way(two, one)
    hosts.come_back(one, empty=True)
    assert one.run("find", "/tmp", "-name", "lost").stdout == ""
    trio.ears[one] = listen(one)
    trio.tell(one, two, "lost")
    trio.tell(two, one, "lost")
    assert min(pings(three, one)) >= 100
    assert "tbf" in one.run("tc", "qdisc", "show").stdout
    hosts.heal(one)
    trio.tell(one, two, "healed")
    trio.tell(two, one, "healed")
    assert "lost" not in trio.heard(two, "healed")
    assert "lost" not in trio.heard(one, "healed")


def test_hosts_of_two_tests_do_not_hear_each_other(new_hosts: NewHosts) -> None:
    here, there = Trio(new_hosts(2)), Trio(new_hosts(2))
    for trio, text in ((here, "here"), (there, "there")):
        trio.tell(trio.hosts[0], trio.hosts[1], text, "end")
    assert here.heard(here.hosts[1], "end") == ["listening", "here"]
    assert there.heard(there.hosts[1], "end") == ["listening", "there"]


KILLED = """
import sys
from pathlib import Path
from bench.hosts.hosts import NamespaceHosts

with NamespaceHosts(2, Path(sys.argv[1])) as hosts:
    hosts.delay(hosts[0], 10)
    hosts[0].run("sh", "-c", "setsid sleep 1000 &")
    hosts[1].popen("sleep", "1000")
    pids = [hosts._bridge.pid, *(host.namespaces.pid for host in hosts)]
    print(*pids, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_test_however_it_ends(
    hosts_are_possible: None, tmp_path: Path, how: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as test:
        assert test.stdout is not None
        spaces = [namespace_of(int(pid)) for pid in test.stdout.readline().split()]
        living = [len(inhabitants(space)) for space in spaces]
        assert living == [2, 2, 2], "the relay, and a program on each host"
        test.send_signal(how)
    until(lambda: not any(map(inhabitants, spaces)), WITHIN_S, "all processes have ended")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert not any(name in links for name in ("port1", "relay", "bridge"))


def test_what_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    say = namespaces.what_is_missing.__wrapped__
    monkeypatch.setattr(sys, "platform", "darwin")
    assert say() == "Hosts are Linux namespaces, and this is no Linux."
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert say() == "Hosts are made by root: run this as root."
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert say().endswith("ip, tc, bridge: install iproute2 and util-linux.")


def test_what_the_kernel_refuses_is_said_in_one_sentence(
    hosts_are_possible: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "PROBE", "tc qdisc add dev lo root nothing\n")
    sentence = namespaces.what_is_missing.__wrapped__()
    assert sentence.startswith("Hosts need more than this kernel gives: ")
    assert "\n" not in sentence
