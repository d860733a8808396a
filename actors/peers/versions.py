"""The versions of the peer protocol that this program speaks: a table of what differs.

A hello names the oldest and the newest version that a program speaks, and a link uses the newest
one that both ends speak. How to change the protocol: ``docs/decisions/versions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from storage.peer_frames import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerVersion:
    """One version of the peer protocol.

    ``kinds`` is how many of :data:`storage.peer_frames.KINDS` it has: others are not sent on a link
    of this version.
    """

    number: int
    kinds: int
    about: str

    @property
    def has_all_kinds(self) -> bool:
        """Whether every message of this program may be sent."""
        return self.kinds >= len(KINDS)

    def known(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that this version has."""
        kinds = KINDS[: self.kinds]
        return [message for message in messages if type(message) in kinds]


PEER_VERSIONS: Final = (
    PeerVersion(number=5, kinds=10, about="hellos name the versions that a program speaks"),
    PeerVersion(number=6, kinds=11, about="leaders tell the other replicas' nodes soft state"),
)
"""The versions that this program speaks, the oldest first, without gaps."""

NAMED_FROM: Final = 5
"""The first version whose hellos name a range of versions; the ones before are alone."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that a program speaks."""

    oldest: int
    newest: int

    @classmethod
    def of(cls, versions: Sequence[PeerVersion]) -> VersionRange:
        """Return the range of these rows."""
        return cls(versions[0].number, versions[-1].number)

    def __str__(self) -> str:
        if self.oldest == self.newest:
            return f"version {self.oldest}"
        return f"versions {self.oldest} to {self.newest}"


def newest_common(ours: Sequence[PeerVersion], theirs: VersionRange) -> PeerVersion | None:
    """Return the newest version that both ends speak; None if there is none."""
    both = [one for one in ours if theirs.oldest <= one.number <= theirs.newest]
    return both[-1] if both else None


def disagreement(ours: Sequence[PeerVersion], theirs: VersionRange) -> str:
    """Return in one sentence, without a full stop, why a link has no version, and what to do."""
    mine = VersionRange.of(ours)
    here, there = ("newer", "older") if mine.newest < theirs.newest else ("older", "newer")
    return (
        f"it speaks {theirs} of the peer protocol, and we speak {mine}: "
        f"install {_a(here)} version of Rollcall here, or {_a(there)} one there"
    )


def _a(age: str) -> str:
    return f"an {age}" if age == "older" else f"a {age}"
