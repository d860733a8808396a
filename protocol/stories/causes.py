"""The causes of rebalances, and how they are told: one table with a row for each.

The coordinator knows what happened to which member. Why a client did it is known only from the
reason that it gave (KIP-800), which is a text of the client's library; ``REASONS`` has those of the
libraries in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import (
    MemberEvent,
    MemberEventKind,
    RebalanceTrigger,
    TopicsCause,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.facts import TargetAssigned

FAILOVER_MS: Final = 30_000
"""How long after its coordinator took over a rebalance's story says so."""


class Cause(StrEnum):
    """What caused a rebalance."""

    JOINED = "joined"
    REJOINED = "rejoined"
    LEFT = "left"
    ADMIN_REMOVED = "admin-removed"
    POLL_TIMEOUT = "poll-timeout"
    EXPIRED = "session-expired"
    NOT_REJOINED = "not-rejoined"
    NOT_SYNCED = "not-synced"
    NOT_REVOKED = "not-revoked"
    SUBSCRIBED = "subscription-changed"
    UPDATED = "member-updated"
    LEADER_REJOINED = "leader-rejoined"
    GAVE_UP = "gave-up-partitions"
    ENFORCED = "enforced"
    STATIC_REPLACED = "static-member-replaced"
    STATIC_CHANGED = "static-member-changed"
    TOPICS_CHANGED = "topics-changed"
    REGEX_RESOLVED = "regex-refreshed"
    SHARE_STATE = "share-state-initialized"
    TOPOLOGY_READY = "topology-ready"
    TOPOLOGY_NOT_READY = "topology-not-ready"
    CONFIGS_CHANGED = "configs-changed"
    CONVERTED = "type-changed"
    OVER_CAPACITY = "over-capacity"
    FAILOVER = "failover"
    GONE = "gone"
    NOT_RECORDED = "not-recorded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CauseRow:
    """How a cause is told, after the member's name or as a clause, and what to do about many.

    ``advice`` names the settings that a person would change, if there are some; it says what may be
    skipped or lost if they are changed.
    """

    text: str
    advice: str
    is_of_member: bool = True


_UP_TO_CLIENTS: Final = (
    "look at why these clients start again: a crash loop, an autoscaler or a deploy; give each a"
    " group.instance.id, so that a restart within session.timeout.ms moves nothing"
)
_TOO_SLOW: Final = (
    "the client does not answer in time: raise max.poll.interval.ms (it is the rebalance timeout),"
    " or lower max.poll.records so that each poll has less to do"
)
_FOUND_LATER: Final = (
    "with auto.offset.reset=earliest, as latest skips what a partition got before it was found"
)

