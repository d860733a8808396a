"""Online migration between classic and consumer groups (KIP-848): what the policy allows.

======================= ========================================================================
``migration_upgrade``   the first member of the consumer protocol joins: a classic group becomes a
                        consumer group, its members stay
``mixed_join``          JoinGroup to a consumer group: a classic member comes, changes, catches up
``mixed_sync``          SyncGroup and Heartbeat of a classic member, and what it is waited for
``migration_downgrade`` the last member of the consumer protocol is gone: back to a classic group
======================= ========================================================================

A classic member's generation is its member epoch, its assignment is what it has been given so far,
and REBALANCE_IN_PROGRESS means that joining again will change that (KIP-1263: by the epoch of the
target assignment, not of the group).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.groups.context import Context

POLICY: Final = "group.consumer.migration.policy"


def allows_upgrade(ctx: Context) -> bool:
    """Whether a classic group with members may become a consumer group."""
    return _policy(ctx) in ("upgrade", "bidirectional")


def allows_downgrade(ctx: Context) -> bool:
    """Whether a consumer group with classic members only may become a classic group."""
    return _policy(ctx) in ("downgrade", "bidirectional")


def allows_classic_members(ctx: Context) -> bool:
    """Whether a classic member may join, or join again, a consumer group that has members."""
    return _policy(ctx) != "disabled"


def _policy(ctx: Context) -> str:
    return ctx.configs.text(POLICY).lower()
