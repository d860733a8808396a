"""One host: what belongs to it alone, and programs on it."""

import os
import select
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hosts.links import HostLink
from bench.hosts.namespaces import HOST_KINDS, Namespaces
from bench.hosts.waiting import WITHIN_S, HostError, until

ROOT = Path(__file__).parents[__name__.count(".")]
"""The directory from which Python imports this package."""

TMP, DEV_SHM = Path("/tmp"), Path("/dev/shm")
DATA = TMP / "data"
"""The data directory of each host, as its programs see it."""

HOME = TMP / "home"
CLOCK = TMP / ".clock"
CLOCK_MODULE = Path(__file__).parent / "clock"

BETWEEN_HOSTS_S, BETWEEN_BOOTS_S = 100_000, 500
"""How far each host's steady clock is behind the next one's, and set back when it boots again."""

SCRIPT = """
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
echo {name} > /proc/sys/kernel/hostname
ip link set lo up
mount -t proc proc /proc
mount --bind '{disk}/.hosts' /etc/hosts
[ ! -e /etc/resolv.conf ] || mount --bind /dev/null /etc/resolv.conf
{shared}
mount --rbind '{disk}' /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
"""
"""The script of its first process. No name server is asked for names: none would answer."""

SHARED = "mkdir -p '{inside}' && mount --rbind '{path}' '{inside}'"


@dataclass(frozen=True, slots=True)
class Running:
    """A program on a host, and the files of what it says."""

    process: "subprocess.Popen[bytes]"
    stdout: Path
    stderr: Path

    def said(self) -> str:
        """Return its standard output so far."""
        return self.stdout.read_text()

    def says(self, text: str, within_s: float = WITHIN_S) -> str:
        """Wait until its standard output has a text; return all of it."""

        def said() -> str:
            found = self.said()
            if text not in found and self.process.poll() is not None:
                raise HostError(f"it ended without saying {text!r}: {self.stderr.read_text()}")
            return found if text in found else ""

        return until(said, within_s, f"it says {text!r}")


class NamespaceHost:
    """A host of :class:`bench.hosts.hosts.NamespaceHosts`, which starts it and makes it fail."""

    def __init__(self, link: HostLink, directory: Path, shared: Sequence[Path]) -> None:
        self.link = link
        self.name = f"host{link.number}"
        self.disk = directory / self.name
        """Its ``/tmp`` with its data directory, as this process sees it."""
        self.imports_from = ROOT
        """The directory from which its programs import Rollcall."""
        self._directory = directory
        self._shared = [path.resolve() for path in shared]
        self._namespaces: Namespaces | None = None
        self._programs = 0
        self._ahead_ms = 0

    def __repr__(self) -> str:
        return f"<{self.name} {self.ip}>"

    @property
    def ip(self) -> str:
        """The address that its programs are given: IPv4, if it has that."""
        return self.link.addresses[0]

    @property
    def ip6(self) -> str:
        """Its IPv6 address."""
        return self.link.ip6

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._namespaces is not None

    @property
    def namespaces(self) -> Namespaces:
        """What it consists of while it runs."""
        assert self._namespaces, f"{self.name} is not there"
        return self._namespaces

    def boot(self, names: str) -> None:
        """Start its first process; ``names`` is its ``/etc/hosts``."""
        for path in (self.disk, self.disk / DATA.name, self.disk / HOME.name):
            path.mkdir(exist_ok=True)
        self.disk.chmod(0o1777)
        (self.disk / ".hosts").write_text(names)
        self.set_clock(self._ahead_ms)
        shared = [
            SHARED.format(path=path, inside=self.disk / path.relative_to(TMP))
            for path in self._shared
            if path.is_relative_to(TMP)
        ]
        script = SCRIPT.format(name=self.name, disk=self.disk, shared="\n".join(shared))
        booted_s = self.link.number * BETWEEN_HOSTS_S - self.link.boots * BETWEEN_BOOTS_S
        clocks = [f"--monotonic={booted_s}", f"--boottime={booted_s}"]
        self._namespaces = Namespaces(HOST_KINDS, script, clocks)

    def halt(self, *, empty: bool = False) -> None:
        """Kill all its processes; ``empty`` also empties its disk."""
        if self._namespaces is not None:
            namespaces, self._namespaces = self._namespaces, None
            namespaces.end()
        if empty:
            shutil.rmtree(self.disk)

    def set_clock(self, ahead_ms: int) -> None:
        """Move the wall clock of its programs, also of those that run."""
        self._ahead_ms = ahead_ms
        clock = self.disk / CLOCK.name
        with clock.open("r+b" if clock.exists() else "wb") as file:  # in place, for those that run
            file.write(struct.pack("=q", ahead_ms * 1_000_000))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of its programs: this process's, but with their own places."""
        mine = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RAY_", "PYTEST_")) and name not in {"TMPDIR", "TMP", "TEMP"}
        }
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {
            **mine,
            "HOME": str(HOME),
            "PATH": programs,
            "PYTHONPATH": f"{CLOCK_MODULE}{os.pathsep}{self.imports_from}",
            "HOST_CLOCK": str(CLOCK),
            **(more or {}),
        }

    def popen(
        self,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Running:
        """Start a program; what it says goes into files beside the host's disk.

        ``env`` is added to :meth:`environment`. Its directory is ``/tmp``. The process is a child
        of this one: wait for it and send it signals as to any.
        """
        self._programs += 1
        name = f"{self.name}-{self._programs}-{Path(command[0]).name}"
        stdout, stderr = (self._directory / f"{name}.{end}" for end in ("out", "err"))
        with stdout.open("wb") as said, stderr.open("wb") as complained:
            process = self.namespaces.popen(
                [str(word) for word in command],
                directory=TMP,
                env=self.environment(env),
                streams={"stdin": stdin, "stdout": said, "stderr": complained},
            )
        return Running(process, stdout, stderr)

    def run(
        self,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        wait_s: float = WITHIN_S,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end, which comes within ``wait_s`` seconds."""
        running = self.popen(*command, env=env)
        try:
            code = _wait(running.process, wait_s)
        finally:
            running.process.kill()
            running.process.wait(WITHIN_S)
        said, complained = running.stdout.read_text(), running.stderr.read_text()
        return subprocess.CompletedProcess(command, code, said, complained)


def _wait(process: "subprocess.Popen[bytes]", wait_s: float) -> int:
    """Wait for the end of a process and notice it at once; ``Popen.wait`` asks now and then."""
    ended = os.pidfd_open(process.pid)
    try:
        if not select.select([ended], [], [], wait_s)[0]:
            raise HostError(f"{process.args!r} has not ended within {wait_s:g} s")
    finally:
        os.close(ended)
    return process.wait()
