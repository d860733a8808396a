"""The interface between a group type and the rest of the shard: one value per type.

A :class:`ShardPart` claims requests, records, timers and events, and reacts to what happens to the
whole shard. A :class:`GroupType` is a part that owns groups. A :class:`MigrationEdge` converts a
group of one type to another. ``dispatch`` merges them all, and ``group_types`` has a row for each.

The functions here look up the type of a group; no other code checks the class of a group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

    from protocol.config import Configs
    from protocol.groups.awaiting import Awaiting
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.event_log import MemberEventLog
    from protocol.groups.hard_group import HardGroup
    from protocol.groups.timers import TimerKey
    from protocol.groups.topics import Topic, Topics
    from protocol.records import OffsetCommitValue
    from protocol.wire.messages import OffsetFetchRequestGroup

    Handler: TypeAlias = Callable[[Context, Request, int], None]
    Replay: TypeAlias = Callable[[Context, Any, Any], None]
    Timeout: TypeAlias = Callable[[Context, TimerKey, int], None]
    EventHandler: TypeAlias = Callable[[Context, Any, int], None]
    CommitCheck: TypeAlias = Callable[[Topic, int], None]
    RetentionStart: TypeAlias = Callable[[OffsetCommitValue], int]

EMPTY: Final = "Empty"
"""The state of a group without members, in all types; only an Empty group can be deleted."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


SESSIONS_MAX: Final = 100
"""Members of a group whose sessions a look has."""


class GroupSummary(NamedTuple):
    """A group as ListGroups returns it: type, state and protocol type; and how many members."""

    group_type: str
    state: str
    protocol_type: str
    members: int = 0


class GroupLook(NamedTuple):
    """A group as its coordinator's memory has it; of one that does not exist, nothing.

    ``rebalances`` counts those that this coordinator has seen. ``sessions`` has of the first
    SESSIONS_MAX members by id how long their sessions last yet, and at most, in ms.
    """

    state: str
    members: int
    rebalances: int
    sessions: Mapping[str, tuple[int, int]]


