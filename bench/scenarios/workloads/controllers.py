"""What Kubernetes' controllers do next with the pods of one application.

A Deployment creates and deletes as many pods at once as ``maxSurge`` and ``maxUnavailable`` allow,
and does not wait for pods that are still stopping. A StatefulSet (``OrderedReady``) goes from pod
to pod: it creates the lowest missing one when those below are available, and replaces and deletes
from the highest on, waiting until each is gone.

They look again after each change of a pod. So each notes the changes, and looks at those pods only
that it creates or stops: a deploy of many pods takes about as much work for each as one of few.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from bench.scenarios.workloads.pods import PodState

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scenarios.scenario import Group
    from bench.scenarios.workloads.pods import Pod


class Hands(Protocol):
    """Who creates and stops pods, and tells the controller by ``note``."""

    def create(self, ordinal: int) -> None:
        """Create a pod of the newest revision."""

    def stop(self, pod: Pod) -> None:
        """Ask a pod to stop."""


class Deployment:
    """The controller of a Deployment: it knows the pods that nobody has told to stop."""

    def __init__(self, group: Group, hands: Hands) -> None:
        self.wanted = 0
        self.revision = 0
        self._group = group
        self._hands = hands
        self._created = 0
        self._available = 0
        self._new: dict[Pod, None] = {}
        """Those of this revision, as they were created."""
        self._old: dict[int, Pod] = {}
        """The others, by their serials."""
        self._old_idle: set[int] = set()
        """Those of them that are not available."""
        self._old_available: list[int] = []
        """A heap of those that are; some of its entries hold no longer."""

    def note(self, pod: Pod, before: PodState | None) -> None:
        """Note that a pod was created, or that it was in another state before."""
        self._available += (pod.state is PodState.AVAILABLE) - (before is PodState.AVAILABLE)
        if before is None:
            self._new[pod] = None
        elif not pod.is_kept:
            self._new.pop(pod, None)
            self._old.pop(pod.serial, None)
            self._old_idle.discard(pod.serial)
        elif pod.serial in self._old:
            self._note_old(pod)

    def _note_old(self, pod: Pod) -> None:
        if pod.state is PodState.AVAILABLE:
            self._old_idle.discard(pod.serial)
            heappush(self._old_available, pod.serial)
        else:
            self._old_idle.add(pod.serial)

    def deploy(self) -> None:
        """Want all pods to be of a new revision."""
        self.revision += 1
        for pod in self._new:
            self._old[pod.serial] = pod
            self._note_old(pod)
        self._new = {}

    def reconcile(self) -> None:
        """Do what is to be done now."""
        wanted, kept = self.wanted, len(self._old) + len(self._new)
        surge = self._group.surge(wanted) if self._old else 0
        for _ in range(min(wanted - len(self._new), wanted + surge - kept)):
            self._created += 1
            self._hands.create(self._created)
        surplus = max(len(self._new) - wanted, 0)
        for pod in reversed([*islice(reversed(self._new), surplus)]):  # the youngest
            self._hands.stop(pod)
        for pod in self._replaced():
            self._hands.stop(pod)

    def _replaced(self) -> list[Pod]:
        """Return the old pods that may stop now: without those that are needed, the eldest."""
        if not self._old:
            return []
        needed = max(self.wanted - self._group.unavailable(self.wanted), 0)
        found = set(self._old_idle)
        count = len(found) + max(self._available - needed, 0)
        while len(found) < count and self._old_available:
            serial = heappop(self._old_available)
            if serial in self._old and serial not in self._old_idle:
                found.add(serial)
        return [self._old[serial] for serial in sorted(found)]


class StatefulSet:
    """The controller of a StatefulSet: it knows all pods by their ordinals.

    Each heap has the ordinals of those in some state; some of its entries hold no longer.
    """

    def __init__(self, group: Group, hands: Hands) -> None:
        self.wanted = 0
        self.revision = 0
        self._group = group
        self._hands = hands
        self._pods: dict[int, Pod] = {}
        self._available = 0
        self._never = 0
        """From this ordinal on there was no pod yet."""
        self._unsettled: list[int] = []
        """Those that are starting, or missing after they were there."""
        self._stopping: list[int] = []
        self._last: list[int] = []
        """All that are there, from the highest on: negative."""
        self._last_stopping: list[int] = []
        self._last_old: list[int] = []

    def note(self, pod: Pod, before: PodState | None) -> None:
        """Note that a pod was created, or that it was in another state before."""
        self._available += (pod.state is PodState.AVAILABLE) - (before is PodState.AVAILABLE)
        if before is None:
            self._pods[pod.ordinal] = pod
            self._never = max(self._never, pod.ordinal + 1)
            heappush(self._last, -pod.ordinal)
        if pod.state is PodState.STOPPING:
            heappush(self._stopping, pod.ordinal)
            heappush(self._last_stopping, -pod.ordinal)
        elif pod.state is not PodState.AVAILABLE:
            heappush(self._unsettled, pod.ordinal)
        if pod.state is PodState.GONE:
            del self._pods[pod.ordinal]

    def deploy(self) -> None:
        """Want all pods to be of a new revision."""
        self.revision += 1
        self._last_old = sorted(-ordinal for ordinal in self._pods)

    def reconcile(self) -> None:
        """Do what is to be done now."""
        allowed = self._group.unavailable(self.wanted)
        lowest = _first(self._unsettled, self._is_unsettled, self._never)
        if allowed == 1:  # else others may go on while some are stopping
            lowest = min(lowest, _first(self._stopping, self._is_stopping, lowest))
        if lowest < self.wanted:
            if lowest not in self._pods:
                self._hands.create(lowest)
            return
        highest = -_first(self._last, self._is_there, 1)
        if highest >= self.wanted:
            if -_first(self._last_stopping, self._is_stopping, 1) < self.wanted:
                self._hands.stop(self._pods[highest])
            return
        self._replace(allowed)

    def _replace(self, allowed: int) -> None:
        """Stop old pods, from the highest on, as long as so many may be unavailable."""
        while len(self._pods) - self._available < allowed:
            highest = -_first(self._last_old, self._is_old, 1)
            if highest < 0:
                return
            self._hands.stop(self._pods[highest])

    def _is_there(self, ordinal: int) -> bool:
        return abs(ordinal) in self._pods

    def _is_stopping(self, ordinal: int) -> bool:
        pod = self._pods.get(abs(ordinal))
        return pod is not None and pod.state is PodState.STOPPING

    def _is_unsettled(self, ordinal: int) -> bool:
        pod = self._pods.get(ordinal)
        return pod is None or pod.state in (PodState.STARTING, PodState.READY)

    def _is_old(self, ordinal: int) -> bool:
        pod = self._pods.get(abs(ordinal))
        return pod is not None and pod.is_kept and pod.revision != self.revision


def _first(heap: list[int], holds: Callable[[int], bool], otherwise: int) -> int:
    """Return the first entry of a heap that still holds; those before it are removed."""
    while heap:
        if holds(heap[0]):
            return heap[0]
        heappop(heap)
    return otherwise
