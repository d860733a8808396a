"""What static members of a group had whose sessions have expired, for a while and bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

KEPT_MAX: Final = 10_000
"""Instances of a group whose assignments are kept; of more, those that expired first are lost."""


@dataclass(slots=True, eq=False)
class KeptAssignments:
    """Targets by instance id, as the values of their records, each with its end (Unix ms).

    Soft state: after a change of leader an instance that returns is a new member like any other.
    """

    _kept: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many are kept, though some may be too old."""
        return len(self._kept)

    def keep(self, instance_id: str, target: bytes, until_ms: int) -> None:
        """Keep what an instance had, in place of what it had before."""
        kept = self._kept
        kept.pop(instance_id, None)
        kept[instance_id] = (until_ms, target)
        if len(kept) > KEPT_MAX:
            del kept[next(iter(kept))]

    def take(self, instance_id: str, now: int) -> bytes | None:
        """Take out what an instance had; None: nothing is kept, or it is too old."""
        until_ms, target = self._kept.pop(instance_id, (now, None))
        return target if until_ms > now else None

    def forget_old(self, now: int) -> None:
        """Drop those at the begin that are too old: with one retention they are in order."""
        kept = self._kept
        while kept:
            instance_id = next(iter(kept))
            if kept[instance_id][0] > now:
                return
            del kept[instance_id]