class Built(NamedTuple):
    """How many members got runtime state, and whether the whole group now has it."""

    members: int
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardPart:
    """The tables and reactions of one part of the shard. None: no reaction.

    ``handlers`` are keyed by API key, ``replays`` by record key class, ``timeouts`` by timer kind,
    ``events`` by event class. No two parts may claim the same key.

    ``elected`` begins a leadership; ``resigned`` ends one and drops the runtime state.
    ``shift_deadlines`` moves deadlines that are not timers by a number of ms. ``configs_changed``
    gets the previous broker configs, ``group_configs_changed`` the groups whose configs changed,
    ``topics_changed`` the previous topics. ``forget`` drops the runtime state and timers of a group
    after a failure, whatever state it is in. ``events_of`` returns the member events of a group,
    ``awaiting`` what a group waits for that rebalances. ``broken`` returns the invariants that do
    not hold.
    """

    name: str
    handlers: Mapping[int, Handler] = field(default_factory=_nothing)
    replays: Mapping[type, Replay] = field(default_factory=_nothing)
    timeouts: Mapping[str, Timeout] = field(default_factory=_nothing)
    events: Mapping[type, EventHandler] = field(default_factory=_nothing)
    elected: Callable[[Context, int], None] | None = None
    resigned: Callable[[Context], None] | None = None
    shift_deadlines: Callable[[Context, int], None] | None = None
    configs_changed: Callable[[Context, Configs], None] | None = None
    group_configs_changed: Callable[[Context, Sequence[str]], None] | None = None
    topics_changed: Callable[[Context, Topics], None] | None = None
    forget: Callable[[Context, str], None] | None = None
    events_of: Callable[[Context, str], MemberEventLog | None] | None = None
    awaiting: Callable[[Context, str], Awaiting | None] | None = None
    broken: Callable[[Context], Iterable[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetPolicy:
    """What a type allows with committed offsets.

    ``check_commit`` raises KafkaError for a commit that the group does not allow; it returns the
    check still to be made for each partition (None: no check). ``check_fetch`` raises for a member
    that may not read. ``check_delete`` raises unless single offsets may be deleted.
    ``subscribed_topics`` returns the topics whose offsets members use (None: not known);
    ``is_subscribed`` returns whether one topic may be among them. ``retention_start`` returns a
    function that says when an offset's retention begins, in Unix ms (None: the group keeps all its
    offsets).
    """

    check_commit: Callable[[Context, Request, int], CommitCheck | None]
    check_fetch: Callable[[Context, OffsetFetchRequestGroup], None]
    check_delete: Callable[[Context, str], None]
    subscribed_topics: Callable[[Context, str], Set[str] | None]
    is_subscribed: Callable[[Context, str, str], bool]
    retention_start: Callable[[Context, str], RetentionStart | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupType(ShardPart):
    """A type of group. ``name`` is its name in ListGroups and in ``HardGroup.type_name``.

    ``logs_member_epochs``: a member is only ever sent epochs that are in the log.
    ``summary`` is called for existing groups only. ``delete`` removes an Empty group whose offsets
    are gone. ``before_delete`` begins what must be done elsewhere first, and returns False when
    that is nothing; otherwise it calls ``describe.prepared`` with the job it is given when it is
    done; ``is_abandoned`` returns whether it has no members and none is about to join.
    ``build`` creates the runtime state of a group, or a slice of it, after an election;
    ``restore`` creates all of it after a failure. ``simple_group`` makes the hard state of a group
    that only has committed offsets: exactly one type has it.
    """

    logs_member_epochs: bool = True
    offsets: OffsetPolicy
    summary: Callable[[Context, str], GroupSummary]
    is_abandoned: Callable[[Context, str], bool]
    delete: Callable[[Context, str, int], None]
    before_delete: Callable[[Context, str, Any, int], bool] | None = None
    build: Callable[[Context, str, int], Built]
    restore: Callable[[Context, str, int], None]
    simple_group: Callable[[], HardGroup] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MigrationEdge:
    """How a group of type ``source`` becomes one of type ``target`` (KIP-848).

    When a member of the target's protocol joins, ``plan`` computes what the group would become
    (None: it has no members, and is simply replaced) or raises KafkaError. It changes nothing;
    ``convert`` applies the plan.

    When members leave, ``is_due`` returns whether the group must be converted once they have left;
    ``convert_without`` removes them and converts the group.

    ``requests``, by API key, are the requests of the target's protocol that a group of type
    ``source`` answers itself.
    """

    source: str
    target: str
    plan: Callable[[Context, str, int], HardGroup | None] | None = None
    convert: Callable[[Context, str, HardGroup | None, int], None] | None = None
    is_due: Callable[[Context, Any, Collection[str]], bool] | None = None
    convert_without: Callable[[Context, Any, Collection[str], int], object] | None = None
    requests: Mapping[int, Handler] = field(default_factory=_nothing)

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


def type_of(ctx: Context, group_id: str) -> GroupType | None:
    """Return the type of a group; None: no group has this id."""
    group = ctx.groups.get(group_id)
    types: Mapping[str, GroupType] = ctx.tables.types
    return None if group is None else types[group.type_name]


def committing_type(ctx: Context, group_id: str) -> GroupType:
    """Return the type whose offset policy applies; for an unknown group, that of simple groups."""
    group = ctx.groups.get(group_id)
    found: GroupType = (
        ctx.tables.simple_type if group is None else ctx.tables.types[group.type_name]
    )
    return found


def edge_to(ctx: Context, group: HardGroup, target: str) -> MigrationEdge | None:
    """Return the edge from this group to type ``target``; None: it cannot be converted."""
    edges: Mapping[tuple[str, str], MigrationEdge] = ctx.tables.edges
    return edges.get((group.type_name, target))


def edge_when_leaving(
    ctx: Context, group: HardGroup, leaving: Collection[str]
) -> MigrationEdge | None:
    """Return the edge to take once these members have left; None: the group keeps its type."""
    edges: Mapping[tuple[str, str], MigrationEdge] = ctx.tables.edges
    for edge in edges.values():
        is_due = edge.is_due if edge.source == group.type_name else None
        if is_due is not None and is_due(ctx, group, leaving):
            return edge
    return None
