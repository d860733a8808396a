"""The group type of consumer groups (KIP-848), and a table of contents of this package.

================ ===============================================================================
``group``        hard state; ``records`` and ``replay`` how records are written and change it
``heartbeat``    ConsumerGroupHeartbeat: the five steps
``requests``     checks of a ConsumerGroupHeartbeat before anything else
``members``      which member a heartbeat is from; static members
``leave``        leaving by ConsumerGroupHeartbeat and LeaveGroup
``describe``     ConsumerGroupDescribe, deletion
``offsets``      what a member may commit and fetch
================ ===============================================================================

What all modern types share is in ``modern``; classic members and the conversions from and to
classic groups are in ``migration``.
"""

from __future__ import annotations

from typing import Final

from protocol.groups.consumer import describe as consumer_describe
from protocol.groups.consumer import heartbeat as consumer_heartbeat
from protocol.groups.consumer import invariants as consumer_invariants
from protocol.groups.consumer import offsets as consumer_offsets
from protocol.groups.consumer import replay as consumer_replay
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.group_type import GroupType
from protocol.groups.modern import group as modern
from protocol.tables import merged

CONSUMER: Final = GroupType(
    name=ConsumerGroup.type_name,
    handlers=merged(consumer_heartbeat.HANDLERS, consumer_describe.HANDLERS),
    replays=consumer_replay.REPLAYS,
    broken=consumer_invariants.broken,
    offsets=consumer_offsets.POLICY,
    summary=consumer_describe.summary,
    is_abandoned=consumer_describe.is_abandoned,
    delete=modern.delete,
    build=modern.build,
    restore=modern.restore,
)
