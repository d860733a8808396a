"""The group type of streams groups (KIP-1071), and a table of contents of this package.

==================== ============================================================================
``group``            hard state; ``records``, ``task_records`` and ``replay``: how it is recorded
``topology``         what members run; ``configured`` and ``partition_counts``: with which topics
``prepare``          topology and configs as of the next group epoch
``heartbeat``        StreamsGroupHeartbeat: the five steps; ``answers`` and ``endpoints``
``requests``         checks of a StreamsGroupHeartbeat before anything else
``members``          which member a heartbeat is from; static members
``internal_topics``  creating the repartition and changelog topics that are missing
``warming``          warm-up tasks: ``warmups``: the plan in force; ``migrations``: what is in it
``leave``            leaving by StreamsGroupHeartbeat
``describe``         StreamsGroupDescribe, deletion
``offsets``          what a member may commit and fetch
==================== ============================================================================

What all modern types share is in ``modern``; task assignors are in ``protocol/assignors/tasks``.
"""

from __future__ import annotations

from typing import Final

from protocol.groups.group_type import GroupType
from protocol.groups.modern import group as modern
from protocol.groups.streams import describe as streams_describe
from protocol.groups.streams import heartbeat as streams_heartbeat
from protocol.groups.streams import internal_topics
from protocol.groups.streams import invariants as streams_invariants
from protocol.groups.streams import offsets as streams_offsets
from protocol.groups.streams import replay as streams_replay
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.warming import warmups
from protocol.tables import merged

STREAMS: Final = GroupType(
    name=StreamsGroup.type_name,
    handlers=merged(streams_heartbeat.HANDLERS, streams_describe.HANDLERS),
    replays=streams_replay.REPLAYS,
    events=internal_topics.EVENTS,
    timeouts=warmups.TIMEOUTS,
    broken=streams_invariants.broken,
    offsets=streams_offsets.POLICY,
    summary=streams_describe.summary,
    is_abandoned=streams_describe.is_abandoned,
    delete=streams_describe.delete,
    build=modern.build,
    restore=modern.restore,
)
