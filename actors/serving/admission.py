"""The limits of one coordinator's clients, and which connections it accepts.

Kafka's rules: beyond ``max.connections`` and ``max.connection.creation.rate`` new connections wait
in the backlog; beyond ``max.connections.per.ip`` they are closed.
"""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from actors.telemetry.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.config import Configs

_log = logging.getLogger("rollcall.listener")

RESERVED_FILES: Final = 512
"""Open files reserved for the log, the peers and the process itself; with a small limit, half of
it."""

FULL_WAIT_S: Final = 1.0
"""How long to accept nothing while there are too many connections, unless one ends."""

INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one coordinator's clients, from its configs."""

    request_bytes_max: int
    idle_ms_max: int
    connections_max: int = INT_MAX
    connections_per_address_max: int = INT_MAX
    connections_by_address: Mapping[str, int] = field(default_factory=dict)
    connections_per_second: int = INT_MAX
    queued_requests_max: int = 500
    queued_bytes_max: int = 128 << 20
    backlog: int = 4_096

    @classmethod
    def of(cls, configs: Configs) -> Limits:
        """Read the limits from the configs."""
        request_bytes_max = configs.integer("socket.request.max.bytes")
        queued_bytes = configs.integer("queued.max.request.bytes")
        return cls(
            request_bytes_max=request_bytes_max,
            idle_ms_max=configs.integer("connections.max.idle.ms"),
            connections_max=configs.integer("max.connections"),
            connections_per_address_max=configs.integer("max.connections.per.ip"),
            connections_by_address=_overrides(configs.text("max.connections.per.ip.overrides")),
            connections_per_second=configs.integer("max.connection.creation.rate"),
            queued_requests_max=configs.integer("queued.max.requests"),
            queued_bytes_max=max(queued_bytes, request_bytes_max) if queued_bytes > 0 else 1 << 62,
            backlog=configs.integer("socket.listen.backlog.size"),
        )


def _overrides(text: str) -> dict[str, int]:
    rows = (row.rpartition(":") for row in text.split(",") if row)
    return {address.strip("[]"): int(count) for address, _, count in rows}


class Admission:
    """Counts connections by address and decides which are accepted."""

    def __init__(self, limits: Limits, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._files_max = open_files_left()
        self._counts: Counter[str] = Counter()
        self._count = 0
        self._clock_s = clock_s
        self._warnings = RateLimitedLog(_log)
        self._has_told = False
        self._allowance = 0.0
        self._allowed_at_s = float("-inf")

    @property
    def is_full(self) -> bool:
        """Whether another connection would be too many."""
        return self._count >= min(self.limits.connections_max, self._files_max)

    def wait_s(self) -> float:
        """Return how long to accept nothing."""
        if self.is_full:
            if not self._has_told:
                self._has_told = True
                self._warnings.warn(
                    f"there are {self._count} connections, the maximum by max.connections or the"
                    " limit of open files; others wait to be accepted"
                )
            return FULL_WAIT_S
        self._has_told = False
        rate = self.limits.connections_per_second
        if rate >= INT_MAX:
            return 0.0
        now_s = self._clock_s()
        since_s = min(now_s - self._allowed_at_s, 1.0)
        self._allowance = min(self._allowance + since_s * rate, max(rate, 1))
        self._allowed_at_s = now_s
        if self._allowance >= 1:
            return 0.0
        return min((1 - self._allowance) / rate, FULL_WAIT_S) if rate else FULL_WAIT_S

    def enter(self, address: str) -> bool:
        """Count a connection; False if its address already has too many."""
        limits = self.limits
        most = limits.connections_by_address.get(address, limits.connections_per_address_max)
        if self._counts[address] >= most:
            self._warnings.warn(
                f"closed a new connection from {address}, which already has {most}"
                " (max.connections.per.ip)"
            )
            return False
        self._counts[address] += 1
        self._count += 1
        self._allowance -= 1
        return True

    def leave(self, address: str) -> None:
        """Uncount a connection."""
        self._count -= 1
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]


def raise_open_files_limit() -> int:
    """Raise this process's limit of open files to the hard limit; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def open_files_left() -> int:
    """Return how many of this process's open files may be client connections."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(most - RESERVED_FILES, most // 2)
