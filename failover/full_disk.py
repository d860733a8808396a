"""What a node does while its disk is full: it keeps what it could not write, and takes on no more.

Reads, heartbeats and everything else that needs no record are answered as ever. What would need
one is refused with a retriable error before it changes anything. Records that were under way stay
here, in their order, and are tried again until there is room; whatever waits for them waits on.

To other nodes it says only what is true whatever its disk holds (:mod:`storage.replica`): it gives
no vote, and acknowledges no more than the disk has, so a replica with room takes over or goes on
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
"""How often a full disk is tried again."""


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
        """Whether something waits for room on the disk."""
        return self.retry_ms is not None

    def write(self, effects: Effects, now: int) -> list[TurnWrites]:
        """Write what a turn wants written; return the units that are in the log now."""
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
        """Try again when it is time; return the units that are in the log now."""
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
        """Return the answer to a request that may need a record, while there is no room for one."""
        if self.retry_ms is None:
            return None
        api = apis.API[request.api_key]
        if api.retry_error is None or not api.writes(request.message):
            return None
        answer = apis.error_response(
            api.key, request.message, api.retry_error, api_version=request.api_version
        )
        return Reply(request.ticket, answer)
