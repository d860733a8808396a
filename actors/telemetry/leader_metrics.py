"""How often a coordinator began to lead a partition, and stopped, by the kind of the partition."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import ELECTIONS, RESIGNATIONS
from failover.partition_kinds import KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: Final[Mapping[str, int]] = {kind.name: 0 for kind in KINDS}


class LeaderMetrics:
    """The leaderships of one coordinator; they are counted on the event loop."""

    def __init__(self) -> None:
        self._elections = Counter(_NONE)
        self._resignations = Counter(_NONE)

    def began(self, partition: int) -> None:
        """Count a partition that is led here from now on, in a new epoch."""
        self._elections[kind_of(partition).name] += 1

    def ended(self, partition: int) -> None:
        """Count a partition that is no longer led here."""
        self._resignations[kind_of(partition).name] += 1

    def status(self) -> dict[str, Any]:
        """Return the counters as plain values, by kind; any thread may call it."""
        return {ELECTIONS: dict(self._elections), RESIGNATIONS: dict(self._resignations)}
