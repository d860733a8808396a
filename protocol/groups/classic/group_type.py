"""The group type of classic groups, and a table of contents of this package.

==================== ===========================================================================
``join``             JoinGroup
``static``           a static member that returns (KIP-345)
``sync``             SyncGroup, Heartbeat
``leave``            LeaveGroup, the session timeout
``rebalance``        the two phases of a rebalance, and their timeouts
``rebuild``          soft state from hard state after an election
``describe``         DescribeGroups
``awaiting``         what a rebalance under way waits for
``offsets``          what a group allows with committed offsets
==================== ===========================================================================
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from protocol.groups.classic import awaiting as classic_awaiting
from protocol.groups.classic import describe as classic_describe
from protocol.groups.classic import invariants as classic_invariants
from protocol.groups.classic import join as classic_join
from protocol.groups.classic import leave as classic_leave
from protocol.groups.classic import lifecycle as classic_lifecycle
from protocol.groups.classic import offsets as classic_offsets
from protocol.groups.classic import rebalance
from protocol.groups.classic import sync as classic_sync
from protocol.groups.classic.group import NO_GENERATION, ClassicGroup
from protocol.groups.group_type import GroupType
from protocol.records import GroupMetadataKey
from protocol.tables import merged

CLASSIC: Final = GroupType(
    name=ClassicGroup.type_name,
    logs_member_epochs=False,
    handlers=merged(
        classic_join.HANDLERS,
        classic_sync.HANDLERS,
        classic_leave.HANDLERS,
        classic_describe.HANDLERS,
    ),
    replays=MappingProxyType({GroupMetadataKey: classic_lifecycle.replay_group_metadata}),
    timeouts=merged(classic_leave.TIMEOUTS, rebalance.TIMEOUTS),
    resigned=classic_lifecycle.resigned,
    group_configs_changed=rebalance.configs_changed,
    shift_deadlines=classic_lifecycle.shift_deadlines,
    forget=classic_lifecycle.forget_failed,
    events_of=classic_lifecycle.events_of,
    awaiting=classic_awaiting.awaiting,
    broken=classic_invariants.broken,
    offsets=classic_offsets.POLICY,
    summary=classic_lifecycle.summary,
    is_abandoned=classic_lifecycle.is_abandoned,
    delete=classic_lifecycle.delete,
    build=classic_lifecycle.build,
    restore=classic_lifecycle.restore,
    simple_group=lambda: ClassicGroup(NO_GENERATION),
)
