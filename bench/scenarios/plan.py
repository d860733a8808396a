"""Expand a scenario into a plan: what each life of each member does, and when.

A plan is a pure function of the scenario: the same file gives the same plan, in real and in virtual
time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bench.scenarios.behaviours import (
    ONE_POD,
    Autoscale,
    Churn,
    Crash,
    Drain,
    Duplicate,
    Flap,
    Pause,
    PollTimeout,
    Restart,
    RollingDeploy,
    Scale,
)
from bench.scenarios.changes import PlannedChanges
from bench.scenarios.faults import word_of
from bench.scenarios.scenario import WorkloadKind
from bench.scenarios.workloads.autoscaler import Autoscaler
from bench.scenarios.workloads.drains import NodeDrains
from bench.scenarios.workloads.fleet import Fleet
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.scenarios.changes import PlannedChange
    from bench.scenarios.scenario import Group, Scenario
    from bench.scenarios.values import Amount, Protocol
    from bench.scenarios.workloads.pods import Pod

STEPS_MAX: Final = 2_000_000
CLOSED: Final = "the consumer is being closed"
"""The reason of Kafka's consumer when the application closes it (KIP-800)."""


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a member: from a start of its process to its end.

    ``name`` is that of its pod, and the instance id of a static member. ``number`` counts the lives
    of all pods of the group. ``protocol`` is given if it is not that of the group. ``is_slow``: it
    needs the group's ``revoke_time`` to give partitions up.
    """

    group: str
    name: str
    number: int
    protocol: Protocol | None = None
    rack: str | None = None
    is_slow: bool = True

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


@dataclass(frozen=True, slots=True)
class Start:
    """The process starts, and its member joins."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The process closes its member, and ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Vanish:
    """The process ends without a word."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """The process stands still."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """It goes on."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The member changes its subscription."""

    topics: tuple[str, ...]


MemberAction: TypeAlias = Start | Leave | Vanish | Freeze | Thaw | Subscribe


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One action of one life, ``due_ms`` after the start of the scenario."""

    due_ms: int
    life: Life
    action: MemberAction


@dataclass(frozen=True, slots=True)
class ScenarioPlan:
    """All steps in order. ``changed_ms`` is when the first change after the initial joins is due.

    ``marks`` are what to tell people, and when. ``changes`` has also what a behaviour repeats, and
    its end.
    """

    steps: tuple[PlanStep, ...]
    marks: tuple[tuple[int, str], ...]
    changed_ms: int
    changes: tuple[PlannedChange, ...] = ()


def expand(scenario: Scenario) -> ScenarioPlan:
    """Return the plan of a scenario; raises DrillError when it is too long."""
    return Planner(scenario).run()


Cause: TypeAlias = tuple[str, int]
"""A behaviour: its group, and its place among the group's."""


