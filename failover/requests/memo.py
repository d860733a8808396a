"""Heartbeat answers that may be repeated: same request, same group, same answer.

The host returns such an answer with a lease. While the group's stamp is unchanged and the leader
has its own lease, repeating it costs one dictionary look-up and one attribute write. The listener
keeps answers as bytes (``actors/serving/memo.py``), the simulator as messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from protocol.groups.effects import HeartbeatLease

Answer = TypeVar("Answer")

ENTRIES_MAX: Final = 50_000
"""About 400 bytes each; the oldest is evicted first."""


class LeasedAnswers(Generic[Answer]):
    """The leased answers of one coordinator, by request."""

    __slots__ = ("_answers", "_entries_max")

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._answers: dict[Hashable, tuple[HeartbeatLease, Answer]] = {}
        self._entries_max = entries_max

    def recall(self, key: Hashable, now: Callable[[], int]) -> Answer | None:
        """Return the answer and extend its member's session; None: pass the request to the host."""
        found = self._answers.get(key)
        if found is None:
            return None
        lease, answer = found
        if lease.group.stamp != lease.stamp:
            del self._answers[key]
            return None
        now_ms = now()
        if now_ms >= lease.leadership.lease_until_ms:
            return None  # another node may lead by now: the host knows, or waits to find out
        member = lease.member
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        return answer

    def remember(self, key: Hashable, lease: HeartbeatLease, answer: Answer) -> None:
        """Store an answer for as long as the lease is valid."""
        if lease.group.stamp != lease.stamp:
            return
        if len(self._answers) >= self._entries_max and key not in self._answers:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (lease, answer)

    def __len__(self) -> int:
        return len(self._answers)
