"""Subscriptions by regular expression (RE2): checked here, resolved by workers.

Until an expression is resolved it matches nothing. RE2 takes time linear in the text for any
expression; still, the coordinator must not spend its time on searching all topics.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import re2

from protocol.assignors.regexes import matching_topics
from protocol.groups.effects import RegexesResolved, ResolveRegexes
from protocol.groups.facts import TopicsCause
from protocol.groups.modern import group as modern
from protocol.groups.modern import spares, target
from protocol.groups.timers import TimerKind
from protocol.records import Record
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.timers import TimerKey

REFRESH_MIN_MS: Final = 10_000
"""How long new topics are gathered before expressions are resolved again."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


def check_new(group: ModernGroup[Any] | None, member: ModernGroupMember | None, regex: str) -> None:
    """Refuse an expression that is new to the group and not valid."""
    if not regex or (group is not None and group.regex_members[regex]):
        return
    if member is not None and member.subscription.regex == regex:
        return
    try:
        re2.compile(regex, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else error
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}.",
        ) from None


def changed(ctx: Context, group: ModernGroup[Any], old: str, new: str) -> bool:
    """Apply a member's change of expression; return whether its topics are known already."""
    if old:
        drop_unused(ctx, group)
    return new in group.regexes if new else bool(old)


def drop_unused(ctx: Context, group: ModernGroup[Any]) -> None:
    """Forget the matches of expressions that no member uses any more."""
    key = group.kind.codec.regex_key
    for regex in [regex for regex in group.regexes if not group.regex_members[regex]]:
        assert key is not None
        ctx.emit(Record(key(group.group_id, regex), None))


def resolve_if_due(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Resolve new expressions at once, and all of them after new topics or a long time."""
    group = runtime.group
    if runtime.resolving is not None or not group.regex_members:
        return
    resolved_ms = (ctx.wall.since(each.timestamp_ms) for each in group.regexes.values())
    last_ms = max(resolved_ms, default=None)
    wanted = [regex for regex in group.regex_members if regex not in group.regexes]
    if not wanted and last_ms is not None:
        config = group.kind.configs.regex_refresh_interval
        assert config is not None
        interval_ms = ctx.configs.integer(config)
        wait_ms = REFRESH_MIN_MS if runtime.has_new_topics else interval_ms
        due_ms = last_ms + wait_ms
        if last_ms <= now < due_ms:  # a resolution in the future was stamped by a wrong clock
            ctx.timers.set(TimerKind.REFRESH, runtime.group_id, "", due_ms)
            return
        wanted = list(group.regex_members)
        runtime.has_new_topics = False
    runtime.resolving = ctx.topics_version
    ctx.submit(
        ResolveRegexes(
            group_id=runtime.group_id,
            version=ctx.topics_version,
            regexes=tuple(wanted),
            topics=ctx.topics.names(),
        )
    )


def resolved(ctx: Context, event: RegexesResolved, now: int) -> None:
    """Store the matches of expressions; resolve them here if no worker is available."""
    runtime = ctx.modern_runtime.get(event.group_id)
    if runtime is None or runtime.resolving != event.version:
        return  # no one waits for it, or a later one is awaited
    group = runtime.group
    runtime.resolving = None
    topics = event.topics
    if topics is None:
        wanted = [each for each in group.regex_members if each not in group.regexes]
        topics = matching_topics(wanted or list(group.regex_members), ctx.topics.names())
    has_changed = False
    codec = group.kind.codec
    assert codec.regex is not None
    assert codec.regex_key is not None
    for regex, names in topics.items():
        if not group.regex_members[regex]:
            continue
        known = group.regexes.get(regex)
        if frozenset(names) != (frozenset() if known is None else known.topics):
            has_changed = True
            runtime.feed.regex_changed(group.subscriptions.values(), regex)
        value = codec.regex(names, event.version, ctx.wall.at(now))
        ctx.emit(Record(codec.regex_key(group.group_id, regex), value))
    if has_changed:
        modern.bump_for_topics(ctx, runtime, TopicsCause.REGEX_RESOLVED, now)
    else:
        modern.bump_if_topics_changed(ctx, runtime, now)
    target.update(ctx, runtime, now)
    resolve_if_due(ctx, runtime, now)


def refresh_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Resolve again if due: topics have changed, or the matches are old."""
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is None:
        return
    group = runtime.group
    if runtime.is_stale and group.members and not group.kind.bumps_upon_heartbeat:
        modern.bump_if_topics_changed(ctx, runtime, now)
    if spares.are_due(ctx, runtime):
        modern.bump_for_topics(ctx, runtime, TopicsCause.CONFIGS_CHANGED, now)
    spares.note_settled(ctx, runtime)
    target.update(ctx, runtime, now)
    resolve_if_due(ctx, runtime, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.REFRESH: refresh_timeout}
)
