"""What a load's members hold of one group, and whether that makes the group Stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.members.client import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.members.kinds import Member


JOINED: Final = (State.COMPLETING_REBALANCE, State.STABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """The members of a group that one load drives; the shares of several loads add up.

    ``joined`` members are in a generation, with or without a partition. ``ready`` ones are Stable,
    know their coordinator and have a partition; ``generations`` are theirs, and ``owned`` is how
    many partitions all members have.
    """

    members: int = 0
    joined: int = 0
    ready: int = 0
    generations: Sequence[int] = ()
    owned: int = 0

    def __add__(self, other: GroupShare) -> GroupShare:
        return GroupShare(
            members=self.members + other.members,
            joined=self.joined + other.joined,
            ready=self.ready + other.ready,
            generations=sorted({*self.generations, *other.generations}),
            owned=self.owned + other.owned,
        )

    def why_unstable(self, partitions: int) -> str:
        """Return in words what the group lacks to be Stable; empty if it is.

        A group that is not classic is consistent even before its assignment is computed. So it
        counts only when every member has a partition; there are enough for all.
        """
        if (self.ready, len(self.generations), self.owned) == (self.members, 1, partitions):
            return ""
        return (
            f"{self.ready} of {self.members} members are Stable, in generations"
            f" {[*self.generations]}, with {self.owned} of {partitions} partitions"
        )


def share_of(members: Iterable[Member]) -> GroupShare:
    """Return the share that these members of a group are."""
    each = [*members]
    ready = [
        member
        for member in each
        if member.state is State.STABLE and member.coordinator is not None and member.partitions
    ]
    return GroupShare(
        members=len(each),
        joined=sum(member.state in JOINED for member in each),
        ready=len(ready),
        generations=sorted({member.generation for member in ready}),
        owned=sum(len(member.partitions) for member in each),
    )
