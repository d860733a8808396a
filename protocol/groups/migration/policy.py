"""Online migration between classic and consumer groups (KIP-848): what the policy allows.

======================= ========================================================================
``migration_upgrade``   the first member of the consumer protocol joins: a classic group becomes a
                        consumer group and keeps its members
``mixed_join``          JoinGroup to a consumer group: a classic member joins, changes, catches up
``mixed_sync``          SyncGroup and Heartbeat of a classic member, and its timeouts
``migration_downgrade`` the last member of the consumer protocol leaves: back to a classic group
======================= ========================================================================

A classic member's generation is its member epoch, and its assignment is its current assignment.
REBALANCE_IN_PROGRESS means that a rejoin will change it (KIP-1263: this depends on the epoch of the
target assignment, not of the group).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.groups.context import Context

POLICY: Final = "group.consumer.migration.policy"


def allows_upgrade(ctx: Context) -> bool:
    """Whether a classic group with members may be converted to a consumer group."""
    return _policy(ctx) in ("upgrade", "bidirectional")


def allows_downgrade(ctx: Context) -> bool:
    """Whether a consumer group with classic members only may be converted to a classic group."""
    return _policy(ctx) in ("downgrade", "bidirectional")


def allows_classic_members(ctx: Context) -> bool:
    """Whether a classic member may join or rejoin a consumer group that has members."""
    return _policy(ctx) != "disabled"


def _policy(ctx: Context) -> str:
    return ctx.configs.text(POLICY).lower()