class Planner:
    """Makes the plan of a scenario, ``without`` one of the behaviours, and notes what each does."""

    def __init__(self, scenario: Scenario, without: Cause | None = None) -> None:
        self.scenario = scenario
        self.now = 0
        self.effective: set[Cause | None] = set()
        """The behaviours that have led to a step."""
        self.remarks: dict[Cause, str] = {}
        """Why some do nothing, if that is known."""
        self.shortages: dict[Cause, str] = {}
        """Which do less than they say, and how."""
        self._without = without
        self._cause: Cause | None = None
        self._steps: list[PlanStep] = []
        self._marks: list[tuple[int, str]] = []
        self._changes = PlannedChanges(len(scenario.groups))
        self._words: dict[Cause, str] = {}
        self._due: list[_Later] = []
        self._order = 0

    def run(self) -> ScenarioPlan:
        """Return the plan; raises DrillError when it is too long."""
        for group in self.scenario.groups:
            application = _Application(self, group)
            application.fleet.begin()
            for number, behaviour in enumerate(group.behaviours):
                rng = random.Random(f"{self.scenario.seed} {group.name} {number}")
                self._cause = group.name, number
                self._words[self._cause] = word_of(behaviour)
                if self._cause != self._without:
                    self.after(behaviour.at, self._begin, application, behaviour, rng)
            self._cause = None
        self._spread()
        while self._due and self._due[0][0] < self.scenario.duration:
            self.now, _, self._cause, action, arguments = heappop(self._due)
            action(*arguments)
        changes = [mark for mark, _ in self._marks]
        changes += [fault.at for fault in self.scenario.faults]
        return ScenarioPlan(
            steps=tuple(self._steps),
            marks=tuple(self._marks),
            changed_ms=min(changes, default=self.scenario.duration),
            changes=self._changes.all(),
        )

    def _spread(self) -> None:
        """Let the members that begin join one after the other, evenly over ``joins_over``."""
        over_ms, count = self.scenario.joins_over, len(self._steps)
        self._steps = [
            PlanStep(over_ms * number // count, step.life, step.action)
            for number, step in enumerate(self._steps)
        ]

    def _begin(self, application: _Application, behaviour: Any, rng: random.Random) -> None:
        self.mark(application.group, word_of(behaviour))
        BEHAVIOURS[type(behaviour)](application, behaviour, rng)

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do something later, of the same behaviour as what is done now."""
        self._order += 1
        due_ms = self.now + delay_ms
        heappush(self._due, (due_ms, self._order, self._cause, action, arguments))

    def mark(self, group: Group, text: str) -> None:
        """Note what to tell people."""
        self._marks.append((self.now, f"{group.name}: {text}"))
        self._note(group.name)

    def _note(self, group: str) -> None:
        if self._cause is not None:
            self._changes.note(self.now, group, self._words[self._cause])

    def remark(self, text: str) -> None:
        """Say why the behaviour that does something now has nothing to do."""
        if self._cause is not None:
            self.remarks.setdefault(self._cause, text)

    def is_short(self, text: str) -> None:
        """Say how the behaviour that does something now does less than it says."""
        if self._cause is not None:
            self.shortages.setdefault(self._cause, text)

    def step(self, life: Life, action: MemberAction) -> None:
        """Let a life of a member do something now."""
        self.effective.add(self._cause)
        if len(self._steps) == STEPS_MAX:
            raise DrillError(f"The scenario has more than {STEPS_MAX} steps: shorten it.")
        self._steps.append(PlanStep(self.now, life, action))
        self._note(life.group)


_Later: TypeAlias = "tuple[int, int, Cause | None, Callable[..., None], tuple[Any, ...]]"


class _Application:
    """One group while its part of the plan is made: its pods and the lives of their members."""

    def __init__(self, planner: Planner, group: Group) -> None:
        self.group = group
        self._planner = planner
        self._lives: dict[Pod, Life] = {}
        self._frozen: set[Pod] = set()
        self._first_names: dict[Pod, str] = {}
        self._protocols: dict[int, Protocol | None] = {}
        self._places: dict[Pod, int] = {}
        self._number = 0
        rng = random.Random(f"{planner.scenario.seed} {group.name}")
        self.fleet = Fleet(group, rng, self, planner.after)

    # --- what the processes of pods do

    def started(self, pod: Pod) -> None:
        self._lives[pod] = life = self._life(pod)
        self._planner.step(life, Start())

    def closed(self, pod: Pod) -> None:
        self._end(pod, Vanish() if pod in self._frozen else Leave(CLOSED))

    def killed(self, pod: Pod) -> None:
        self._end(pod, Vanish())

    def _end(self, pod: Pod, action: MemberAction) -> None:
        self._frozen.discard(pod)
        if pod in self._lives:
            self._planner.step(self._lives.pop(pod), action)

    def _life(self, pod: Pod) -> Life:
        self._number += 1
        racks = self.group.racks or (None,)
        place = self._places.setdefault(pod, len(self._places))
        protocol = self._protocols.get(pod.revision)
        return Life(
            group=self.group.name,
            name=pod.name,
            number=self._number,
            protocol=protocol,
            rack=racks[place % len(racks)],
            is_slow=self._is_slow(pod, place),
        )

    def _is_slow(self, pod: Pod, place: int) -> bool:
        """Whether it is among the first ``slow_pods`` of every ``replicas`` pods."""
        slow, replicas = self.group.slow_pods, self.group.replicas
        if self.group.workload is WorkloadKind.STATEFUL_SET:
            place = pod.ordinal
        return slow is None or place % replicas < slow.of(replicas, rounds_up=True)

    def _some(self, pods: Amount, rng: random.Random, rack: str | None = None) -> list[Pod]:
        """Draw pods with a member, of those on one rack or of all."""
        there = [
            pod
            for pod in self.fleet.running()
            if pod in self._lives and rack in (None, self._lives[pod].rack)
        ]
        count = pods.of(len(there), rounds_up=True)
        on = "" if rack is None else f" on rack {rack}"
        if not there:
            self._planner.remark(f"no pod{on} is running then")
        elif count > len(there):
            are = f"{len(there)}{on} {'is' if len(there) == 1 else 'are'}"
            self._planner.is_short(f"pods is {count}, and only {are} running then")
        return rng.sample(there, min(count, len(there)))

    # --- behaviours

    def rolling_deploy(self, told: RollingDeploy, _rng: random.Random) -> None:
        self._protocols[self.fleet.revision + 1] = told.protocol
        if not self.fleet.wanted:
            self._planner.remark("the group has no pods then")
        self.fleet.deploy()

    def scale(self, told: Scale, _rng: random.Random) -> None:
        if told.replicas == self.fleet.wanted:
            had = f"{told.replicas} pod{'' if told.replicas == 1 else 's'}"
            self._planner.remark(f"the group has {had} then")
        self.fleet.scale(told.replicas)

    def autoscale(self, told: Autoscale, _rng: random.Random) -> None:
        topics = self._planner.scenario.topics
        partitions = sum(topics[name].partitions for name in dict.fromkeys(self.group.topics))
        scaler = Autoscaler(told, partitions, self.fleet.wanted)
        self._planner.after(told.every, self._autoscale, told, scaler)

    def _autoscale(self, told: Autoscale, scaler: Autoscaler) -> None:
        """Set what an autoscaler wants; others may have changed the number since it last did."""
        scaler.replicas = before = self.fleet.wanted
        replicas = scaler.look(self._planner.now, len(self._lives) - len(self._frozen))
        if replicas != before:
            self._planner.mark(self.group, f"autoscale to {replicas}, lag {int(scaler.lag)}")
            self.fleet.scale(replicas)
        self._again(told, self._autoscale, scaler)

    def drain(self, told: Drain, _rng: random.Random) -> None:
        NodeDrains(told, self.fleet, self._planner.after).begin()

    def crash(self, told: Crash, rng: random.Random) -> None:
        for pod in self._some(told.pods, rng, told.rack):
            self.fleet.crash(pod, told.away)
            if told.renamed:
                name = self._first_names.setdefault(pod, pod.name)
                pod.name = f"{name}.{pod.start}"

    def restart(self, told: Restart, rng: random.Random) -> None:
        for number, pod in enumerate(self._some(told.pods, rng)):
            self._planner.after(number * told.every, self._restart, told, pod)

    def _restart(self, told: Restart, pod: Pod) -> None:
        self.fleet.crash(pod, told.away, closes=told.clean)

    def churn(self, told: Churn, rng: random.Random) -> None:
        for pod in self._some(ONE_POD, rng):
            self.fleet.evict(pod)
        self._again(told, self.churn, rng)

    def flap(self, told: Flap, rng: random.Random) -> None:
        pods = self._some(told.pods, rng)
        self._flap(told, pods, self.group.topics, told.topics)

    def _flap(
        self, told: Flap, pods: list[Pod], usual: tuple[str, ...], others: tuple[str, ...]
    ) -> None:
        is_over = told.until is not None and self._planner.now >= told.until
        action = Subscribe(self.group.topics if is_over else others)
        for pod in pods:
            if pod in self._lives and pod not in self._frozen:
                self._planner.step(self._lives[pod], action)
        if not is_over:
            self._planner.after(told.every, self._flap, told, pods, others, usual)

    def duplicate(self, told: Duplicate, rng: random.Random) -> None:
        for pod in self._some(told.pods, rng):
            zombie = self._life(pod)
            self._planner.step(zombie, Start())
            self._planner.after(told.lasts, self._planner.step, zombie, Vanish())

    def poll_timeout(self, told: PollTimeout, rng: random.Random) -> None:
        for pod in self._some(told.pods, rng):
            if pod not in self._frozen:
                self._end(pod, Leave(told.reason))
                self._planner.after(told.away, self._polls_again, pod, pod.start)

    def _polls_again(self, pod: Pod, start: int) -> None:
        if pod.runs and pod.start == start and pod not in self._lives:
            self.started(pod)

    def pause(self, told: Pause, rng: random.Random) -> None:
        for pod in self._some(told.pods, rng):
            if pod not in self._frozen:
                self._frozen.add(pod)
                self._planner.step(self._lives[pod], Freeze())
                self._planner.after(told.lasts, self._thaw_life, pod, self._lives[pod])

    def _thaw_life(self, pod: Pod, life: Life) -> None:
        if self._lives.get(pod) is life:
            self._thaw(pod)

    def _thaw(self, pod: Pod) -> None:
        if pod in self._frozen:
            self._frozen.discard(pod)
            self._planner.step(self._lives[pod], Thaw())

    def _again(self, told: Churn | Autoscale, action: Callable[..., None], *arguments: Any) -> None:
        if told.until is None or self._planner.now + told.every < told.until:
            self._planner.after(told.every, action, told, *arguments)


BEHAVIOURS: Final[Mapping[type, Callable[[Any, Any, random.Random], None]]] = {
    RollingDeploy: _Application.rolling_deploy,
    Scale: _Application.scale,
    Autoscale: _Application.autoscale,
    Drain: _Application.drain,
    Crash: _Application.crash,
    Restart: _Application.restart,
    Churn: _Application.churn,
    Flap: _Application.flap,
    Duplicate: _Application.duplicate,
    PollTimeout: _Application.poll_timeout,
    Pause: _Application.pause,
}
"""What each behaviour does to the pods of an application."""
