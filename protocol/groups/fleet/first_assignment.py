"""A first assignment that waits for expected instances, as soft state of its group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FirstAssignment:
    """A first assignment that waits since ``since_ms`` (Unix ms).

    ``last`` is the expected instance that joined last, "" if none had to be waited for.
    """

    since_ms: int
    last: str = ""
