"""A set of Linux namespaces, kept by a process that ends with this one."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from bench.hosts.waiting import WITHIN_S

CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
COMMANDS = ("sh", "env", "mount", "unshare", "nsenter", "ip", "tc", "bridge")
"""What must be installed, as of iproute2, util-linux and coreutils."""

HOST_KINDS = ("--net", "--mount", "--uts", "--ipc", "--time")
"""What each host has of its own, beside processes."""

READY = "ready"
END = f"echo {READY}; exec env --ignore-signal=CHLD cat\n"
"""The end of the first process's script: children whose parents have died vanish when they end, and
the namespaces end with the standard input, thus with this process however that is killed."""

PROBE = """
ip link add bridge type bridge
ip link add one type veth peer name two
tc qdisc add dev one clsact
tc filter add dev one egress bpf direct-action bytecode '1,6 0 0 2'
tc filter add dev one ingress bpf bytecode '1,6 0 0 0' action mirred egress redirect dev two
tc qdisc add dev two root tbf rate 1mbit burst 32kb latency 400ms
"""
"""Everything that hosts need of the kernel."""


class Namespaces:
    """Namespaces of these kinds, and always a PID namespace; ``options`` are ``unshare``'s.

    ``script`` runs in them as their first process, which then stays. When it is killed, all other
    processes in the PID namespace die at once; a namespace vanishes with its last process.
    """

    def __init__(self, kinds: Sequence[str], script: str, options: Sequence[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self._children: list[subprocess.Popen[bytes]] = []
        with _children_in(None):
            self._init = subprocess.Popen(
                ["unshare", *kinds, *options, "sh", "-ec", script + END],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    @property
    def pid(self) -> int:
        """The first process, as this process sees it."""
        return self._init.pid

    def wait_until_ready(self) -> None:
        """Wait until the script has run."""
        assert self._init.stdout is not None
        assert self._init.stderr is not None
        if self._init.stdout.readline().strip() != READY.encode():
            complaint = self._init.stderr.read().decode().strip()
            self.end()
            raise OSError(complaint or "the namespaces' first process has ended")

    def enter(self, *command: str, directory: Path = Path("/")) -> list[str]:
        """Return the command that runs ``command`` in all these namespaces but the PID namespace.

        A process cannot change its PID namespace; :meth:`popen` has its children born in it.
        """
        where = [f"--target={self.pid}", *self.kinds, f"--wdns={directory}"]
        return ["nsenter", *where, "--", *command]

    def popen(
        self,
        command: Sequence[str],
        *,
        directory: Path = Path("/"),
        env: Mapping[str, str] | None = None,
        streams: Mapping[str, object],
    ) -> "subprocess.Popen[bytes]":
        """Start a process: a child of this one, and killed with the namespaces."""
        with _children_in(self.pid):
            child: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                self.enter(*command, directory=directory), env=env, **streams
            )
        self._children.append(child)
        return child

    @contextmanager
    def entered_network(self) -> Iterator[None]:
        """Give this thread the network of these namespaces, and the threads that it starts."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        theirs = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            _call("setns", theirs, CLONE_NEWNET)
            yield
        finally:
            _call("setns", own, CLONE_NEWNET)
            os.close(theirs)
            os.close(own)

    def configure(self, tool: str, lines: Sequence[str]) -> None:
        """Have ``ip``, ``tc`` or ``bridge`` carry out lines in the network namespace."""
        if lines:
            words = ["nsenter", f"--target={self.pid}", "--net", tool, "-batch", "-"]
            _run(words, "\n".join([*lines, ""]))

    def end(self) -> None:
        """Kill the first process and with it all others."""
        self._init.kill()
        for child in self._children:
            child.wait(WITHIN_S)  # the first process waits until others are reaped
        self._init.wait(WITHIN_S)
        for child in (self._init, *self._children):
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


@cache
def what_is_missing() -> str:
    """Say in one sentence why there can be no hosts here; nothing where there can be."""
    if sys.platform != "linux":
        return "Hosts are Linux namespaces, and this is no Linux."
    if os.geteuid():
        return "Hosts are made by root: run this as root."
    if absent := [name for name in COMMANDS if shutil.which(name) is None]:
        return f"Hosts need {', '.join(absent)}: install iproute2 and util-linux."
    try:
        probe = Namespaces(HOST_KINDS, PROBE)
        probe.wait_until_ready()
    except OSError as error:
        return f"Hosts need more than this kernel gives: {' '.join(str(error).split())}."
    probe.end()
    return ""


@contextmanager
def _children_in(pid: int | None) -> Iterator[None]:
    """Have the processes that this thread starts be born in ``pid``'s PID namespace, or a new one.

    ``nsenter --pid`` would stand between parent and child, and pass on no signals.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        if pid is None:
            _call("unshare", CLONE_NEWPID)
        else:
            theirs = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
            try:
                _call("setns", theirs, CLONE_NEWPID)
            finally:
                os.close(theirs)
        yield
    finally:
        _call("setns", own, CLONE_NEWPID)
        os.close(own)


def _call(name: str, *arguments: int) -> None:
    """Call one of libc's functions that Python has only since 3.12."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _run(words: Sequence[str], said: str) -> None:
    done = subprocess.run(words, input=said, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}; it was told:\n{said}")
