"""What differs by type of group where assignors are timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bench.report.rounds import Figures
    from protocol.assignors.spec import Int32s

Spec = TypeVar("Spec")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorKind(Generic[Spec, Given]):
    """How groups of one type are made, assigned and judged.

    ``shapes``: their names, and what they are. ``group``: a group of a shape, with so many members,
    topics (or subtopologies), and partitions (or tasks) of each, that owns nothing yet.
    ``without_last``: the group without its last member. ``owning``: the group with an assignment as
    its previous one. ``run``: our assignor of a name. ``to_kafka``, ``from_kafka``: the arrays that
    the Java class of this type reads and writes. ``topics``, ``partitions``: how many a group has
    unless asked. ``has_worker``: whether the way through a worker
    process is timed too.
    """

    shapes: Mapping[str, str]
    group: Callable[[str, int, int, int], Spec]
    without_last: Callable[[Spec], Spec]
    owning: Callable[[Spec, Given], Spec]
    run: Callable[[str, Spec], Given]
    quality: Callable[[Spec, Given], Figures]
    to_kafka: Callable[[Spec], list[Int32s]]
    from_kafka: Callable[[Sequence[Int32s]], Given]
    topics: int = 1000
    partitions: int = 50
    has_worker: bool = False


def balance(alike: Int32s, load: NDArray[np.integer[Any]]) -> Figures:
    """Measure how evenly members are loaded; ``alike``: members with the same number compare."""
    spread = max((int(np.ptp(load[alike == each])) for each in np.unique(alike)), default=0)
    return {"spread": spread, "sum_of_squares": int(np.sum(load.astype(np.int64) ** 2))}
