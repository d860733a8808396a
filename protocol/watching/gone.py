"""Why a member is gone: concluded from when it last committed, and from what it was asked to do.

A coordinator writes the same records whether a member left or its session ended. But a commit shows
that a member was alive: if its last one is newer than its session timeout, its session cannot have
ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.groups.facts import MemberEventKind
from protocol.stories.sentence import seconds

COMMIT_INTERVAL_MS: Final = 15_000
"""A member that vanished had committed so shortly before: thrice auto.commit.interval.ms."""


HEARTBEAT_MS: Final = 5_000
"""A commit does not prolong a session of the new protocol: it may be newer than the last heartbeat.

This is the default of the heartbeat interval.
"""

NEVER_COMMITTED: Final = "it never committed an offset"

JITTER_MS: Final = 500
"""The same for members whose commits do prolong it: the times of records are not exact.

A coordinator starts a timer a bit before it gives a time to the record that says so.
"""


LATE_MS: Final = 15_000
"""How late a coordinator may remove a member that does not give up its partitions.

Beyond it, the timer has begun again, and nobody knows when: with a new coordinator, or another
process of the same instance.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSigns:
    """What the records have of a member that is gone; None: they have nothing.

    ``silent_ms``: since its last commit. ``session_ms``: its session timeout, if ``is_assumed``
    that of most clusters, for a member of the new protocol. ``revoking_ms``: since it was asked to
    give up something that it has not given up, with the limit ``rebalance_ms``. ``away_ms``: since
    it went as a static member that means to come back. ``is_anothers``: its partitions were
    committed, but before it got them.
    """

    silent_ms: int | None
    session_ms: int
    is_assumed: bool
    revoking_ms: int | None = None
    rebalance_ms: int = 0
    away_ms: int | None = None
    is_anothers: bool = False


class Conclusion(NamedTuple):
    """How a member went, and from what that is concluded."""

    kind: MemberEventKind
    inferred: str


def conclude(signs: LastSigns) -> Conclusion:
    """Return how a member went."""
    if signs.away_ms is not None:
        why = f"it had left {seconds(signs.away_ms)} before, to come back, and has not"
        return Conclusion(MemberEventKind.EXPIRED, why)
    early_ms = min(JITTER_MS, signs.rebalance_ms // 3)
    if signs.revoking_ms is not None and 0 < signs.rebalance_ms - early_ms <= signs.revoking_ms:
        return _not_revoked(signs.revoking_ms, signs.rebalance_ms)
    silent_ms, session_ms = signs.silent_ms, signs.session_ms
    if silent_ms is None:
        known = "no commit of its own is known" if signs.is_anothers else NEVER_COMMITTED
        return Conclusion(MemberEventKind.GONE, f"it left or its session ended; {known}")
    session = f"{'presumably ' if signs.is_assumed else ''}{seconds(session_ms)}"
    ago = f"its last commit was {seconds(silent_ms)} before"
    margin_ms = min(HEARTBEAT_MS if signs.is_assumed else JITTER_MS, session_ms // 3)
    if silent_ms < session_ms - margin_ms:
        why = f"{ago}, and its session timeout is {session}"
        return Conclusion(MemberEventKind.LEFT, why)
    if silent_ms <= session_ms + COMMIT_INTERVAL_MS:
        why = f"{ago}, and its session timeout is {session}"
        return Conclusion(MemberEventKind.EXPIRED, why)
    return Conclusion(MemberEventKind.GONE, f"it left or its session ended; {ago}")


def _not_revoked(revoking_ms: int, rebalance_ms: int) -> Conclusion:
    why = (
        f"it was to give up partitions for {seconds(revoking_ms)}, and its rebalance timeout is"
        f" {seconds(rebalance_ms)}"
    )
    if revoking_ms > rebalance_ms + LATE_MS:
        return Conclusion(MemberEventKind.GONE, f"it left or its session ended; {why}")
    return Conclusion(MemberEventKind.NOT_REVOKED, why)
