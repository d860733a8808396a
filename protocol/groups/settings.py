"""What is configured for one group: its own dynamic config, else the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.config import BROKERS, clamped

if TYPE_CHECKING:
    from protocol.groups.context import Context


def integer(ctx: Context, group_id: str, name: str) -> int:
    """Read a number, within the broker's bounds.

    ``name`` as it is set on a group, such as ``consumer.session.timeout.ms``.
    """
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        value = int(own[name])
        if value != BROKERS:
            return clamped(name, value, ctx.configs)
    return ctx.configs.integer(f"group.{name}")


def boolean(ctx: Context, group_id: str, name: str) -> bool:
    """Read a switch that a broker config of the same name backs."""
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        return _is_true(own[name])
    return ctx.configs.boolean(f"group.{name}")


def is_set(ctx: Context, group_id: str, name: str) -> bool:
    """Read a switch that only groups have, off unless it is set."""
    return _is_true(ctx.group_configs.get(group_id, {}).get(name, "false"))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
