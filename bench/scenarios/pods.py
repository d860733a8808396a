"""The pods of one application, replaced and scaled as Kubernetes' controllers do it.

A Deployment creates and deletes as many pods at once as ``maxSurge`` and ``maxUnavailable`` allow,
and does not wait for pods that are still stopping. A StatefulSet (``OrderedReady``) goes from pod
to pod: it creates the lowest missing one when those below are available, and replaces and deletes
from the highest on, waiting until each is gone. Pure: time is an argument, and what happens later
is handed over with its delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from bench.scenarios.scenario import WorkloadKind

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from bench.scenarios.scenario import Group

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of names that Kubernetes makes up."""
SUFFIX_LETTERS: Final = 5


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

    ``runs``: it has a process, which is a member or about to become one.
    """

    name: str
    revision: int
    ordinal: int
    state: PodState = PodState.STARTING
    start: int = 0
    runs: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether nobody has told it to stop."""
        return self.state in (PodState.STARTING, PodState.READY, PodState.AVAILABLE)


class Events(Protocol):
    """Who is told what the pods' processes do."""

    def started(self, pod: Pod) -> None:
        """Note that a process of the pod starts as a member."""

    def closed(self, pod: Pod) -> None:
        """Note that the process closes its member."""

    def killed(self, pod: Pod) -> None:
        """Note that the process ends without a word."""


