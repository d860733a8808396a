"""What can be limited of the costs of a group: a row each, for ``expect`` and ``--fail-on``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.scenarios.record import GroupCosts


def figure(value: float) -> str:
    """Return a value or a limit of a measure as text."""
    return f"{value:,.10g}"


class Measure(NamedTuple):
    """One measure: what it counts, in words, what one of it is called, and its value."""

    words: str
    one: str
    value: Callable[[GroupCosts], float]

    def said(self, value: float) -> str:
        """Return a value of it in words."""
        return f"{figure(value)} {self.one if value == 1 else self.words}"


MEASURES: Final[Mapping[str, Measure]] = {
    "members": Measure("members in the end", "member in the end", lambda each: each.members),
    "rebalances": Measure("rebalances", "rebalance", lambda each: each.rebalances),
    "unavailable_member_seconds": Measure(
        "unavailable member-seconds",
        "unavailable member-second",
        lambda each: each.unavailable_member_ms / 1000,
    ),
    "unowned_seconds": Measure(
        "seconds without an owner of a partition",
        "second without an owner of a partition",
        lambda each: each.unowned_ms / 1000,
    ),
    "partitions_moved": Measure("partitions moved", "partition moved", lambda each: each.moved),
    "failed_members": Measure("failed members", "failed member", lambda each: each.failed),
    "survivor_revocations": Measure(
        "partitions taken from members that lived all the time",
        "partition taken from a member that lived all the time",
        lambda each: each.revoked,
    ),
    "most_partitions": Measure(
        "partitions of the member that has most in the end",
        "partition of the member that has most in the end",
        lambda each: each.most,
    ),
}
