"""Facts as the core would write them, for what reads facts."""

from protocol.groups.facts import (
    MemberEvent,
    MemberEventKind,
    Phase,
    Rebalance,
    RebalanceOutcome,
    RebalanceTrigger,
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


def rebalance(**fields: object) -> Rebalance:
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
        "phases": (Phase("join", NOW, NOW + 200), Phase("sync", NOW + 200, NOW + 212)),
        "assignments_before": {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)},
        "assignments_after": {"b": assignment(0, 2), "c": assignment(1, 3)},
    }
    return Rebalance(**{**given, **fields})  # type: ignore[arg-type]