class Fleet:
    """All pods of one group.

    ``later(delay_ms, action)`` calls something later; ``rng`` draws names.
    """

    def __init__(
        self,
        group: Group,
        rng: random.Random,
        events: Events,
        later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self.pods: list[Pod] = []
        self._group = group
        self._rng = rng
        self._events = events
        self._later = later
        self._wanted = 0
        self.revision = 0
        self._number = 0
        self._suffix = self._letters()

    # --- what people do

    def begin(self) -> None:
        """Have all pods, each available at once: the application ran before the scenario."""
        self._wanted = self._group.replicas
        for ordinal in range(self._wanted):
            pod = self._new(ordinal)
            pod.state = PodState.AVAILABLE
            self._run(pod)

    def deploy(self) -> None:
        """Roll out a new revision."""
        self.revision += 1
        self._suffix = self._letters()
        self._reconcile()

    def scale(self, replicas: int) -> None:
        """Want another number of pods."""
        self._wanted = replicas
        self._reconcile()

    def evict(self, pod: Pod) -> None:
        """Stop a pod; another one takes its place."""
        if pod.is_kept:
            self._stop(pod)

    def crash(self, pod: Pod, away_ms: int, *, closes: bool = False) -> None:
        """End a pod's process, which may close its member first; it starts again in place."""
        if pod.is_kept and pod.runs:
            pod.state = PodState.STARTING
            if closes:
                self._close(pod)
            else:
                self._kill(pod)
            self.restart(pod, away_ms)

    def restart(self, pod: Pod, away_ms: int) -> None:
        """Start another process in a pod whose process has ended."""
        self._start(pod, away_ms)

    @property
    def wanted(self) -> int:
        """The number of pods that there are to be."""
        return self._wanted

    def ready(self) -> int:
        """Return how many pods are ready, be they available or not yet."""
        return sum(pod.state in (PodState.READY, PodState.AVAILABLE) for pod in self.pods)

    def running(self) -> list[Pod]:
        """Return the pods with a process that nobody has told to stop."""
        return [pod for pod in self.pods if pod.is_kept and pod.runs]

    # --- pods

    def _new(self, ordinal: int) -> Pod:
        if self._group.workload is WorkloadKind.STATEFUL_SET:
            name = f"{self._group.name}-{ordinal}"
        else:
            name = f"{self._group.name}-{self._suffix}-{self._letters()}"
        pod = Pod(name, self.revision, ordinal)
        self.pods.append(pod)
        return pod

    def _letters(self) -> str:
        return "".join(self._rng.choice(ALPHABET) for _ in range(SUFFIX_LETTERS))

    def _create(self, ordinal: int) -> None:
        self._start(self._new(ordinal), self._group.start_time)

    def _start(self, pod: Pod, delay_ms: int) -> None:
        pod.start += 1
        start = pod.start

        def is_current() -> bool:
            return pod.is_kept and pod.start == start

        def run() -> None:
            if is_current():
                self._run(pod)
                ready_ms = self._group.ready_time
                self._later(ready_ms, ready)
                self._later(ready_ms + self._group.min_ready_seconds * 1000, available)

        def ready() -> None:
            if is_current() and pod.runs:
                pod.state = PodState.READY

        def available() -> None:
            if is_current() and pod.runs:
                pod.state = PodState.AVAILABLE
                self._reconcile()

        self._later(delay_ms, run)

    def _run(self, pod: Pod) -> None:
        pod.runs = True
        self._events.started(pod)

    def _close(self, pod: Pod) -> None:
        pod.runs = False
        self._events.closed(pod)

    def _kill(self, pod: Pod) -> None:
        pod.runs = False
        self._events.killed(pod)

    def _stop(self, pod: Pod) -> None:
        """Ask the process to stop; what takes longer than the grace period is killed."""
        pod.state = PodState.STOPPING
        self._later(0, self._reconcile)  # a Deployment replaces it at once
        if not pod.runs:
            self._gone(pod)
            return
        grace_ms = self._group.termination_grace_seconds * 1000

        def end() -> None:
            if self._group.stop_time <= grace_ms:
                self._close(pod)
            else:
                self._kill(pod)
            self._gone(pod)
            self._reconcile()

        self._later(min(self._group.stop_time, grace_ms), end)

    def _gone(self, pod: Pod) -> None:
        pod.state = PodState.GONE
        self.pods.remove(pod)

    # --- controllers

    def _reconcile(self) -> None:
        if self._group.workload is WorkloadKind.STATEFUL_SET:
            self._reconcile_in_order()
        else:
            self._reconcile_at_once()

    def _reconcile_at_once(self) -> None:
        """Do what the controller of a Deployment does next."""
        wanted = self._wanted
        kept = [pod for pod in self.pods if pod.is_kept]
        old = [pod for pod in kept if pod.revision != self.revision]
        new = [pod for pod in kept if pod.revision == self.revision]
        surge = self._group.surge(wanted) if old else 0
        for _ in range(min(wanted - len(new), wanted + surge - len(kept))):
            self._number += 1
            self._create(self._number)
            kept.append(self.pods[-1])
        for pod in new[wanted:]:  # the youngest
            self._stop(pod)
            kept.remove(pod)
        if not old:
            return
        available = sum(pod.state is PodState.AVAILABLE for pod in kept)
        needed = max(wanted - self._group.unavailable(wanted), 0)
        for pod in old:
            if pod.state is PodState.AVAILABLE:
                if available <= needed:
                    continue
                available -= 1
            self._stop(pod)

    def _reconcile_in_order(self) -> None:
        """Do what the controller of a StatefulSet does next."""
        by_ordinal = {pod.ordinal: pod for pod in self.pods}
        for ordinal in range(self._wanted):
            if ordinal not in by_ordinal:
                self._create(ordinal)
                return
            if by_ordinal[ordinal].state is not PodState.AVAILABLE and not self._replaces(ordinal):
                return
        extra = [pod for pod in self.pods if pod.ordinal >= self._wanted]
        if extra:
            highest = max(extra, key=lambda pod: pod.ordinal)
            if all(pod.is_kept for pod in extra):
                self._stop(highest)
            return
        allowed = self._group.unavailable(self._wanted)
        missing = sum(pod.state is not PodState.AVAILABLE for pod in self.pods)
        for pod in sorted(self.pods, key=lambda pod: -pod.ordinal):
            if pod.revision != self.revision and pod.is_kept and missing < allowed:
                missing += pod.state is PodState.AVAILABLE
                self._stop(pod)

    def _replaces(self, ordinal: int) -> bool:
        """Whether the pod is stopping within what may be unavailable: others may go on."""
        pod = next(each for each in self.pods if each.ordinal == ordinal)
        return pod.state is PodState.STOPPING and self._group.unavailable(self._wanted) > 1
