"""Each member's part of a classic group's record, kept such that the whole is copied quickly.

The record has all members, and is built again for each static member that returns: five thousand
times when five thousand return. A list is copied four times as fast as the values of a dict.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.records import MemberMetadata


class MemberRecords:
    """The parts by member id, in the order in which their members were added, as in a dict.

    ``_parts`` and ``_numbers`` are parallel: the parts, and the ascending numbers of their members.
    """

    __slots__ = ("_next", "_number_of", "_numbers", "_parts")

    def __init__(self) -> None:
        self._parts: list[MemberMetadata] = []
        self._numbers: list[int] = []
        self._number_of: dict[str, int] = {}
        self._next = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._number_of)

    def __setitem__(self, member_id: str, part: MemberMetadata) -> None:
        """Set a member's part; a new member is the last one."""
        number = self._number_of.get(member_id)
        if number is not None:
            self._parts[bisect_left(self._numbers, number)] = part
            return
        self._number_of[member_id] = self._next
        self._numbers.append(self._next)
        self._parts.append(part)
        self._next += 1

    def discard(self, member_id: str) -> None:
        """Remove a member's part, if there is one."""
        number = self._number_of.pop(member_id, None)
        if number is not None:
            place = bisect_left(self._numbers, number)
            del self._numbers[place], self._parts[place]

    def clear(self) -> None:
        """Remove all parts."""
        self._parts.clear()
        self._numbers.clear()
        self._number_of.clear()

    def parts(self) -> tuple[MemberMetadata, ...]:
        """Return all parts, as the record has them."""
        return tuple(self._parts)
