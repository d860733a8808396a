"""Protocol selection: each member votes for its first protocol that all members support.

Members with the same list, in the same order, are counted together. So a selection costs time
proportional to the number of distinct lists (one or two in practice), not of members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

ProtocolList: TypeAlias = tuple[str, ...]
"""The names of a member's protocols, most preferred first, each once."""

_Key = TypeVar("_Key", str, ProtocolList)


class ProtocolLists:
    """The protocol lists of a group's members."""

    __slots__ = ("_count", "_lists", "_supporters", "_winner")

    def __init__(self) -> None:
        self._lists: dict[ProtocolList, int] = {}
        self._supporters: dict[str, int] = {}
        self._count = 0
        self._winner: str | None = None

    @property
    def lists(self) -> Mapping[ProtocolList, int]:
        """The number of members with each list."""
        return self._lists

    def add(self, protocol_list: ProtocolList) -> None:
        """Count a member's list in."""
        self._winner = None
        self._count += 1
        self._lists[protocol_list] = self._lists.get(protocol_list, 0) + 1
        for name in protocol_list:
            self._supporters[name] = self._supporters.get(name, 0) + 1

    def remove(self, protocol_list: ProtocolList) -> None:
        """Count a member's list out."""
        self._winner = None
        self._count -= 1
        _decrement(self._lists, protocol_list)
        for name in protocol_list:
            _decrement(self._supporters, name)

    def supports(self, protocol_list: ProtocolList) -> bool:
        """Whether a member with this list shares a protocol with all members."""
        for name in protocol_list:  # noqa: SIM110 - any() and its generator are two calls more
            if self._supporters.get(name, 0) == self._count:
                return True
        return False

    def select(self) -> str:
        """Return the protocol with the most votes that all members support; needs a member.

        A tie goes to the protocol that got its first vote first. The result is cached until a vote
        changes.
        """
        if self._winner is None:
            self._winner = self._count_votes()
        return self._winner

    def _count_votes(self) -> str:
        candidates = {name for name, count in self._supporters.items() if count == self._count}
        votes: dict[str, int] = {}
        for protocol_list, count in self._lists.items():
            name = next(name for name in protocol_list if name in candidates)
            votes[name] = votes.get(name, 0) + count
        return max(votes, key=votes.__getitem__)


def _decrement(counts: dict[_Key, int], key: _Key) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
