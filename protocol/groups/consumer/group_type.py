"""Consumer groups (KIP-848): the value that the shard knows them by, and the table of contents.

====================== =========================================================================
``consumer_group``     hard state; ``consumer_replay`` how records change it
``modern``             soft state: sessions, leases, the group epoch, the hash of the topics
``consumer_heartbeat`` ConsumerGroupHeartbeat: the five steps
``consumer_steps``     the steps that ConsumerGroupHeartbeat and JoinGroup have in common
``consumer_members``   whose place a heartbeat speaks for; static members
``consumer_leave``     leaving, the session timeout, the rebalance timeout, LeaveGroup
``target``             the target assignment: when, by whom, how it comes into force (KIP-1263)
``target_feed``        what the assignor has yet to be told
``reconcile``          from what a member has to what it should have
``regexes``            subscriptions by regular expression
``consumer_describe``  ConsumerGroupDescribe, deletion
``consumer_offsets``   what a member may commit and fetch
``migration``          classic members among them, and how a group becomes one of another type
====================== =========================================================================
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from protocol.groups.consumer import describe as consumer_describe
from protocol.groups.consumer import heartbeat as consumer_heartbeat
from protocol.groups.consumer import invariants as consumer_invariants
from protocol.groups.consumer import offsets as consumer_offsets
from protocol.groups.consumer import replay as consumer_replay
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.effects import RegexesResolved
from protocol.groups.group_type import GroupType
from protocol.groups.modern import group as modern
from protocol.groups.modern import regexes

CONSUMER: Final = GroupType(
    name=ConsumerGroup.type_name,
    config_prefix="consumer",
    handlers=MappingProxyType({**consumer_heartbeat.HANDLERS, **consumer_describe.HANDLERS}),
    replays=consumer_replay.REPLAYS,
    events=MappingProxyType({RegexesResolved: regexes.resolved}),
    broken=consumer_invariants.broken,
    offsets=consumer_offsets.POLICY,
    summary=consumer_describe.summary,
    is_abandoned=consumer_describe.is_abandoned,
    delete=consumer_describe.delete,
    build=modern.build,
    restore=modern.restore,
)
