"""The settings of the members of a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.load.live import SETTINGS
from protocol.members.classic import MemberConfig

if TYPE_CHECKING:
    from bench.scenarios.plan import Life
    from bench.scenarios.scenario import Group
    from protocol.members.kinds import AnyConfig

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000


def settings_of(group: Group, life: Life, group_id: str) -> AnyConfig:
    """Return the settings of a life of a member, in the group ``group_id`` of the cluster."""
    classic = MemberConfig(
        group_id=group_id,
        topics=group.topics,
        client_id=life.name,
        instance_id=life.name if group.static else None,
        session_timeout_ms=group.session_timeout_ms or SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=group.heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS,
        rebalance_timeout_ms=group.rebalance_timeout_ms,
    )
    made = SETTINGS[group.protocol](classic)
    if isinstance(made, MemberConfig):
        return made
    return replace(made, heartbeat_interval_ms=None)  # as the coordinator wants
