"""The kinds of members: a row for each; share and streams members are two more.

A kind is known by the class of its settings. Drivers (tests, simulator, drills, loads) make members
here and look at the row's traits, never at a member's class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from uuid import UUID

AnyConfig: TypeAlias = MemberConfig | ConsumerMemberConfig
Member: TypeAlias = ClassicMember | ConsumerMember


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """What members know of the topics; a driver may change the mappings at any time."""

    partitions_of: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKind:
    """One row.

    ``make`` makes a member of its settings, a generator of chance and what it knows of the topics.
    ``is_modern``: its coordinator assigns, it may subscribe to other topics while it is a member.
    ``replaces_silent``: a static member takes the place of one that has not said that it leaves.
    """

    make: Callable[[Any, random.Random, TopicMetadata], Member]
    is_modern: bool
    replaces_silent: bool


KINDS: Final[Mapping[type, MemberKind]] = {
    MemberConfig: MemberKind(
        make=lambda config, rng, topics: ClassicMember(config, rng, topics.partitions_of),
        is_modern=False,
        replaces_silent=True,
    ),
    ConsumerMemberConfig: MemberKind(
        make=lambda config, rng, topics: ConsumerMember(config, rng, topics.names),
        is_modern=True,
        replaces_silent=False,
    ),
}


def kind_of(config: AnyConfig) -> MemberKind:
    """Return the row of a member's settings."""
    return KINDS[type(config)]


def member_of(config: AnyConfig, rng: random.Random, topics: TopicMetadata) -> Member:
    """Make the member that these settings describe."""
    return kind_of(config).make(config, rng, topics)
