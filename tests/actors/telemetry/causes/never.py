"""The pairs of a cause and a type of group that cannot occur, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_REASON: Final = "its members give no reason: their protocol has no field for one"
NO_CLASSIC: Final = "it has no classic members, and only these join again or send LeaveGroup"
NO_LEADER: Final = "the coordinator assigns, and no member leads"
WATCHED: Final = "only `rollcall watch` tells it: a coordinator has seen more than its records"
KNOWN_OTHERWISE: Final = "a failover explains it, or the change of the group's type"
ONE_STEP: Final = "one that misses the rebalance timeout is removed in a rebalance under way"
NEXT_TIME: Final = "its configs, also group.active.members, have effect with the next rebalance"

NEVER: Final[Mapping[str, Mapping[Cause, str]]] = {
    "classic": {
        Cause.NOT_REJOINED: ONE_STEP,
        Cause.NOT_REVOKED: "its members rejoin, and give up partitions before that",
        Cause.UPDATED: "only members of streams groups have processes, endpoints and tags",
        Cause.REGEX_RESOLVED: "its clients match regular expressions themselves",
        Cause.SHARE_STATE: "only share groups have share state",
        Cause.TOPOLOGY_READY: "only streams groups have a topology that the coordinator knows",
        Cause.TOPOLOGY_NOT_READY: "only streams groups have a topology that the coordinator knows",
        Cause.CONFIGS_CHANGED: NEXT_TIME,
        Cause.GONE: WATCHED,
        Cause.NOT_RECORDED: WATCHED,
        Cause.UNKNOWN: KNOWN_OTHERWISE,
    },
    "consumer": {
        Cause.UPDATED: "only members of streams groups have processes, endpoints and tags",
        Cause.LEADER_REJOINED: NO_LEADER,
        Cause.GAVE_UP: "a step of a member towards its target begins no rebalance",
        Cause.ENFORCED: "a member that joins again unchanged begins no rebalance",
        Cause.STATIC_CHANGED: "it is told as its other subscription",
        Cause.SHARE_STATE: "only share groups have share state",
        Cause.TOPOLOGY_READY: "only streams groups have a topology",
        Cause.TOPOLOGY_NOT_READY: "only streams groups have a topology",
        Cause.OVER_CAPACITY: "members that are there stay",
        Cause.GONE: WATCHED,
        Cause.NOT_RECORDED: WATCHED,
        Cause.UNKNOWN: KNOWN_OTHERWISE,
    },
    "share": {
        Cause.REJOINED: NO_CLASSIC,
        Cause.ADMIN_REMOVED: NO_CLASSIC,
        Cause.POLL_TIMEOUT: NO_REASON,
        Cause.NOT_REJOINED: NO_CLASSIC,
        Cause.NOT_SYNCED: NO_CLASSIC,
        Cause.NOT_REVOKED: "its members share partitions, and nobody awaits that one gives any up",
        Cause.UPDATED: "only members of streams groups have processes, endpoints and tags",
        Cause.LEADER_REJOINED: NO_LEADER,
        Cause.GAVE_UP: NO_CLASSIC,
        Cause.ENFORCED: NO_REASON,
        Cause.STATIC_REPLACED: "it has no static members",
        Cause.STATIC_CHANGED: "it has no static members",
        Cause.REGEX_RESOLVED: "its members subscribe by name",
        Cause.TOPOLOGY_READY: "only streams groups have a topology",
        Cause.TOPOLOGY_NOT_READY: "only streams groups have a topology",
        Cause.CONVERTED: "no group with members becomes a share group, or ceases to be one",
        Cause.OVER_CAPACITY: "members that are there stay",
        Cause.GONE: WATCHED,
        Cause.NOT_RECORDED: WATCHED,
        Cause.UNKNOWN: KNOWN_OTHERWISE,
    },
    "streams": {
        Cause.REJOINED: NO_CLASSIC,
        Cause.ADMIN_REMOVED: NO_CLASSIC,
        Cause.POLL_TIMEOUT: NO_REASON,
        Cause.NOT_REJOINED: NO_CLASSIC,
        Cause.NOT_SYNCED: NO_CLASSIC,
        Cause.SUBSCRIBED: "the topology says what it reads, and that changes with it",
        Cause.LEADER_REJOINED: NO_LEADER,
        Cause.GAVE_UP: NO_CLASSIC,
        Cause.ENFORCED: NO_REASON,
        Cause.STATIC_CHANGED: "it is told as its other process, endpoint, host or tags",
        Cause.REGEX_RESOLVED: "the topology names its topics",
        Cause.SHARE_STATE: "only share groups have share state",
        Cause.CONVERTED: "no group with members becomes a streams group, or ceases to be one",
        Cause.OVER_CAPACITY: "members that are there stay",
        Cause.GONE: WATCHED,
        Cause.NOT_RECORDED: WATCHED,
        Cause.UNKNOWN: KNOWN_OTHERWISE,
    },
}
