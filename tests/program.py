"""A client in a process of its own: what it prints is read, and it ends with its input."""

import subprocess
import threading
from collections.abc import Sequence

from tests.waiting import WITHIN_S, patient

LEAVE_S = patient(60)
"""How long a client may take to close, and with that to leave its group."""


class Program:
    """One process of a program that runs until its input ends; ``lines`` is what it printed.

    ``errors`` is where its standard error goes, as in :class:`subprocess.Popen`.
    """

    def __init__(self, command: Sequence[str], errors: int | None = subprocess.DEVNULL) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Let it close, and with that leave its group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(LEAVE_S)
        self._reader.join(WITHIN_S)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
