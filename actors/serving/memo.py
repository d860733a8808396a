"""Cached responses to repeated heartbeats, as bytes without their correlation ids.

Nearly all requests of a quiet cluster are heartbeats that differ from the previous one only in
their correlation id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.requests.memo import ENTRIES_MAX, LeasedAnswers
from protocol.wire.apis import API

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.effects import HeartbeatLease

LEASED_KEYS: Final = frozenset(
    api.key.to_bytes(2, "big") for api in API.values() if api.group.is_leased
)
"""The API keys, as bytes, whose responses may have a lease."""


class Memo:
    """The cached responses of one coordinator, by request frame without the correlation id."""

    __slots__ = ("_answers", "_tails")

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._answers: LeasedAnswers[tuple[bytes, bytes]] = LeasedAnswers(entries_max)
        self._tails: dict[bytes, bytes] = {}

    def recall(self, key: bytes, frame: bytes, now: Callable[[], int]) -> bytes | None:
        """Return the response to ``frame`` and extend its member's session; None: ask the host."""
        found = self._answers.recall(key, now)
        return None if found is None else found[0] + frame[4:8] + found[1]

    def remember(self, key: bytes, lease: HeartbeatLease, answer: bytes) -> None:
        """Cache ``answer`` (with its length) while the lease is valid."""
        # Heartbeats have few different responses: keep one copy of each.
        tail = self._tails.setdefault(answer[8:], answer[8:])
        head = self._tails.setdefault(answer[:4], answer[:4])
        if len(self._tails) > 1_000:
            self._tails.clear()
        self._answers.remember(key, lease, (head, tail))

    def __len__(self) -> int:
        return len(self._answers)