CAUSES: Final[Mapping[Cause, CauseRow]] = MappingProxyType(
    {
        Cause.JOINED: CauseRow("joined", _UP_TO_CLIENTS),
        Cause.REJOINED: CauseRow("joined again", _UP_TO_CLIENTS),
        Cause.LEFT: CauseRow("left", _UP_TO_CLIENTS),
        Cause.ADMIN_REMOVED: CauseRow(
            "was removed by an administrator", "a person or a program removes members: find it"
        ),
        Cause.POLL_TIMEOUT: CauseRow(
            "left, because its application did not poll in time",
            "raise max.poll.interval.ms, or lower max.poll.records so that each poll has less to"
            " do",
        ),
        Cause.EXPIRED: CauseRow(
            "sent no heartbeat within its session timeout",
            "look for long pauses of these clients, their hosts and the network; raise"
            " session.timeout.ms (classic groups) or the group's consumer.session.timeout.ms if"
            " they are only slow",
        ),
        Cause.NOT_REJOINED: CauseRow("did not join within the rebalance timeout", _TOO_SLOW),
        Cause.NOT_SYNCED: CauseRow("did not fetch its assignment in time", _TOO_SLOW),
        Cause.NOT_REVOKED: CauseRow(
            "did not give up its partitions within its rebalance timeout", _TOO_SLOW
        ),
        Cause.SUBSCRIBED: CauseRow(
            "subscribes to other topics",
            "members of one group should subscribe to the same topics: look for two versions of the"
            " application in one group",
        ),
        Cause.UPDATED: CauseRow(
            "has another process, endpoint, host or tags",
            "keep application.server, client.tag.* and the host of a streams client the same",
        ),
        Cause.LEADER_REJOINED: CauseRow(
            "joined again: as the leader it asks for a rebalance",
            "the leader sees a change of its topics: stop creating topics that its pattern matches,"
            f" or raise metadata.max.age.ms ({_FOUND_LATER})",
        ),
        Cause.GAVE_UP: CauseRow(
            "gave up partitions and joined again, as a cooperative assignor asks",
            "a cooperative assignor needs two rebalances for each change; group.protocol=consumer"
            " needs none of these",
        ),
        Cause.ENFORCED: CauseRow(
            "asked for a rebalance",
            "the application calls enforceRebalance(): call it less often; in Kafka Streams raise"
            " probing.rebalance.interval.ms",
        ),
        Cause.STATIC_REPLACED: CauseRow(
            "came back under a new member id",
            "a static member restarts often, or two clients have one group.instance.id: give each"
            " client its own",
        ),
        Cause.STATIC_CHANGED: CauseRow(
            "came back with other protocols or topics",
            "static members come back changed: give all clients the same"
            " partition.assignment.strategy and topics, and deploy one version at a time",
        ),
        Cause.TOPICS_CHANGED: CauseRow(
            "its topics have changed",
            "topics are created, deleted or enlarged often: subscribe by name, or raise"
            f" metadata.max.age.ms of classic consumers ({_FOUND_LATER})",
            is_of_member=False,
        ),
        Cause.REGEX_RESOLVED: CauseRow(
            "a regular expression matches other topics",
            "narrow the regular expression of the subscription, create fewer topics that match, or"
            f" raise group.consumer.regex.refresh.interval.ms ({_FOUND_LATER})",
            is_of_member=False,
        ),
        Cause.SHARE_STATE: CauseRow(
            "more of its partitions may be assigned",
            "nothing: this happens once per partition",
            is_of_member=False,
        ),
        Cause.TOPOLOGY_READY: CauseRow(
            "all topics of its topology exist now",
            "topics of the topology come and go: create them before the application starts",
            is_of_member=False,
        ),
        Cause.TOPOLOGY_NOT_READY: CauseRow(
            "topics of its topology are missing or have other numbers of partitions",
            "topics of the topology come, go or grow: create them before the application starts,"
            " with the numbers of partitions that they will keep",
            is_of_member=False,
        ),
        Cause.CONFIGS_CHANGED: CauseRow(
            "its assignment configs have changed",
            "a person or a program changes the group's configs (such as group.active.members or"
            " streams.num.standby.replicas): find it",
            is_of_member=False,
        ),
        Cause.CONVERTED: CauseRow(
            "it has changed its type",
            "finish the migration: give all members the same group.protocol",
            is_of_member=False,
        ),
        Cause.OVER_CAPACITY: CauseRow(
            "it is larger than group.max.size allows",
            "raise group.max.size, or start fewer members",
            is_of_member=False,
        ),
        Cause.FAILOVER: CauseRow(
            "its coordinator changed while it was rebalancing",
            "look at why coordinators fail or move: rollcall status",
            is_of_member=False,
        ),
        Cause.GONE: CauseRow("is gone", _UP_TO_CLIENTS),
        Cause.NOT_RECORDED: CauseRow(
            "it was rebalanced, and the records do not say why",
            "look at the logs of the members, and of their coordinator: they have the reason",
            is_of_member=False,
        ),
        Cause.UNKNOWN: CauseRow(
            "it changed, and this coordinator did not see why",
            "look at the members: rollcall groups --describe --members",
            is_of_member=False,
        ),
    }
)

REASONS: Final[tuple[tuple[str, Cause], ...]] = (
    ("poll timeout", Cause.POLL_TIMEOUT),
    ("max.poll.interval.ms", Cause.POLL_TIMEOUT),
    ("removed by an admin", Cause.ADMIN_REMOVED),
    ("metadata has changed", Cause.TOPICS_CHANGED),
    ("subscription has changed", Cause.SUBSCRIBED),
    ("need to revoke partitions", Cause.GAVE_UP),
    ("rebalance enforced", Cause.ENFORCED),
    ("triggered followup rebalance", Cause.ENFORCED),
    ("notcoordinator", Cause.FAILOVER),
    ("not the correct coordinator", Cause.FAILOVER),
    ("coordinatornotavailable", Cause.FAILOVER),
    ("coordinatorload", Cause.FAILOVER),
)
"""What clients say, in lower case, and what it means; the first row that fits counts."""

_OPEN_TO_REASONS: Final = frozenset(
    {Cause.LEFT, Cause.REJOINED, Cause.LEADER_REJOINED, Cause.JOINED}
)
"""What a client does by itself: its own reason says more."""

