"""Facts as groups report them, for what tells stories of them."""

from __future__ import annotations

from typing import Any

from protocol.groups.facts import (
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    NamedMember,
    RebalanceEnded,
    RebalanceOutcome,
    RebalancePhase,
    RebalanceTrigger,
    TargetAssigned,
)
from protocol.wire.embedded import encode_assignment

NOW = 1_700_000_000_000
HOST = "/10.0.0.4"


class Metadata:
    """What a member's record says, as far as stories read it."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.client_host = HOST


def named(client_id: str) -> NamedMember:
    return NamedMember(f"id-of-{client_id}", Metadata(client_id))


def share(*partitions: int) -> bytes:
    return encode_assignment([("t", each) for each in partitions])


def event(kind: MemberEventKind = MemberEventKind.LEFT, **fields: Any) -> MemberEvent:
    given = {
        "group_id": "orders",
        "time_ms": NOW,
        "kind": kind,
        "member_id": "id-of-web-3",
        "client_id": "web-3",
        "client_host": HOST,
    }
    return MemberEvent(**{**given, **fields})


def rebalance(
    trigger: RebalanceTrigger = RebalanceTrigger.MEMBER_LEFT, **fields: Any
) -> RebalanceEnded:
    """One of a classic group: web-3 causes it; its two partitions go to others."""
    given = {
        "group_id": "orders",
        "trigger": trigger,
        "outcome": RebalanceOutcome.STABLE,
        "member_id": "id-of-web-3",
        "group_instance_id": None,
        "client_id": "web-3",
        "client_host": HOST,
        "reason": None,
        "generation_before": 7,
        "generation_after": 8,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader_id": "id-of-web-1",
        "phases": (
            RebalancePhase("join", NOW, NOW + 20),
            RebalancePhase("sync", NOW + 20, NOW + 40),
        ),
        "assignments_before": {
            "id-of-web-1": share(0),
            "id-of-web-2": share(1),
            "id-of-web-3": share(2, 3),
        },
        "assignments_after": {"id-of-web-1": share(0, 2), "id-of-web-2": share(1, 3)},
    }
    return RebalanceEnded(**{**given, **fields})


def target(**fields: Any) -> TargetAssigned:
    given = {
        "group_id": "orders",
        "group_type": "consumer",
        "units": "partitions",
        "assignor": "uniform",
        "epoch_before": 7,
        "epoch_after": 8,
        "cause": event(),
        "changed_ms": NOW,
        "started_ms": NOW,
        "computed_ms": NOW + 10,
        "ended_ms": NOW + 20,
        "members": 2,
        "members_changed": 1,
        "partitions_moved": 3,
        "queue_ms": 1.5,
        "assignor_ms": 4.0,
        "in_place": False,
    }
    return TargetAssigned(**{**given, **fields})


def reconciled(**fields: Any) -> GroupReconciled:
    given = {
        "group_id": "orders",
        "time_ms": NOW + 50,
        "epoch": 8,
        "assigned_ms": NOW + 20,
        "members": 2,
    }
    return GroupReconciled(**{**given, **fields})
