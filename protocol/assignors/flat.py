"""Long lists as a few flat arrays: the data that travels between a coordinator and a worker.

A group with as many subscriptions as members names its topics hundreds of thousands of times. Here
each name occurs once, and a subscription is a row of indexes. Target assignments come back as one
buffer, and a member's bytes are sliced from it on demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from protocol.assignors.spec import Int32s

Int64s: TypeAlias = NDArray[np.int64]

PIECE_NAMES: Final = 10_000
"""Names per piece: well below a millisecond to look up."""

PIECE_INDEXES: Final = 20_000
"""Indexes per piece without names to look up; one subscription may exceed it."""


class Piece(NamedTuple):
    """Some subscriptions, by their numbers, and the names that are new in this piece.

    Row ``i`` has ``counts[i]`` of the ``indexes``, which number the names across all pieces. A
    number that ends one piece and begins the next is one subscription, continued.
    """

    names: list[str]
    numbers: Int64s
    counts: Int32s
    indexes: Int32s


class _Index(dict[str, int]):
    """Numbers for names in order of arrival; ``new_names`` are those not taken out yet."""

    __slots__ = ("new_names",)

    def __init__(self) -> None:
        super().__init__()
        self.new_names: list[str] = []

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        self.new_names.append(name)
        return number

    def take_new_names(self) -> list[str]:
        """Take out the names that came since the last call."""
        new_names, self.new_names = self.new_names, []
        return new_names


def pieces(
    subscriptions: Mapping[int, Collection[str]], names_max: int = PIECE_NAMES
) -> Iterator[Piece]:
    """Cut subscriptions into pieces of bounded size, lazily."""
    if isinstance(subscriptions, SubscriptionRows):
        yield from subscriptions.pieces()
        return
    index = _Index()
    numbers: list[int] = []
    rows: list[Int32s] = []
    size = 0
    for number, names in subscriptions.items():
        left = np.fromiter(map(index.__getitem__, names), np.int32, len(names))
        while True:
            row = left[: names_max - size]
            left = left[len(row) :]
            numbers.append(number)
            rows.append(row)
            size += len(row)
            if size >= names_max or len(rows) >= names_max:
                yield _piece(index.take_new_names(), numbers, rows)
                numbers, rows, size = [], [], 0
            if not len(left):
                break
    if rows:
        yield _piece(index.take_new_names(), numbers, rows)


def _piece(names: list[str], numbers: Sequence[int], rows: Sequence[Int32s]) -> Piece:
    counts = np.array([len(row) for row in rows], np.int32)
    return Piece(names, np.array(numbers, np.int64), counts, _joined(rows, np.int32))


class SubscriptionRow(NamedTuple):
    """A subscription, by its number, as indexes into a list of names."""

    number: int
    row: Int32s


class HasSubscriptionRow(Protocol):
    """An object that has a subscription row."""

    @property
    def number(self) -> int:
        """The subscription's number."""

    @property
    def row(self) -> Int32s:
        """The indexes of its names."""


class SubscriptionRows(Mapping[int, frozenset[str]]):
    """Subscriptions by number whose rows are indexes into ``names``.

    They are read and concatenated only when they are cut into pieces.
    """

    __slots__ = ("_rowed", "names")

    def __init__(self, names: list[str], rowed: Sequence[HasSubscriptionRow]) -> None:
        self.names = names
        self._rowed = rowed

    def pieces(self) -> Iterator[Piece]:
        """Cut into pieces of bounded size, lazily."""
        numbers: list[int] = []
        rows: list[Int32s] = []
        size = told = 0
        for each in self._rowed:
            numbers.append(each.number)
            rows.append(each.row)
            size += len(each.row) + 1
            if size >= PIECE_INDEXES:
                yield _piece(self.names[told : told + PIECE_NAMES], numbers, rows)
                numbers, rows, size = [], [], 0
                told += PIECE_NAMES
        while numbers or told < len(self.names):
            yield _piece(self.names[told : told + PIECE_NAMES], numbers, rows)
            numbers, rows = [], []
            told += PIECE_NAMES

    def __getitem__(self, number: int) -> frozenset[str]:
        row = next((each.row for each in self._rowed if each.number == number), None)
        if row is None:
            raise KeyError(number)
        return frozenset(self.names[place] for place in row.tolist())

    def __iter__(self) -> Iterator[int]:
        return iter([each.number for each in self._rowed])

    def __len__(self) -> int:
        return len(self._rowed)


class FlatSubscriptions(Mapping[int, frozenset[str]]):
    """Subscriptions by number, as arrays; they can also be read as a mapping.

    Row ``i``, of subscription ``numbers[i]``, is ``indexes[starts[i]:starts[i + 1]]``: indexes
    into ``names``.
    """

    __slots__ = ("_place", "indexes", "names", "numbers", "starts")

    def __init__(self, found: Iterable[Piece]) -> None:
        parts = list(found)
        self.names = [name for part in parts for name in part.names]
        numbers = _joined([part.numbers for part in parts], np.int64)
        counts = _joined([part.counts for part in parts], np.int32)
        self.indexes: Int32s = _joined([part.indexes for part in parts], np.int32)
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.numbers: Int64s = numbers[firsts]
        ends = np.cumsum(counts)
        self.starts: Int64s = np.append(ends[firsts] - counts[firsts], len(self.indexes))
        self._place: dict[int, int] | None = None

    @classmethod
    def of(cls, subscriptions: Mapping[int, Collection[str]]) -> FlatSubscriptions:
        """Convert any subscriptions; return flat ones unchanged."""
        return subscriptions if isinstance(subscriptions, cls) else cls(pieces(subscriptions))

    def __getitem__(self, number: int) -> frozenset[str]:
        if self._place is None:
            self._place = {each: place for place, each in enumerate(self.numbers.tolist())}
        place = self._place[number]
        row = self.indexes[self.starts[place] : self.starts[place + 1]]
        return frozenset(self.names[index] for index in row.tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, kind)


class FlatTargets(Sequence[tuple[str, bytes]]):
    """Members and the values of their records, sliced from one buffer on demand.

    The bytes of member ``i`` end at ``ends[i]``, and begin where those of the previous one end.
    """

    __slots__ = ("_ends", "buffer", "ends", "member_ids")

    def __init__(self, member_ids: Sequence[str], ends: Int32s, buffer: memoryview) -> None:
        self.member_ids = member_ids
        self.ends = ends
        self.buffer = buffer
        self._ends: list[int] | None = None

    @classmethod
    def of(cls, members: Sequence[tuple[str, bytes]]) -> FlatTargets:
        """Convert any members; return flat ones unchanged."""
        if isinstance(members, cls):
            return members
        ends = np.cumsum([len(value) for _, value in members], dtype=np.int32)
        buffer = memoryview(b"".join(value for _, value in members))
        return cls([member_id for member_id, _ in members], ends, buffer)

    def __len__(self) -> int:
        return len(self.member_ids)

    @overload
    def __getitem__(self, index: int) -> tuple[str, bytes]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, bytes]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if self._ends is None:
            self._ends = self.ends.tolist()
        if index < 0:
            index += len(self)
        start = self._ends[index - 1] if index else 0
        return self.member_ids[index], bytes(self.buffer[start : self._ends[index]])
