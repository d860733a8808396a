"""Consumer groups (KIP-848): the value that the shard knows them by, and the table of contents.

================ ===============================================================================
``group``        hard state; ``records`` and ``replay`` how records are written and change it
``heartbeat``    ConsumerGroupHeartbeat: the five steps
``requests``     what a ConsumerGroupHeartbeat must have to be looked at
``members``      whose place a heartbeat speaks for; static members
``leave``        leaving by ConsumerGroupHeartbeat and LeaveGroup
``describe``     ConsumerGroupDescribe, deletion
``offsets``      what a member may commit and fetch
================ ===============================================================================

What other types have too is in ``modern``, classic members and the way from and to classic groups
in ``migration``.
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
