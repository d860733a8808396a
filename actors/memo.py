"""Answers to heartbeats that may be repeated: the same bytes, the same group, the same answer.

Nearly all requests of a quiet cluster are heartbeats that differ from the one before in nothing but
their correlation id. The host gives such an answer with a lease; while the group's stamp stands,
repeating it costs a dictionary look-up and one attribute write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.effects import HeartbeatLease

HEARTBEAT: Final = 12
CONSUMER_GROUP_HEARTBEAT: Final = 68

MEMORABLE: Final = frozenset(
    key.to_bytes(2, "big") for key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
)
"""The API keys, as a frame begins with them, whose answers may come with a lease."""

ENTRIES_MAX: Final = 50_000
"""About 400 bytes each; the oldest goes first."""


class Memo:
    """The leased answers of one coordinator, by request frame less the correlation id."""

    __slots__ = ("_answers", "_entries_max", "_tails")

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._answers: dict[bytes, tuple[HeartbeatLease, bytes, bytes]] = {}
        self._tails: dict[bytes, bytes] = {}
        self._entries_max = entries_max

    def recall(self, key: bytes, frame: bytes, now: Callable[[], int]) -> bytes | None:
        """Return the answer to ``frame`` and extend its member's session; None: ask the host."""
        found = self._answers.get(key)
        if found is None:
            return None
        lease, head, tail = found
        if lease.group.stamp != lease.stamp:
            del self._answers[key]
            return None
        now_ms = now()
        if now_ms >= lease.leadership.lease_until_ms:
            return None  # perhaps another leads by now: the host knows, or waits to know
        member = lease.member
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        return head + frame[4:8] + tail

    def remember(self, key: bytes, lease: HeartbeatLease, answer: bytes) -> None:
        """Keep ``answer`` (with its length) for as long as the lease holds."""
        if lease.group.stamp != lease.stamp:
            return
        if len(self._answers) >= self._entries_max and key not in self._answers:
            del self._answers[next(iter(self._answers))]
        # Healthy heartbeats all have the same few answers: keep one copy of each.
        tail = self._tails.setdefault(answer[8:], answer[8:])
        head = self._tails.setdefault(answer[:4], answer[:4])
        if len(self._tails) > 1_000:
            self._tails.clear()
        self._answers[key] = (lease, head, tail)

    def __len__(self) -> int:
        return len(self._answers)
