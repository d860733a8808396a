"""Planted bugs in votes and voters, in what followers say, and in what a handler leaves behind."""

from collections.abc import Callable, Mapping
from typing import Any

from failover.partitions.partition import Partition
from failover.requests.memo import LeasedAnswers
from failover.simulation import cluster
from failover.simulation.patches import Patch
from protocol.groups.offsets import commit as offsets
from protocol.groups.shard import GroupShard
from storage.disk import incarnation
from tests.simulation.planted.mutations import Mutation


def failed_group_not_rebuilt() -> list[Patch]:
    return [(Partition, "_restore", lambda self, group_id, now: None)]


def requests_left_unanswered() -> list[Patch]:
    original: Callable[..., Any] = GroupShard.handle

    def handle(self: GroupShard, event: Any, now: int) -> Any:
        result = original(self, event, now)
        if getattr(event, "api_key", None) == 47:
            result.replies.clear()
        return result

    return [(GroupShard, "handle", handle)]


def offset_deletion_forgotten() -> list[Patch]:
    original = offsets._deleted

    def deleted(ctx: Any, policy: Any, group_id: str, asked: Any) -> Any:
        before = len(ctx.result.records)
        answer = original(ctx, policy, group_id, asked)
        del ctx.result.records[before:]
        return answer

    return [(offsets, "_deleted", deleted)]


# --- directories


def heard_before_judged() -> list[Patch]:
    return [(incarnation.PeerConfirmation, "is_over", lambda self, now: True)]


def set_aside_without_a_majority() -> list[Patch]:
    return [(cluster, "may_set_aside", lambda node_id, placement, reports: True)]


# --- leases


def memo_outlives_its_lease() -> list[Patch]:
    original = LeasedAnswers.recall

    def recall(self: Any, key: Any, now: Any) -> Any:
        return original(self, key, lambda: now() - 5_000)

    return [(LeasedAnswers, "recall", recall)]


TERM_PLANTED: tuple[tuple[Callable[[], list[Patch]], int, str], ...] = (
    (failed_group_not_rebuilt, 4, "what a handler left when it raised stays"),
    (requests_left_unanswered, 16, "OffsetDelete is never answered"),
    (offset_deletion_forgotten, 84, "OffsetDelete deletes in memory only"),
    (heard_before_judged, 187, "replicas speak before their directory is judged"),
    (set_aside_without_a_majority, 50, "a damaged log is set aside that others still need"),
    (memo_outlives_its_lease, 4, "an answer is repeated after the lease"),
)
TERM_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed) for function, seed, about in TERM_PLANTED
}
