"""Sections of pages as they were made last, for all browsers that look at the same thing."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

KEPT_MAX: Final = 16
SERVES_MS: Final = 5_000
"""How long sections serve while nothing changes: a storm ends by itself."""

V = TypeVar("V")


class RenderedSections:
    """Makes sections once for each value; the largest take a processor a fifth of a second."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._kept: OrderedDict[Hashable, tuple[object, int, dict[str, str]]] = OrderedDict()

    def of(self, key: Hashable, value: V, make: Callable[[V], dict[str, str]]) -> dict[str, str]:
        """Return the sections of a value, which is known by its identity."""
        now_ms = self._clock_ms()
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] is not value or not 0 <= now_ms - kept[1] < SERVES_MS:
            kept = value, now_ms, make(value)
        self._kept[key] = kept
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return kept[2]
