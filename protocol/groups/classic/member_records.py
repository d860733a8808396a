"""Each member's part of a classic group's record, kept such that the whole is copied quickly.

The record has all members, and is built again for each static member that returns: five thousand
times when five thousand return. So the parts are in blocks, which records share: a new record costs
one new block and a reference to each of the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.records import MemberMetadata

BLOCK: Final = 64
"""The most parts in a block."""

SMALL: Final = 4 * BLOCK
"""The parts of a smaller record are copied."""


class MemberParts(Sequence[Any]):
    """The parts of one record: in place of a tuple, and equal to one."""

    __slots__ = ("_blocks", "_count")

    def __init__(self, blocks: tuple[tuple[MemberMetadata, ...], ...], count: int) -> None:
        self._blocks = blocks
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MemberMetadata]:
        return chain.from_iterable(self._blocks)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, MemberParts)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class MemberRecords:
    """The parts by member id, in the order in which their members were added, as in a dict.

    Members are numbered in that order. Block ``b`` has the parts of the members from ``b * BLOCK``
    on, and their numbers; both dicts are in ascending order.
    """

    __slots__ = ("_blocks", "_next", "_number_of", "_numbers")

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[MemberMetadata, ...]] = {}
        self._numbers: dict[int, list[int]] = {}
        self._number_of: dict[str, int] = {}
        self._next = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._number_of)

    def __setitem__(self, member_id: str, part: MemberMetadata) -> None:
        """Set a member's part; a new member is the last one."""
        number = self._number_of.get(member_id)
        if number is None:
            self._add(member_id, part)
            return
        block = number // BLOCK
        parts, place = self._blocks[block], bisect_left(self._numbers[block], number)
        self._blocks[block] = (*parts[:place], part, *parts[place + 1 :])

    def _add(self, member_id: str, part: MemberMetadata) -> None:
        number = self._number_of[member_id] = self._next
        self._next += 1
        block = number // BLOCK
        self._blocks[block] = (*self._blocks.get(block, ()), part)
        self._numbers.setdefault(block, []).append(number)

    def discard(self, member_id: str) -> None:
        """Remove a member's part, if there is one."""
        number = self._number_of.pop(member_id, None)
        if number is None:
            return
        block = number // BLOCK
        numbers, parts = self._numbers[block], self._blocks[block]
        if len(numbers) == 1:
            del self._numbers[block], self._blocks[block]
            return
        place = bisect_left(numbers, number)
        del numbers[place]
        self._blocks[block] = parts[:place] + parts[place + 1 :]

    def clear(self) -> None:
        """Remove all parts."""
        self._blocks.clear()
        self._numbers.clear()
        self._number_of.clear()

    def parts(self) -> tuple[MemberMetadata, ...]:
        """Return all parts, as the record has them: as good as a tuple."""
        blocks, count = self._blocks.values(), len(self._number_of)
        if count < SMALL:
            return tuple(chain.from_iterable(blocks))
        parts: Any = MemberParts(tuple(blocks), count)
        return parts  # type: ignore[no-any-return]