OF_MEMBERS: Final[Mapping[MemberEventKind, Cause]] = MappingProxyType(
    {
        MemberEventKind.JOINED: Cause.JOINED,
        MemberEventKind.REJOINED: Cause.REJOINED,
        MemberEventKind.REPLACED: Cause.STATIC_REPLACED,
        MemberEventKind.FENCED: Cause.STATIC_REPLACED,
        MemberEventKind.LEFT: Cause.LEFT,
        MemberEventKind.EXPIRED: Cause.EXPIRED,
        MemberEventKind.NOT_REJOINED: Cause.NOT_REJOINED,
        MemberEventKind.REFUSED: Cause.OVER_CAPACITY,
        MemberEventKind.NOT_SYNCED: Cause.NOT_SYNCED,
        MemberEventKind.SUBSCRIBED: Cause.SUBSCRIBED,
        MemberEventKind.UPDATED: Cause.UPDATED,
        MemberEventKind.WENT: Cause.LEFT,
        MemberEventKind.NOT_REVOKED: Cause.NOT_REVOKED,
        MemberEventKind.NOT_ASSIGNED: Cause.UNKNOWN,
        MemberEventKind.GONE: Cause.GONE,
    }
)
OF_TRIGGERS: Final[Mapping[RebalanceTrigger, Cause]] = MappingProxyType(
    {
        RebalanceTrigger.MEMBER_JOINED: Cause.JOINED,
        RebalanceTrigger.MEMBER_REJOINED: Cause.REJOINED,
        RebalanceTrigger.MEMBER_SUBSCRIBED: Cause.SUBSCRIBED,
        RebalanceTrigger.LEADER_REJOINED: Cause.LEADER_REJOINED,
        RebalanceTrigger.MEMBER_LEFT: Cause.LEFT,
        RebalanceTrigger.MEMBER_EXPIRED: Cause.EXPIRED,
        RebalanceTrigger.STATIC_PROTOCOL_CHANGED: Cause.STATIC_CHANGED,
        RebalanceTrigger.STATIC_SUBSCRIPTION_CHANGED: Cause.STATIC_CHANGED,
        RebalanceTrigger.STATIC_MEMBER_REPLACED: Cause.STATIC_REPLACED,
        RebalanceTrigger.SYNC_TIMEOUT: Cause.NOT_SYNCED,
        RebalanceTrigger.DOWNGRADED: Cause.CONVERTED,
        RebalanceTrigger.OVER_CAPACITY: Cause.OVER_CAPACITY,
        RebalanceTrigger.MEMBER_GONE: Cause.GONE,
        RebalanceTrigger.GAVE_UP: Cause.GAVE_UP,
        RebalanceTrigger.TOPICS_CHANGED: Cause.TOPICS_CHANGED,
        RebalanceTrigger.NOT_RECORDED: Cause.NOT_RECORDED,
    }
)
OF_TOPICS: Final[Mapping[TopicsCause, Cause]] = MappingProxyType(
    {
        TopicsCause.TOPICS_CHANGED: Cause.TOPICS_CHANGED,
        TopicsCause.REGEX_RESOLVED: Cause.REGEX_RESOLVED,
        TopicsCause.SHARE_STATE_INITIALIZED: Cause.SHARE_STATE,
        TopicsCause.TOPOLOGY_READY: Cause.TOPOLOGY_READY,
        TopicsCause.TOPOLOGY_NOT_READY: Cause.TOPOLOGY_NOT_READY,
        TopicsCause.CONFIGS_CHANGED: Cause.CONFIGS_CHANGED,
        TopicsCause.NOT_RECORDED: Cause.NOT_RECORDED,
    }
)


def of_trigger(trigger: RebalanceTrigger, reason: str | None) -> Cause:
    """Return the cause of a classic group's rebalance."""
    return _by_reason(OF_TRIGGERS[trigger], reason)


def of_change(change: MemberEvent | TopicsCause) -> Cause:
    """Return the cause of the rebalance of a group that is not classic."""
    if isinstance(change, MemberEvent):
        return _by_reason(OF_MEMBERS[change.kind], change.reason)
    return OF_TOPICS[change]


def of_target(fact: TargetAssigned, *, is_converted: bool) -> Cause:
    """Return the cause of a new target; ``is_converted``: the group's type is new."""
    if fact.cause is not None:
        return of_change(fact.cause)
    if is_converted:
        return Cause.CONVERTED
    is_new = failover_ms(fact.elected_ms, fact.changed_ms) is not None
    return Cause.FAILOVER if is_new else Cause.UNKNOWN


def failover_ms(elected_ms: int | None, started_ms: int) -> int | None:
    """Return how long before the rebalance its coordinator took over, if that was just before."""
    if elected_ms is None:
        return None
    before_ms = started_ms - elected_ms
    return before_ms if 0 <= before_ms <= FAILOVER_MS else None


def _by_reason(cause: Cause, reason: str | None) -> Cause:
    if not reason or cause not in _OPEN_TO_REASONS:
        return cause
    text = reason.lower()
    return next((known for part, known in REASONS if part in text), cause)
