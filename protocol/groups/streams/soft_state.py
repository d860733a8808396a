"""What the leader of a streams group keeps for it; it is lost at failover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.groups.streams.warming.task_index import TaskIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.streams.task_offsets import MemberTaskOffsets
    from protocol.groups.streams.warming.migrations import Plan
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.streams_messages import EndpointToPartitions


@dataclass(slots=True, eq=False)
class StreamsSoftState:
    """``endpoint_epoch``: the version of what members' endpoints serve; ``endpoints`` caches it.

    ``shutdown_member_id``: the member that asked the whole application to shut down.
    ``topic_errors`` are the reasons why internal topics could not be created, by name, with the
    time until which they are told (ms) and no other attempt is made. ``creating`` are the topics
    that are being created, with the time from which on they are tried again (ms).
    ``offsets`` are those of their tasks that members reported, by member; ``lags`` how far they are
    behind by these. ``index`` is made of the members' tasks; ``unindexed`` are the members that are
    looked at in the next turns, None when nobody is waited for. ``plan`` is the present
    step towards the target. ``has_news``: a next step may be possible. ``must_step``: members have
    followed another plan, that of an earlier leader. ``unable`` are the members whose version of
    the protocol reports no offsets; ``silent`` are those that could, but have not said for too long
    how far a task is. ``awaited_since`` is since when each of the others has not (ms).
    ``warmup_settings`` are the settings of the plan.
    """

    endpoint_epoch: int = 0
    endpoints: dict[str, EndpointToPartitions] = field(default_factory=dict)
    shutdown_member_id: str | None = None
    topic_errors: dict[str, tuple[str, int]] = field(default_factory=dict)
    creating: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, MemberTaskOffsets] = field(default_factory=dict)
    lags: dict[str, Mapping[Partition, int | None]] = field(default_factory=dict)
    index: TaskIndex = field(default_factory=TaskIndex)
    unindexed: list[str] | None = None
    plan: Plan | None = None
    has_news: bool = True
    must_step: bool = False
    unable: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    awaited_since: dict[str, int] = field(default_factory=dict)
    warmup_settings: tuple[int, int] | None = None
