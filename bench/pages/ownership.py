"""The picture of who owned which partition when, small enough for a page, whatever the group."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.pages.document import OwnershipPicture
from bench.pages.steps import counted, edges, mean_count, step_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.pages.steps import Floats, Integers
    from bench.scenarios.record import Owned
    from protocol.wire.embedded import TopicPartition

ROWS_MAX: Final = 1_000
STRETCHES_MAX: Final = 30_000
"""A picture with more rows or stretches than these is drawn in bands."""

BANDS_MAX: Final = 120
BAND_STEPS_LEAST: Final = 60

EMPTY: Final = 0
"""The number of owners of a partition that nobody has."""


class OwnershipTimes:
    """A group's partitions and the stretches in which members owned them.

    ``owned`` is in order of time for each partition; ``began_ms`` and ``duration_ms`` are of the
    run, and what is outside of it is cut off.
    """

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        owned: Mapping[TopicPartition, Sequence[Owned]],
        began_ms: int,
        duration_ms: int,
    ) -> None:
        self.partitions = partitions
        self.duration_ms = duration_ms
        self.stretches = [
            [*_cut(owned.get(each, ()), began_ms, duration_ms)] for each in partitions
        ]

    def picture(
        self, *, is_exclusive: bool, stretches_max: int = STRETCHES_MAX
    ) -> OwnershipPicture:
        """Return the finest picture that is small enough."""
        stretches = sum(map(len, self.stretches))
        if len(self.partitions) > ROWS_MAX or stretches > stretches_max:
            return self._bands(max(BAND_STEPS_LEAST, stretches_max // BANDS_MAX))
        return self._owners() if is_exclusive else self._counts()

    def unowned(self) -> Iterator[tuple[int, int]]:
        """Yield when partitions had no owner, each for itself."""
        for row in self.stretches:
            free_since = 0
            for began_ms, ended_ms, _ in row:
                if began_ms > free_since:
                    yield free_since, began_ms
                free_since = max(free_since, ended_ms)
            if free_since < self.duration_ms:
                yield free_since, self.duration_ms

    def changes(self) -> Iterator[tuple[int, int]]:
        """Yield the row and the time of each change to another owner than the one before."""
        for number, row in enumerate(self.stretches):
            before = None
            for began_ms, _, name in row:
                if before is not None and name != before:
                    yield number, began_ms
                before = name

    def _owners(self) -> OwnershipPicture:
        numbers: dict[str, int] = {}
        rows = []
        for stretches in self.stretches:
            row: list[int] = []
            at = 0
            for began_ms, ended_ms, name in stretches:
                owner = numbers.setdefault(name, len(numbers))
                if row and began_ms == at and row[-1] == owner:
                    row[-2] += ended_ms - began_ms
                else:
                    row += (began_ms - at, ended_ms - began_ms, owner)
                at = ended_ms
            rows.append(row)
        return OwnershipPicture(
            form="owners", partitions=_ranges(self.partitions), rows=rows, owners=[*numbers]
        )

    def _counts(self) -> OwnershipPicture:
        rows = []
        for stretches in self.stretches:
            moments = sorted(
                [(began_ms, 1) for began_ms, _, _ in stretches]
                + [(ended_ms, -1) for _, ended_ms, _ in stretches]
            )
            row: list[int] = []
            at, owners = 0, EMPTY
            for moment, change in [*moments, (self.duration_ms, 0)]:
                if moment > at:
                    row += (moment - at, owners)
                    at = moment
                owners += change
            rows.append(_merged(row))
        return OwnershipPicture(form="counts", partitions=_ranges(self.partitions), rows=rows)

    def _bands(self, steps_max: int) -> OwnershipPicture:
        band = -(-len(self.partitions) // BANDS_MAX)
        step = step_ms(self.duration_ms, steps_max)
        at = edges(self.duration_ms, step)
        changed: dict[int, list[int]] = {}
        for number, moment in self.changes():
            changed.setdefault(number // band, []).append(moment)
        rows = []
        for number, first in enumerate(range(0, len(self.partitions), band)):
            part = OwnershipTimes.__new__(OwnershipTimes)
            part.stretches = self.stretches[first : first + band]
            part.duration_ms = self.duration_ms
            size = len(part.stretches)
            free = [*part.unowned()]
            new = _thousandths((span for span in free if not span[0]), at, size)
            unowned = _thousandths((span for span in free if span[0]), at, size)
            changes = counted(changed.get(number, ()), at)
            rows.append(_run_lengths(new, unowned, changes.tolist()))
        return OwnershipPicture(
            form="bands", partitions=_ranges(self.partitions), rows=rows, band=band, step_ms=step
        )


def _cut(owned: Sequence[Owned], began_ms: int, duration_ms: int) -> Iterator[tuple[int, int, str]]:
    for each in owned:
        began = max(each.began_ms - began_ms, 0)
        ended = min(each.ended_ms - began_ms, duration_ms)
        if ended > began:
            yield began, ended, each.name


def _ranges(partitions: Sequence[TopicPartition]) -> list[tuple[str, int, int]]:
    """Return the partitions as ranges: (topic, first index, how many)."""
    ranges: list[tuple[str, int, int]] = []
    for topic, index in partitions:
        if ranges and (before := ranges[-1])[0] == topic and sum(before[1:]) == index:
            ranges[-1] = (topic, before[1], before[2] + 1)
        else:
            ranges.append((topic, index, 1))
    return ranges


def _merged(row: Sequence[int]) -> list[int]:
    """Join neighbours with the same number of owners."""
    merged: list[int] = []
    for length, owners in zip(row[::2], row[1::2], strict=True):
        if merged and merged[-1] == owners:
            merged[-2] += length
        else:
            merged += (length, owners)
    return merged


def _thousandths(spans: Iterable[tuple[int, int]], at: Floats, size: int) -> list[int]:
    """Return how many of ``size`` partitions the spans are, in each step, of a thousand."""
    shares: Integers = np.ceil(mean_count(spans, at) * 1000 / size - 1e-9).astype(np.int64)
    return [int(each) for each in shares]


def _run_lengths(*columns: Sequence[int]) -> list[int]:
    row: list[int] = []
    for values, steps in groupby(zip(*columns, strict=True)):
        row += (len([*steps]), *values)
    return row
