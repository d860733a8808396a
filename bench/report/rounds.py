"""Rounds of a benchmark: each server in turn, repeatedly, and the median of each figure.

The servers run side by side and are measured in turns, so that other activity on the machine
affects all of them alike.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bench.report.progress import turns
from failover.percentiles import percentiles

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from bench.servers.server import Server

Figures: TypeAlias = dict[str, float]
"""Figures by name; the unit is the name's last word, as in ``p99_ms`` and ``requests_per_s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """One case on one server: every round's figures."""

    case: str
    server: str
    rounds: tuple[Figures, ...]

    def median(self) -> Figures:
        """Return the median of each figure over the rounds."""
        return {
            name: statistics.median(figures[name] for figures in self.rounds)
            for name in self.rounds[0]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """How much to measure: rounds for each server, and how long a timed round lasts.

    ``members``, ``records`` and ``kills`` are for benchmarks that kill nodes: how many members
    (None: the benchmark's own number), committed offsets, and kills measured by the prober.
    ``partitions`` is how many each topic of the storm has (None: the benchmark's own number).
    """

    rounds: int = 5
    seconds: float = 5.0
    members: int | None = None
    records: int = 1_000_000
    kills: int = 5
    partitions: int | None = None


def run_rounds(
    case: str, servers: Sequence[Server], rounds: int, turn: Callable[[Server], Figures]
) -> list[BenchRow]:
    """Run ``turn`` ``rounds`` times on each server, alternating."""
    measured: dict[str, list[Figures]] = {server.name: [] for server in servers}
    with turns(case, rounds * len(servers)) as begin:
        for server in [*servers] * rounds:
            begin(server.name)
            gc.collect()
            gc.disable()
            try:
                measured[server.name].append(turn(server))
            finally:
                gc.enable()
    return [
        BenchRow(case=case, server=name, rounds=tuple(figures))
        for name, figures in measured.items()
    ]


def compared(
    rows: Sequence[BenchRow],
    what: str,
    difference: Callable[[Figures, Figures], Figures],
) -> list[BenchRow]:
    """Return the rows of one case of ours, each round with its difference from the first row's.

    What they differ in, their names as servers, goes into their cases.
    """
    return [
        BenchRow(
            case=f"{row.case}, {what}: {row.server}",
            server="rollcall",
            rounds=tuple(
                {**mine, **difference(mine, first)}
                for mine, first in zip(row.rounds, rows[0].rounds, strict=True)
            ),
        )
        for row in rows
    ]


class Meter:
    """Time and CPU time of a server and of the generator, from its creation until it is read."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._beside = server.cpu_seconds_beside()
        self._own = time.process_time()
        self._cpu = server.cpu_seconds()
        self._begun = time.perf_counter()

    def read(self, requests: int) -> Figures:
        """Return the figures for ``requests`` answered meanwhile."""
        seconds = time.perf_counter() - self._begun
        cpu = self._server.cpu_seconds() - self._cpu
        return {
            "requests": float(requests),
            "seconds_s": seconds,
            "requests_per_s": requests / seconds,
            "server_cpu_s": cpu,
            "requests_per_server_cpu_s": requests / cpu if cpu else float("nan"),
            "beside_cpu_s": self._server.cpu_seconds_beside() - self._beside,
            "generator_cpu_s": time.process_time() - self._own,
        }


def latencies(seconds: array[float]) -> Figures:
    """Return the percentiles of latencies given in seconds."""
    p50, p99, longest = percentiles(seconds, (0.5, 0.99, 1.0))
    return {"p50_ms": p50 * 1000, "p99_ms": p99 * 1000, "max_ms": longest * 1000}
