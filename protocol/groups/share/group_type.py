"""The group type of share groups (KIP-932), and a table of contents of this package.

================== =============================================================================
``group``          hard state; ``records`` and ``replay`` how records are written and change it
``state_topics``   which partitions have share state; ``initialization`` how they get it, and
                   ``persister`` asks for it; ``soft_state``
``heartbeat``      ShareGroupHeartbeat; ``requests`` its checks
``describe``       ShareGroupDescribe, deletion
``group_offsets``  start offsets described, altered, deleted
``offsets``        why no offset is committed or fetched
================== =============================================================================

What all modern types share is in ``modern``.
"""

from __future__ import annotations

from typing import Final

from protocol.groups.effects import ShareStateAnswered
from protocol.groups.group_type import GroupType
from protocol.groups.share import describe as share_describe
from protocol.groups.share import group_offsets, initialization, persister
from protocol.groups.share import heartbeat as share_heartbeat
from protocol.groups.share import invariants as share_invariants
from protocol.groups.share import offsets as share_offsets
from protocol.groups.share import replay as share_replay
from protocol.groups.share.group import ShareGroup
from protocol.tables import merged

SHARE: Final = GroupType(
    name=ShareGroup.type_name,
    handlers=merged(share_heartbeat.HANDLERS, share_describe.HANDLERS, group_offsets.HANDLERS),
    replays=share_replay.REPLAYS,
    timeouts=initialization.TIMEOUTS,
    events={ShareStateAnswered: persister.answered},
    resigned=persister.resigned,
    forget=persister.forget,
    topics_changed=initialization.topics_changed,
    broken=share_invariants.broken,
    offsets=share_offsets.POLICY,
    summary=share_describe.summary,
    is_abandoned=share_describe.is_abandoned,
    delete=share_describe.delete,
    before_delete=share_describe.before_delete,
    build=initialization.build,
    restore=initialization.restore,
)
