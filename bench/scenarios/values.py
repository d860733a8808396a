"""The values of scenario files: durations in words, amounts as in a Deployment, protocols."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

DURATION_MS_MAX: Final = 24 * 3_600_000
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_PERCENT: Final = re.compile(r"(\d{1,3})%", re.ASCII)
_PARTS_MS: Final = (3_600_000, 60_000, 1_000, 1)
AMOUNT_MAX: Final = 1_000_000


class Duration(int):
    """Milliseconds, written ``"1h"``, ``"1m30s"`` or ``"250ms"``."""

    @classmethod
    def of(cls, value: object) -> Duration:
        """Read a duration; raises ValueError."""
        found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
        if found is None or len(found[0]) > len("24h1440m86400s86400000ms"):
            raise ValueError("expected a duration such as '90s', '1m30s', '2h' or '250ms'")
        parts = zip(found.groups(default="0"), _PARTS_MS, strict=True)
        total = sum(int(number) * unit for number, unit in parts)
        if total > DURATION_MS_MAX:
            raise ValueError("expected at most 24h")
        return cls(total)


class Amount:
    """A number of pods, or a percentage of them, as Kubernetes writes ``maxSurge``."""

    __slots__ = ("is_percent", "number")

    def __init__(self, number: int, *, is_percent: bool = False) -> None:
        self.number = number
        self.is_percent = is_percent

    @classmethod
    def parse(cls, value: object) -> Amount:
        """Read an amount; raises ValueError."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= AMOUNT_MAX:
            return cls(value)
        found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if found is None or int(found[1]) > 100:
            raise ValueError("expected a number of pods, or a percentage such as '25%'")
        return cls(int(found[1]), is_percent=True)

    def of(self, whole: int, *, rounds_up: bool) -> int:
        """Return how many of ``whole`` pods this is; percentages are rounded."""
        if not self.is_percent:
            return self.number
        return (self.number * whole + (99 if rounds_up else 0)) // 100

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.number}%" if self.is_percent else str(self.number)

    def __repr__(self) -> str:
        return str(self)


class Protocol(StrEnum):
    """The protocol of a group's members."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


def decoded(kind: type, value: Any) -> Any:
    """Read a value of one of these types, for msgspec."""
    if kind is Duration:
        return Duration.of(value)
    if kind is Amount:
        return Amount.parse(value)
    raise NotImplementedError(kind)
