"""What is configured for one group: its own dynamic config, else the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.groups.context import Context

_BROKERS: Final = -1
"""An assignment interval that is the broker's all the same (KIP-1263)."""


def integer(ctx: Context, group_id: str, name: str) -> int:
    """Read a number; ``name`` as it is set on a group, such as ``consumer.session.timeout.ms``."""
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        value = int(own[name])
        if value != _BROKERS:
            return value
    return ctx.configs.integer(f"group.{name}")


def boolean(ctx: Context, group_id: str, name: str) -> bool:
    """Read a switch that a broker config of the same name backs."""
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        return own[name].lower() == "true"
    return ctx.configs.boolean(f"group.{name}")


def is_set(ctx: Context, group_id: str, name: str) -> bool:
    """Read a switch that only groups have, off unless it is set."""
    return ctx.group_configs.get(group_id, {}).get(name, "false").lower() == "true"
