"""Copies a stopped coordinator's directory from one host to another, checked and not too fast."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from actors.errors import FailureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.cluster.directory_copy import DirectoryContent

THROTTLE_BYTES_PER_S: Final = 50_000_000
"""How many bytes per second are copied at most, unless the operator says otherwise."""

PAUSE_S: Final = 0.5
"""How long a copy pauses at most before it looks whether it is still wanted."""


class Copier(Protocol):
    """One host (:class:`actors.cluster.directory_copy.DirectoryCopier`); raises FailureError.

    A sentence that the host returns instead of a result is raised, too.
    """

    def content(self, node_id: int) -> DirectoryContent:
        """List a coordinator's directory."""

    def lend(self, node_id: int) -> DirectoryContent:
        """List a stopped coordinator's directory and keep it closed."""

    def take_back(self, node_id: int) -> None:
        """Let a coordinator open its directory again."""

    def read(self, node_id: int, name: str, offset: int) -> bytes:
        """Return a piece of a file; empty at its end."""

    def checksum(self, node_id: int, name: str) -> bytes:
        """Return the checksum of a file that was lent."""

    def expect(self, node_id: int, size_bytes: int) -> None:
        """Prepare for a copy."""

    def append(self, node_id: int, name: str, piece: bytes) -> None:
        """Write a piece of a file behind the one before."""

    def arrived(self, node_id: int, name: str) -> bytes:
        """Sync a file that arrived; return its checksum."""

    def install(self, node_id: int, text: str) -> None:
        """Put a complete copy in its place."""


class CopyCancelledError(FailureError):
    """The cluster stops, so nothing is copied any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """How fast to copy, and a function that says whether to give up."""

    bytes_per_s: int = THROTTLE_BYTES_PER_S
    is_cancelled: Callable[[], bool]


def copy_directory(
    node_id: int,
    source: Copier,
    target: Copier,
    limits: CopyLimits,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> None:
    """Copy a stopped coordinator's directory and put it in its place on the target host.

    Nothing on the source host changes; its directory is closed meanwhile. Raises FailureError.
    """
    pace = _Pace(limits, monotonic_s)
    try:
        content = source.lend(node_id)
        for name, _ in content.files:
            offset = 0
            while piece := source.read(node_id, name, offset):
                target.append(node_id, name, piece)
                offset += len(piece)
                pace.wait(len(piece))
            if target.arrived(node_id, name) != source.checksum(node_id, name):
                raise FailureError(f"The copy of {name} of coordinator {node_id} is damaged.")
        target.install(node_id, content.witness)
    finally:
        with suppress(FailureError):  # its host may be lost
            source.take_back(node_id)


class _Pace:
    """Keeps a copy at its rate."""

    def __init__(self, limits: CopyLimits, monotonic_s: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic_s = monotonic_s
        self._due_s = monotonic_s()

    def wait(self, done_bytes: int) -> None:
        """Wait for as long as these bytes may take; raises CopyCancelledError."""
        self._due_s += done_bytes / self._limits.bytes_per_s
        while not self._limits.is_cancelled():
            if (early_s := self._due_s - self._monotonic_s()) <= 0:
                return
            time.sleep(min(early_s, PAUSE_S))
        raise CopyCancelledError("Nothing more is copied, as the cluster stops.")
