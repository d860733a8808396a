"""Facts as the core would write them, for what reads facts."""

from protocol.groups.facts import (
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    RebalanceEnded,
    RebalanceOutcome,
    RebalancePhase,
    RebalanceTrigger,
    TargetAssigned,
)
from protocol.wire.embedded import encode_assignment

NOW = 1_700_000_000_000


def assignment(*partitions: int) -> bytes:
    return encode_assignment([("t", each) for each in partitions])


def member_event(**fields: object) -> MemberEvent:
    given: dict[str, object] = {
        "group_id": "orders",
        "time_ms": NOW,
        "kind": MemberEventKind.LEFT,
        "member_id": "consumer-1-x",
        "group_instance_id": "a",
        "client_id": "consumer-1",
        "client_host": "/127.0.0.1",
        "reason": "closing",
    }
    return MemberEvent(**{**given, **fields})  # type: ignore[arg-type]


def rebalance(**fields: object) -> RebalanceEnded:
    given: dict[str, object] = {
        "group_id": "orders",
        "trigger": RebalanceTrigger.MEMBER_LEFT,
        "outcome": RebalanceOutcome.STABLE,
        "member_id": "consumer-1-x",
        "group_instance_id": "a",
        "client_id": "consumer-1",
        "client_host": "/127.0.0.1",
        "reason": "closing",
        "generation_before": 4,
        "generation_after": 5,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader_id": "consumer-2-y",
        "phases": (
            RebalancePhase("join", NOW, NOW + 200),
            RebalancePhase("sync", NOW + 200, NOW + 212),
        ),
        "assignments_before": {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)},
        "assignments_after": {"b": assignment(0, 2), "c": assignment(1, 3)},
    }
    return RebalanceEnded(**{**given, **fields})  # type: ignore[arg-type]


def target_assigned(**fields: object) -> TargetAssigned:
    given: dict[str, object] = {
        "group_id": "orders",
        "group_type": "consumer",
        "units": "partitions",
        "assignor": "uniform",
        "epoch_before": 4,
        "epoch_after": 5,
        "cause": member_event(),
        "changed_ms": NOW,
        "started_ms": NOW + 100,
        "computed_ms": NOW + 112,
        "ended_ms": NOW + 120,
        "members": 2,
        "members_changed": 1,
        "partitions_moved": 3,
        "queue_ms": 1.5,
        "assignor_ms": 4.0,
        "in_place": False,
    }
    return TargetAssigned(**{**given, **fields})  # type: ignore[arg-type]


def reconciled(**fields: object) -> GroupReconciled:
    given: dict[str, object] = {
        "group_id": "orders",
        "time_ms": NOW + 250,
        "epoch": 5,
        "assigned_ms": NOW + 120,
        "members": 2,
    }
    return GroupReconciled(**{**given, **fields})  # type: ignore[arg-type]


def consumer_rebalance() -> tuple[TargetAssigned, GroupReconciled]:
    return target_assigned(), reconciled()
