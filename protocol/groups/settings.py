"""The configs of one group: its own dynamic config, otherwise the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.config import BROKERS, GROUP_CONFIGS, Scope, clamped, find, parse

if TYPE_CHECKING:
    from protocol.config_rows import Value
    from protocol.groups.context import Context


def integer(ctx: Context, group_id: str, name: str) -> int:
    """Return a number, within the broker's bounds.

    ``name`` is the config's name on a group, such as ``consumer.session.timeout.ms``.
    """
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        value = int(own[name])
        if value != BROKERS:
            return clamped(name, value, ctx.configs)
    return ctx.configs.integer(f"group.{name}")


def boolean(ctx: Context, group_id: str, name: str) -> bool:
    """Return a boolean config that falls back to a broker config of the same name."""
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        return _is_true(own[name])
    return ctx.configs.boolean(f"group.{name}")


def strings(ctx: Context, group_id: str, name: str) -> tuple[str, ...]:
    """Return a list of strings; it falls back to a broker config of the same name."""
    own = ctx.group_configs.get(group_id)
    if own is not None and name in own:
        value = parse(find(name, Scope.GROUP), own[name])
        assert isinstance(value, tuple)
        return value
    return ctx.configs.strings(f"group.{name}")


def text(ctx: Context, group_id: str, name: str) -> str | None:
    """Return a string that only groups have; None unless it is set."""
    own = ctx.group_configs.get(group_id)
    return None if own is None else own.get(name)


def is_set(ctx: Context, group_id: str, name: str) -> bool:
    """Return a boolean config that only groups have; False unless it is set."""
    return _is_true(ctx.group_configs.get(group_id, {}).get(name, "false"))


def own_integer(ctx: Context, group_id: str, name: str) -> int:
    """Return a number that only groups have; its default unless it is set."""
    value = _own(ctx, group_id, name)
    assert isinstance(value, int)
    return value


def own_strings(ctx: Context, group_id: str, name: str) -> tuple[str, ...]:
    """Return a list of strings that only groups have; its default unless it is set."""
    value = _own(ctx, group_id, name)
    assert isinstance(value, tuple)
    return value


def _own(ctx: Context, group_id: str, name: str) -> Value:
    row, own = GROUP_CONFIGS[name], ctx.group_configs.get(group_id)
    return row.default if own is None or name not in own else parse(row, own[name])


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
