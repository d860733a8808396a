"""While the disk is full, keep the failed writes and accept no new ones.

Reads, heartbeats and everything else that needs no record are answered as usual. A request that
would need a record is refused with a retriable error before it changes anything. Records that were
being written stay here, in order, and are retried until there is space; replies that wait for them
keep waiting.

To other nodes it sends only what is true regardless of its disk (:mod:`storage.replica`): it gives
no vote, and acknowledges only what is on the disk, so a replica with space takes over or continues
without this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.effects import Reply
from protocol.wire import apis
from storage.log import FullDiskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.effects import Effects
    from failover.ports import LogPort
    from protocol.groups.effects import Request
    from storage.log import Write

RETRY_MS: Final = 100
"""How often to retry writes to a full disk."""


class TurnWrites(NamedTuple):
    """The writes of one turn; ``sync`` as in :class:`Effects`."""

    number: int
    writes: Sequence[Write]
    sync: bool


class Backlog:
    """Writes a host's units to its log, and keeps what a full disk refuses."""

    def __init__(self, log: LogPort) -> None:
        self._log = log
        self._kept: list[TurnWrites] = []
        self.retry_ms: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether something waits for disk space."""
        return self.retry_ms is not None

    def write(self, effects: Effects, now: int) -> list[TurnWrites]:
        """Write a turn's units; return the units that are now in the log."""
        if not effects.writes:
            return []
        self._kept.append(TurnWrites(effects.number, effects.writes, effects.sync))
        if self.is_full:
            return []
        try:
            return self._write()
        except FullDiskError as error:
            effects.notes.append(f"{error} What needs no record is answered as ever.")
            self.retry_ms = now + RETRY_MS
            return []

    def retry(self, now: int) -> list[TurnWrites]:
        """Retry if it is due; return the units that are now in the log."""
        if self.retry_ms is None or now < self.retry_ms:
            return []
        try:
            units = self._write()
        except FullDiskError:
            self.retry_ms = now + RETRY_MS
            return []
        self.retry_ms = None
        return units

    def _write(self) -> list[TurnWrites]:
        units = self._kept
        if len(units) == 1:
            self._log.write(units[0].writes)
        else:
            self._log.write([write for unit in units for write in unit.writes])
        self._kept = []
        return units

    def refusal(self, request: Request) -> Reply | None:
        """Return the answer to a request that may need a record while the disk is full."""
        if self.retry_ms is None:
            return None
        api = apis.API[request.api_key]
        if api.retry_error is None or not api.writes(request.message):
            return None
        answer = apis.error_response(
            api.key, request.message, api.retry_error, api_version=request.api_version
        )
        return Reply(request.ticket, answer)
