"""What a type of group is to the rest of the shard: one value for each type, in the type's folder.

A :class:`ShardPart` claims requests, records, timers and events, and follows what happens to the
whole shard. A :class:`GroupType` is a part that groups belong to. A :class:`MigrationEdge` leads
from one type to another. ``dispatch`` merges them all, and ``group_types`` has a row for each.

The functions here find the type of a group; no other code asks which class a group has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

    from protocol.config import Configs
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
"""The state of a group without members; all types call it so, and only such a group is deleted."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


class GroupSummary(NamedTuple):
    """A group as ListGroups shows it: its type, its state, its protocol type."""

    group_type: str
    state: str
    protocol_type: str


class Built(NamedTuple):
    """How many members have runtime state now, and whether the whole group has."""

    members: int
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardPart:
    """The tables and the reactions of one part of the shard. None: it does not react.

    ``handlers`` are by API key, ``replays`` by record key class, ``timeouts`` by timer kind,
    ``events`` by event class; no key may be claimed twice.

    ``elected`` begins a leadership, ``resigned`` ends one and forgets the runtime state.
    ``shift_deadlines`` moves deadlines that are no timers later, in ms. ``configs_changed`` is told
    of the broker's configs before, ``group_configs_changed`` of the groups whose own are others,
    ``topics_changed`` of the topics before. ``forget`` drops a group's runtime state and timers
    after a failure, whatever state it is in. ``events_of`` finds the member events of a group.
    ``broken`` names the invariants that do not hold.
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
    broken: Callable[[Context], Iterable[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetPolicy:
    """What a type allows with committed offsets.

    ``check_commit`` raises KafkaError for a commit that the group does not allow, and gives what
    has yet to be asked of each partition (None: nothing). ``check_fetch`` raises for a member that
    may not read. ``check_delete`` raises unless single offsets may be deleted.
    ``subscribed_topics`` names the topics whose offsets members use (None: not known);
    ``is_subscribed`` tells whether one may be among them. ``retention_start`` gives what tells when
    an offset's retention begins, in Unix ms (None: the group keeps them all).
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

    ``logs_member_epochs``: no member is told an epoch that is not in the log.
    ``summary`` is called for existing groups only. ``delete`` removes an Empty group whose offsets
    are gone; ``is_abandoned`` tells whether nobody is in it or about to join. ``build`` gives a
    group runtime state, or a slice of it, after an election; ``restore`` all of it, after a
    failure. ``simple_group`` makes the hard state of a group that is known by its committed offsets
    only: exactly one type has it.
    """

    logs_member_epochs: bool = True
    offsets: OffsetPolicy
    summary: Callable[[Context, str], GroupSummary]
    is_abandoned: Callable[[Context, str], bool]
    delete: Callable[[Context, str, int], None]
    build: Callable[[Context, str, int], Built]
    restore: Callable[[Context, str, int], None]
    simple_group: Callable[[], HardGroup] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MigrationEdge:
    """How a group of type ``source`` becomes one of type ``target`` (KIP-848).

    A member of the target's protocol joins: ``plan`` pictures what the group would become (None: it
    has no members, and simply makes way) or raises KafkaError, and changes nothing; ``convert``
    makes it so.

    Members leave: ``is_due`` tells whether the group must migrate once these members have left;
    ``convert_without`` does both.

    ``requests``, by API key, are those of the target's protocol that a group of type ``source``
    answers itself.
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
    """Find the type of a group; None: there is no group with this id."""
    group = ctx.groups.get(group_id)
    types: Mapping[str, GroupType] = ctx.tables.types
    return None if group is None else types[group.type_name]


def committing_type(ctx: Context, group_id: str) -> GroupType:
    """Find the type whose offset policy counts: for an unknown group that of simple groups."""
    group = ctx.groups.get(group_id)
    found: GroupType = (
        ctx.tables.simple_type if group is None else ctx.tables.types[group.type_name]
    )
    return found


def edge_to(ctx: Context, group: HardGroup, target: str) -> MigrationEdge | None:
    """Find how this group may become one of type ``target``; None: it may not."""
    edges: Mapping[tuple[str, str], MigrationEdge] = ctx.tables.edges
    return edges.get((group.type_name, target))


def edge_when_leaving(
    ctx: Context, group: HardGroup, leaving: Collection[str]
) -> MigrationEdge | None:
    """Find the edge that is due once these members have left; None: the group stays as it is."""
    edges: Mapping[tuple[str, str], MigrationEdge] = ctx.tables.edges
    for edge in edges.values():
        is_due = edge.is_due if edge.source == group.type_name else None
        if is_due is not None and is_due(ctx, group, leaving):
            return edge
    return None
