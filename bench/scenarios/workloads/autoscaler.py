"""How many pods an autoscaler wants, from the lag of their group: KEDA, and Kubernetes' HPA below.

A model in plain numbers: records arrive at a given rate, each running member processes a given
number a second, and the rest is lag. KEDA's Kafka scaler wants the lag divided by ``lagThreshold``,
rounded up, but no more pods than partitions. The HPA carries that out: it ignores a difference of
up to a tenth, and scales down only to the most that was wanted within its stabilization window.
KEDA alone scales to and from 0, down once there was no lag for ``cooldownPeriod``. Pure.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.scenarios.behaviours import Autoscale

TOLERANCE: Final = Fraction(1, 10)
"""The HPA leaves a difference of this share as it is."""


class Autoscaler:
    """The state of one autoscaler: the lag, and what it wanted lately."""

    def __init__(self, told: Autoscale, partitions: int, replicas: int) -> None:
        self.lag = Fraction(0)
        self._told = told
        self._most = min(told.max_replicas, partitions)
        self._wanted: deque[tuple[int, int]] = deque()
        """What was wanted lately, and when; without what is less than something later."""
        self._lagged_ms: int = told.at
        self.replicas = replicas

    def look(self, now_ms: int, running: int) -> int:
        """Let ``every`` pass with so many running members; return how many pods to have then."""
        self._pass(now_ms, running)
        if self.lag:
            self._lagged_ms = now_ms
        if not self.replicas:
            self.replicas = max(self._told.min_replicas, 1) if self.lag else 0
        elif self._may_end(now_ms):
            self.replicas = 0
        else:
            self.replicas = self._stable(now_ms)
        return self.replicas

    def _pass(self, now_ms: int, running: int) -> None:
        told = self._told
        rate = next((each.per_second for each in reversed(told.arrivals) if each.at < now_ms), 0)
        seconds = Fraction(told.every, 1000)
        more = (rate - running * told.pod_per_second) * seconds
        self.lag = max(self.lag + more, Fraction(0))

    def _may_end(self, now_ms: int) -> bool:
        since_ms = now_ms - self._lagged_ms
        return not self._told.min_replicas and since_ms >= self._told.cooldown_seconds * 1000

    def _stable(self, now_ms: int) -> int:
        """Return the number that the HPA sets: up at once, down to the most of its window."""
        wanted = -(-self.lag // self._told.lag_threshold)
        usage = self.lag / (self._told.lag_threshold * self.replicas)
        if abs(usage - 1) <= TOLERANCE:
            wanted = self.replicas
        wanted = max(min(int(wanted), self._most), self._told.min_replicas, 1)
        while self._wanted and self._wanted[-1][1] <= wanted:
            self._wanted.pop()
        self._wanted.append((now_ms, wanted))
        begins_ms = now_ms - self._told.stabilization_seconds * 1000
        while self._wanted[0][0] < begins_ms:
            self._wanted.popleft()
        most = self._wanted[0][1]
        return wanted if wanted > self.replicas else min(most, self.replicas)
