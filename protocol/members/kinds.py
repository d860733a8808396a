"""The kinds of members: one row each.

The class of a member's settings determines its kind. Drivers (tests, simulator, drills, loads)
create members here and check the row's traits, never a member's class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.share import ShareMember, ShareMemberConfig
from protocol.members.streams import StreamsMember, StreamsMemberConfig

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from uuid import UUID

AnyConfig: TypeAlias = MemberConfig | ConsumerMemberConfig | ShareMemberConfig | StreamsMemberConfig
Member: TypeAlias = ClassicMember | ConsumerMember | ShareMember | StreamsMember


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """The topics that members know; a driver may change the mappings at any time."""

    partitions_of: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKind:
    """One row.

    ``make`` creates a member from its settings, a random generator and the topics it knows.
    ``is_modern``: its coordinator assigns. ``changes_topics``: it may change its subscription while
    it is a member. ``replaces_silent``: a static member may replace one that has not announced that
    it leaves. ``is_exclusive``: at most one member owns a partition at a time. ``commits``: it
    commits offsets; others ignore that they should.
    """

    make: Callable[[Any, random.Random, TopicMetadata], Member]
    is_modern: bool
    changes_topics: bool
    replaces_silent: bool
    is_exclusive: bool
    commits: bool


KINDS: Final[Mapping[type, MemberKind]] = {
    MemberConfig: MemberKind(
        make=lambda config, rng, topics: ClassicMember(config, rng, topics.partitions_of),
        is_modern=False,
        changes_topics=False,
        replaces_silent=True,
        is_exclusive=True,
        commits=True,
    ),
    ConsumerMemberConfig: MemberKind(
        make=lambda config, rng, topics: ConsumerMember(config, rng, topics.names),
        is_modern=True,
        changes_topics=True,
        replaces_silent=False,
        is_exclusive=True,
        commits=True,
    ),
    ShareMemberConfig: MemberKind(
        make=lambda config, rng, topics: ShareMember(config, rng, topics.names),
        is_modern=True,
        changes_topics=True,
        replaces_silent=False,
        is_exclusive=False,
        commits=False,
    ),
    StreamsMemberConfig: MemberKind(
        make=lambda config, rng, topics: StreamsMember(config, rng, topics.partitions_of),
        is_modern=True,
        changes_topics=False,
        replaces_silent=False,
        is_exclusive=True,
        commits=True,
    ),
}


def kind_of(config: AnyConfig) -> MemberKind:
    """Return the row of a member's settings."""
    return KINDS[type(config)]


def member_of(config: AnyConfig, rng: random.Random, topics: TopicMetadata) -> Member:
    """Create the member that these settings describe."""
    return kind_of(config).make(config, rng, topics)
