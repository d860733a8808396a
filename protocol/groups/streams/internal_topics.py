"""Internal topics that are missing: asked of the catalogue, and told in the status if that fails.

As in Kafka, heartbeats of a group whose internal topics are missing create them. A topic that could
not be created is told in the status for two heartbeat intervals, and then tried again.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.effects import CreateTopics, TopicsCreated
from protocol.groups.modern import steps as modern_steps
from protocol.groups.streams.group import StreamsGroup, streams_group_of
from protocol.wire.messages import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.configured import InternalTopic

TIMEOUT: Final = timedelta(seconds=30)
"""``timeout`` of the CreateTopics request; without an answer it is sent again after that."""

ERRORS_SHOWN: Final = 3
INTERVALS: Final = 2
"""Heartbeat intervals for which an error is told."""


def create_missing(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Ask the catalogue for the internal topics that are missing, unless it was asked already."""
    configured = streams_group_of(runtime).configured
    if configured is None or not configured.missing:
        return
    own = runtime.own
    _forget_old(runtime, now)
    wanted = [
        topic
        for topic in configured.missing
        if topic.name not in own.topic_errors and topic.name not in own.creating
    ]
    if not wanted:
        return
    until_ms = now + TIMEOUT // timedelta(milliseconds=1)
    own.creating.update((topic.name, until_ms) for topic in wanted)
    request = CreateTopicsRequest(topics=tuple(map(_creatable, wanted)), timeout=TIMEOUT)
    ctx.submit(CreateTopics(group_id=runtime.group_id, request=request))


def created(ctx: Context, event: TopicsCreated, now: int) -> None:
    """Keep the reasons why topics could not be created."""
    runtime = ctx.modern_runtime.get(event.group_id)
    if runtime is None or not isinstance(runtime.group, StreamsGroup):
        return
    own = runtime.own
    until_ms = now + INTERVALS * modern_steps.heartbeat_interval_ms(ctx, runtime)
    for name, error in event.errors.items():
        own.creating.pop(name, None)
        if error is not None:
            own.topic_errors[name] = (error, until_ms)


def creation_errors(runtime: ModernGroupRuntime, now: int) -> str:
    """Return the end of a status: which missing topics could not be created, and why."""
    configured = streams_group_of(runtime).configured
    errors = runtime.own.topic_errors
    failed = [
        f"{topic.name} ({errors[topic.name][0]})"
        for topic in (() if configured is None else configured.missing)
        if topic.name in errors and errors[topic.name][1] > now
    ]
    if not failed:
        return ""
    shown, more = ", ".join(failed[:ERRORS_SHOWN]), len(failed) - ERRORS_SHOWN
    return f"; Creation failed: {shown}{f' and {more} more' if more > 0 else ''}."


def _forget_old(runtime: ModernGroupRuntime, now: int) -> None:
    own = runtime.own
    own.creating = {name: until for name, until in own.creating.items() if until > now}
    errors = own.topic_errors.items()
    own.topic_errors = {name: each for name, each in errors if each[1] > now}


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs
        ),
    )


EVENTS: Final[Mapping[type, Callable[[Context, Any, int], None]]] = MappingProxyType(
    {TopicsCreated: created}
)
