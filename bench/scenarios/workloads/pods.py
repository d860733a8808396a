"""One pod of an application, and the states that it goes through."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class PodState(Enum):
    """STARTING until it is ready, READY until it is available; STOPPING until it is GONE.

    A pod is ready when its readiness probe succeeds, and available when it has been ready for
    ``minReadySeconds``. Budgets of disruptions count ready pods, controllers available ones.
    """

    STARTING = auto()
    READY = auto()
    AVAILABLE = auto()
    STOPPING = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class Pod:
    """One pod. ``ordinal`` orders those of a StatefulSet; ``start`` counts its starts, from 0.

    ``serial`` numbers the pods of a fleet as they are created. ``runs``: it has a process, which is
    a member or about to become one.
    """

    name: str
    revision: int
    ordinal: int
    serial: int
    state: PodState = PodState.STARTING
    start: int = 0
    runs: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether nobody has told it to stop."""
        return self.state in (PodState.STARTING, PodState.READY, PodState.AVAILABLE)
