"""Times and durations as an operator types them, in milliseconds."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from typing import Final

DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,9})D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d{1,9})H)?(?:([-+]?\d{1,9})M)?(?:([-+]?\d{1,9})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""Java's form of ISO 8601; nine digits of each unit are more than any log goes back."""

UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def timestamp_ms(text: str) -> int:
    """Read a date with a time, of UTC if it names no offset; return Unix milliseconds."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or "T" not in text:
        raise ArgumentTypeError(f"{text!r} is not a time: give YYYY-MM-DDThh:mm:ss.sss")
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    moment = since.days * UNITS_MS[0] + since.seconds * 1_000 + since.microseconds // 1_000
    if moment < 0:
        raise ArgumentTypeError(f"{text!r} is before 1970")
    return moment


def duration_ms(text: str) -> int:
    """Read a duration such as ``P1DT2H3M4.5S``; return milliseconds."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ArgumentTypeError(f"{text!r} is not a duration: give PnDTnHnMnS, such as PT1H30M")
    sign, *numbers, fraction = found.groups()
    total = sum(int(n or 0) * unit for n, unit in zip(numbers, UNITS_MS, strict=True))
    part = int(f"{fraction or 0:0<3}"[:3])
    total += -part if (numbers[-1] or "").startswith("-") else part
    return -total if sign == "-" else total
