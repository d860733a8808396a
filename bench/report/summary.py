"""The demo's report: what the members kept when a coordinator was killed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.load.history import heartbeat_gaps, kept, lost_commits, owned_twice, rebalances
from failover.columns import aligned
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCounts:
    """Static or dynamic members: how many there are, and how many kept what."""

    members: int
    kept_member_id: int
    kept_generation: int
    kept_partitions: int
    longest_gap_ms: int

    @property
    def kept_everything(self) -> bool:
        """Whether every member kept its id, its generation and its partitions."""
        kept = self.kept_member_id, self.kept_generation, self.kept_partitions
        return all(count == self.members for count in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The content of the report. ``killed_groups`` were coordinated by the killed node."""

    static: KeptCounts
    dynamic: KeptCounts
    killed_groups: int
    killed_members: int
    rebalances: int
    disconnects: int
    owned_twice: int
    commits: int
    lost_commits: int

    @property
    def is_flawless(self) -> bool:
        """Whether there was no rebalance, no member lost anything, and no commit was lost."""
        return (
            all(share.kept_everything for share in (self.static, self.dynamic))
            and not self.rebalances
            and not self.owned_twice
            and not self.lost_commits
        )

    def verdict(self) -> str:
        """Return in one sentence whether the kill had an effect."""
        if self.is_flawless:
            return "No group rebalanced, no member lost anything, and no commit was lost."
        return "The kill had an effect: see the figures."

    def figures(self) -> list[tuple[str, float, float | None, float | None]]:
        """Return each figure: its name, its value, and the least and the most that it may be."""
        found: list[tuple[str, float, float | None, float | None]] = []
        for kind, share in (("static", self.static), ("dynamic", self.dynamic)):
            found.append((f"{kind} members", share.members, None, None))
            for what in ("member_id", "generation", "partitions"):
                kept = getattr(share, f"kept_{what}")
                name = f"{kind} members that kept their {what.replace('_', ' ')}"
                found.append((name, kept, share.members, None))
            longest = f"{kind} members: longest gap in heartbeats, ms"
            found.append((longest, share.longest_gap_ms, None, None))
        return [
            *found,
            ("groups of the killed coordinator", self.killed_groups, None, None),
            ("their members", self.killed_members, None, None),
            ("connections that broke", self.disconnects, None, None),
            ("rebalances after the kill", self.rebalances, None, 0),
            ("partitions with two owners in one generation", self.owned_twice, None, 0),
            ("acknowledged commits", self.commits, None, None),
            ("lost commits", self.lost_commits, None, 0),
        ]

    def text(self) -> str:
        """Return the report."""
        rows = [
            ("", "static", "dynamic"),
            ("members", str(self.static.members), str(self.dynamic.members)),
            *(
                (f"kept their {what}", _of(self.static, field), _of(self.dynamic, field))
                for what, field in (
                    ("member id", "kept_member_id"),
                    ("generation", "kept_generation"),
                    ("partitions", "kept_partitions"),
                )
            ),
            (
                "longest gap in heartbeats",
                f"{self.static.longest_gap_ms / 1000:.1f} s",
                f"{self.dynamic.longest_gap_ms / 1000:.1f} s",
            ),
        ]
        return "\n".join(
            (
                f"The killed coordinator led {self.killed_groups} groups with "
                f"{self.killed_members} members; {self.disconnects} connections broke or failed, "
                "and another replica went on.",
                aligned(rows, right={1, 2}),
                f"rebalances after the kill: {self.rebalances}",
                f"partitions with two owners in one generation: {self.owned_twice}",
                f"acknowledged commits: {self.commits}, lost: {self.lost_commits}",
            )
        )


def summarize(
    history: DataFrame, committed: DataFrame, killed_at_ms: int, killed_groups: Sequence[str]
) -> Summary:
    """Compute the report from the members' histories and the final committed offsets."""
    shares = _shares(history, killed_at_ms)
    count = _counts(history, killed_at_ms, killed_groups)
    generations = rebalances(history, killed_at_ms).agg(F.sum("rebalances")).first()
    return Summary(
        static=shares[True],
        dynamic=shares[False],
        killed_groups=len(killed_groups),
        killed_members=count["killed_members"],
        disconnects=count["disconnects"],
        commits=count["commits"],
        rebalances=(generations[0] or 0) if generations else 0,
        owned_twice=owned_twice(history).count(),
        lost_commits=lost_commits(history, committed).count(),
    )


def _shares(history: DataFrame, killed_at_ms: int) -> dict[bool, KeptCounts]:
    held = kept(history, killed_at_ms).join(
        heartbeat_gaps(history).drop("is_static"), ["group_id", "name"], "left"
    )
    sums = [F.sum(F.col(name).cast("int")).alias(name) for name in held.columns if "kept" in name]
    rows = held.groupBy("is_static").agg(
        F.count("*").alias("members"), F.max("longest_gap_ms").alias("longest_gap_ms"), *sums
    )
    found = {row["is_static"]: row.asDict() for row in rows.collect()}
    for row in found.values():
        del row["is_static"]
        row["longest_gap_ms"] = row["longest_gap_ms"] or 0
    nobody = dict.fromkeys(KeptCounts.__dataclass_fields__, 0)
    return {is_static: KeptCounts(**found.get(is_static, nobody)) for is_static in (True, False)}


def _counts(history: DataFrame, killed_at_ms: int, killed_groups: Sequence[str]) -> dict[str, int]:
    after = F.col("time_ms") >= killed_at_ms
    kind, group = F.col("kind"), F.col("group_id")
    row = history.agg(
        F.count_distinct(F.when(group.isin(*killed_groups), F.col("name"))).alias("killed_members"),
        F.count_if(after & (kind == MemberHistoryKind.DISCONNECTED.value)).alias("disconnects"),
        F.count_if(kind == MemberHistoryKind.COMMITTED.value).alias("commits"),
    ).first()
    assert row is not None
    counts: dict[str, int] = row.asDict()
    return counts


def _of(share: KeptCounts, field: str) -> str:
    number: int = getattr(share, field)
    percent = 100 * number / share.members if share.members else 100
    return f"{number} ({percent:.1f} %)"
