"""The pods of one application, whose processes start, stop and crash.

What :mod:`bench.scenarios.workloads.controllers` decides is carried out here. Pure: time is an
argument, and what happens later is handed over with its delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from bench.scenarios.scenario import WorkloadKind
from bench.scenarios.workloads.controllers import Deployment, StatefulSet
from bench.scenarios.workloads.pods import Pod, PodState

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from bench.scenarios.scenario import Group

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of names that Kubernetes makes up."""
SUFFIX_LETTERS: Final = 5
READY: Final = (PodState.READY, PodState.AVAILABLE)


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
        self.pods: dict[Pod, None] = {}
        """In the order in which they were created."""
        self._group = group
        self._rng = rng
        self._events = events
        self._later = later
        self._serial = 0
        self._ready = 0
        self._suffix = self._letters()
        is_ordered = group.workload is WorkloadKind.STATEFUL_SET
        self._controller = (StatefulSet if is_ordered else Deployment)(group, self)

    # --- what people do

    def begin(self) -> None:
        """Have all pods, each available at once: the application ran before the scenario."""
        self._controller.wanted = self._group.replicas
        for ordinal in range(self._group.replicas):
            pod = self._new(ordinal)
            self._become(pod, PodState.AVAILABLE)
            self._run(pod)

    def deploy(self) -> None:
        """Roll out a new revision."""
        self._suffix = self._letters()
        self._controller.deploy()
        self._controller.reconcile()

    def scale(self, replicas: int) -> None:
        """Want another number of pods."""
        self._controller.wanted = replicas
        self._controller.reconcile()

    def evict(self, pod: Pod) -> None:
        """Stop a pod; another one takes its place."""
        if pod.is_kept:
            self.stop(pod)

    def crash(self, pod: Pod, away_ms: int, *, closes: bool = False) -> None:
        """End a pod's process, which may close its member first; it starts again in place."""
        if pod.is_kept and pod.runs:
            self._become(pod, PodState.STARTING)
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
        return self._controller.wanted

    @property
    def revision(self) -> int:
        """The number of the last revision that was rolled out."""
        return self._controller.revision

    def ready(self) -> int:
        """Return how many pods are ready, be they available or not yet."""
        return self._ready

    def running(self) -> list[Pod]:
        """Return the pods with a process that nobody has told to stop."""
        return [pod for pod in self.pods if pod.is_kept and pod.runs]

    # --- pods

    def _new(self, ordinal: int) -> Pod:
        if self._group.workload is WorkloadKind.STATEFUL_SET:
            name = f"{self._group.name}-{ordinal}"
        else:
            name = f"{self._group.name}-{self._suffix}-{self._letters()}"
        self._serial += 1
        pod = Pod(name, self.revision, ordinal, self._serial)
        self.pods[pod] = None
        self._controller.note(pod, None)
        return pod

    def _become(self, pod: Pod, state: PodState) -> None:
        before, pod.state = pod.state, state
        self._ready += (state in READY) - (before in READY)
        self._controller.note(pod, before)

    def _letters(self) -> str:
        return "".join(self._rng.choice(ALPHABET) for _ in range(SUFFIX_LETTERS))

    def create(self, ordinal: int) -> None:
        """Create a pod, whose process starts after a while."""
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
                self._become(pod, PodState.READY)

        def available() -> None:
            if is_current() and pod.runs:
                self._become(pod, PodState.AVAILABLE)
                self._controller.reconcile()

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

    def stop(self, pod: Pod) -> None:
        """Ask the process to stop; what takes longer than the grace period is killed."""
        self._become(pod, PodState.STOPPING)
        self._later(0, self._controller.reconcile)  # a Deployment replaces it at once
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
            self._controller.reconcile()

        self._later(min(self._group.stop_time, grace_ms), end)

    def _gone(self, pod: Pod) -> None:
        del self.pods[pod]
        self._become(pod, PodState.GONE)
