"""A streams group's hard state: its additions to that of all modern groups (KIP-1071).

Which processes hold a task, in whatever role, is counted as records arrive: a process never gets a
task while one of its members still has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from protocol.groups.effects import TaskMemberRow, TaskSettings
from protocol.groups.facts import MemberEventKind
from protocol.groups.modern.form import ROLE_SHIFT, TASKS
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember, ModernGroupState
from protocol.groups.modern.kind import ModernConfigs, ModernKind
from protocol.groups.streams.prepare import prepare
from protocol.groups.streams.records import CODEC, NOT_VALIDATED
from protocol.groups.streams.soft_state import StreamsSoftState
from protocol.groups.streams.task_numbers import SubtopologyNumbers, task_of
from protocol.groups.streams.warming.warmups import present_target
from protocol.groups.timers import TimerKind
from protocol.records import StreamsGroupTopologyKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kio.static.protocol import Entity

    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.groups.streams.topology import StreamsTopology
    from protocol.groups.topic_numbers import Partition, TopicNumbers
    from protocol.groups.topics import Topics
    from protocol.records import StreamsGroupMemberMetadataValue

KIND: Final = ModernKind(
    configs=ModernConfigs(
        session_timeout="streams.session.timeout.ms",
        heartbeat_interval="streams.heartbeat.interval.ms",
        assignment_interval="streams.assignment.interval.ms",
        offload="streams.assignor.offload.enable",
        assignors="group.streams.assignors",
        max_size="group.streams.max.size",
        unsettled_interval="group.streams.unsettled.heartbeat.interval.ms",
        assignor="streams.assignor.name",
    ),
    codec=CODEC,
    form=TASKS,
    own_group_timers=(TimerKind.TASK_INDEX,),
    every_change_bumps=True,
    change_event=MemberEventKind.UPDATED,
    prepare=prepare,
    refine=present_target,
    soft_state=StreamsSoftState,
)

NOT_READY: Final = "NotReady"
"""The state of a group with members whose topology cannot run yet."""


@dataclass(slots=True, eq=False)
class StreamsGroupMember(ModernGroupMember):
    """A member: one stream thread of a process."""

    metadata: StreamsGroupMemberMetadataValue

    def set_metadata(self, metadata: StreamsGroupMemberMetadataValue, subscription: object) -> None:
        """Store the metadata that the member sent."""
        ModernGroupMember.set_metadata(self, metadata, subscription)  # type: ignore[arg-type]
        tags = tuple((each.key, each.value) for each in metadata.client_tags)
        row = self.row
        self.row = TaskMemberRow(*row[:4], metadata.process_id, tags)  # type: ignore[assignment]

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member."""
        return self.metadata.instance_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long to wait for it to revoke tasks."""
        return self.metadata.rebalance_timeout_ms


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroup(ModernGroup[StreamsGroupMember]):
    """A group whose members run the tasks of one topology.

    ``topology``: None until its record is read. ``validated_topology_epoch``: the epoch of the
    topology whose topics were all right at the group's epoch. ``last_assignment_configs``: those of
    the group's epoch. ``numbers`` are the subtopologies' numbers. ``process_tasks`` counts the
    holders of a task, in whatever role, per process.

    A leader keeps what it derives from topics and configs here, for the group's next epoch:
    ``configured`` (of ``configured_of``), ``assignment_configs``, ``settings``.
    """

    type_name: ClassVar[str] = "streams"
    kind: ClassVar[ModernKind] = KIND
    member_class: ClassVar[type[StreamsGroupMember]] = StreamsGroupMember

    topology: StreamsTopology | None = None
    validated_topology_epoch: int = NOT_VALIDATED
    last_assignment_configs: dict[str, str] = field(default_factory=dict)
    numbers: SubtopologyNumbers = field(default_factory=SubtopologyNumbers)
    process_tasks: dict[tuple[str, Partition], int] = field(default_factory=dict)
    configured: ConfiguredTopology | None = None
    configured_of: tuple[StreamsTopology, Topics] | None = None
    assignment_configs: dict[str, str] = field(default_factory=dict)
    settings: TaskSettings = field(default_factory=TaskSettings)

    @property
    def state(self) -> str:
        """The group's state in StreamsGroupDescribe and ListGroups."""
        topology = self.topology
        if self.members and (topology is None or topology.epoch != self.validated_topology_epoch):
            return NOT_READY
        if not self.members:
            return ModernGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ModernGroupState.ASSIGNING
        if self.settled[self.assignment_epoch] < len(self.members):
            return ModernGroupState.RECONCILING
        return ModernGroupState.STABLE

    # --- what all modern groups ask

    def subscribed(self, _metadata: StreamsGroupMemberMetadataValue) -> tuple[Iterable[str], str]:
        """Return no names: the topology's topics are the group's."""
        return (), ""

    def own_topics(self) -> Iterable[str]:
        """Return the topics of the topology."""
        return () if self.topology is None else self.topology.required

    def own_keys(self, group_id: str) -> Iterable[Entity]:
        """Return the key of the topology."""
        return (StreamsGroupTopologyKey(group_id),)

    def own_values(self) -> tuple[Any, ...]:
        """Return the topology, what was validated, and the configs of the epoch."""
        topology = self.topology
        subtopologies = None if topology is None else dict(topology.subtopologies)
        epoch = None if topology is None else topology.epoch
        return epoch, subtopologies, self.validated_topology_epoch, self.last_assignment_configs

    def unit_numbers(self, _topics: TopicNumbers) -> SubtopologyNumbers:
        """Return the numbers of the group's subtopologies."""
        return self.numbers

    def task_settings(self) -> TaskSettings:
        """Return what a run of a task assignor needs."""
        return self.settings

    def is_free(self, member: StreamsGroupMember) -> Callable[[Partition], bool]:
        """Return a function that says whether a member may have a task in a role.

        No other member may be active for an active task; and no other member of the process may
        have the task at all.
        """
        holders, member_id, process = self.holders, member.member_id, member.metadata.process_id
        held = self.process_tasks
        own = list(map(task_of, (*member.assignment.assigned, *member.assignment.revoking)))

        def is_free(place: Partition) -> bool:
            if holders.get(place, member_id) != member_id:
                return False
            count = held.get((process, task_of(place)), 0)
            return not count or count <= own.count(task_of(place))

        return is_free

    # --- for replays

    def put_topology(self, topology: StreamsTopology | None) -> None:
        """Store the topology; None: the group is being deleted."""
        before = self.topology
        self.topology = topology
        if topology is not None:
            self.count_topics(sorted(topology.required), 1)
        if before is not None:
            self.count_topics(sorted(before.required), -1)

    def put_assignment(self, member: StreamsGroupMember, assignment: MemberAssignment) -> None:
        """Store a member's current assignment; only active tasks have epochs."""
        before = member.assignment
        assignment = _without_epochs(assignment)
        process = member.metadata.process_id
        is_same = before.assigned is assignment.assigned and not before.revoking
        if not is_same or assignment.revoking:
            self._hold(process, before, -1)
            self._hold(process, assignment, 1)
        ModernGroup.put_assignment(self, member, assignment)

    def count(self, member: StreamsGroupMember, step: int) -> None:
        """Count what a member holds for its process, which may change with its record."""
        self._hold(member.metadata.process_id, member.assignment, step)

    def _hold(self, process: str, assignment: MemberAssignment, step: int) -> None:
        held = self.process_tasks
        for place in (*assignment.assigned, *assignment.revoking):
            key = (process, task_of(place))
            count = held.get(key, 0) + step
            if count:
                held[key] = count
            else:
                del held[key]


def streams_group_of(runtime: ModernGroupRuntime) -> StreamsGroup:
    """Return the streams group that this runtime state belongs to."""
    group = runtime.group
    assert isinstance(group, StreamsGroup)
    return group


def _without_epochs(assignment: MemberAssignment) -> MemberAssignment:
    """Drop the epochs of standby and warm-up tasks, which records do not have."""
    is_plain = not any(
        epoch and place >> ROLE_SHIFT
        for places in (assignment.assigned, assignment.revoking)
        for place, epoch in places.items()
    )
    if is_plain:
        return assignment
    assigned, revoking = (
        {place: 0 if place >> ROLE_SHIFT else epoch for place, epoch in places.items()}
        for places in (assignment.assigned, assignment.revoking)
    )
    return replace(assignment, assigned=assigned, revoking=revoking)
