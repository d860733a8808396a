"""The members of a scenario: their settings, and what of them is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bench.load.live import SETTINGS, story_of
from bench.scenarios.record import LifeRecord
from bench.scenarios.values import Protocol
from protocol.config import Configs
from protocol.members.assignors import ClassicAssignor
from protocol.members.classic import MemberConfig
from protocol.members.share import ShareMemberConfig
from protocol.members.streams import StreamsMemberConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.scenarios.plan import Life
    from bench.scenarios.scenario import Group, Scenario
    from protocol.members.history import MemberHistoryEvent
    from protocol.members.kinds import AnyConfig, Member
    from protocol.wire.embedded import TopicPartition

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000


def settings_of(group: Group, life: Life, group_id: str) -> AnyConfig:
    """Return the settings of a life of a member, in the group ``group_id`` of the cluster."""
    classic = MemberConfig(
        group_id=group_id,
        topics=group.topics,
        client_id=life.name,
        instance_id=life.name if group.static else None,
        assignor=group.assignor or ClassicAssignor.RANGE,
        session_timeout_ms=group.session_timeout_ms or SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=group.heartbeat_interval_ms or HEARTBEAT_INTERVAL_MS,
        rebalance_timeout_ms=group.rebalance_timeout_ms,
        revocation_ms=group.revoke_time if life.is_slow else 0,
    )
    made = SETTINGS[life.protocol or group.protocol](classic)
    if isinstance(made, MemberConfig):
        return made
    made = replace(made, heartbeat_interval_ms=None, rack_id=life.rack)  # as the coordinator wants
    if isinstance(made, ShareMemberConfig):
        return made
    made = replace(made, revocation_ms=classic.revocation_ms)
    if isinstance(made, StreamsMemberConfig) and group.static:
        # Its state is on a volume of its own, and the id of its process with it.
        return replace(made, instance_id=life.name, process_id=life.name)
    return made


def session_timeouts(scenario: Scenario) -> dict[tuple[str, Protocol | None], int]:
    """Return after how long without a heartbeat a member may be expelled, by group and protocol.

    None is the group's own protocol. A member of another type than classic that does not revoke its
    partitions in its rebalance timeout may be expelled, too.
    """
    configs, found = Configs(scenario.configs), {}
    for group in scenario.groups:
        for protocol in (None, *Protocol):
            own = protocol or group.protocol
            if own is Protocol.CLASSIC:
                timeout_ms = group.session_timeout_ms or SESSION_TIMEOUT_MS
            else:
                session_ms = configs.integer(f"group.{own}.session.timeout.ms")
                timeout_ms = min(session_ms, group.rebalance_timeout_ms)
            found[group.name, protocol] = timeout_ms
    return found


@dataclass(slots=True)
class LifeTimes:
    """When a life began, ended (None: it lives on) and changed its subscription."""

    started_ms: int
    ended_ms: int | None = None
    subscribed_ms: list[int] = field(default_factory=list)


def life_record(life: Life, member: Member, times: LifeTimes, seen_ms: int | None) -> LifeRecord:
    """Record a life; ``seen_ms`` is now, or None if its member is not there any more."""
    timeline = story_of(member, seen_ms)
    return LifeRecord(
        life=life,
        started_ms=times.started_ms,
        ended_ms=times.ended_ms,
        subscribed_ms=tuple(times.subscribed_ms),
        timeline=replace(
            timeline,
            group_id=life.group,
            name=life.name,
            holds=() if seen_ms is None else timeline.holds,
        ),
    )


def has_unowned(
    scenario: Scenario, present: Iterable[tuple[Life, Sequence[TopicPartition]]]
) -> bool:
    """Whether a group has members, which own these partitions, and a partition without an owner."""
    held: dict[str, set[TopicPartition]] = {}
    for life, partitions in present:
        held.setdefault(life.group, set()).update(partitions)
    wanted = scenario.partitions_by_group()
    return any(not owned.issuperset(wanted[group]) for group, owned in held.items())


class ClusterNames:
    """The names of a scenario's groups and topics in a cluster: they begin with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def of(self, name: str) -> str:
        """Return a name in the cluster."""
        return f"{self.prefix}{name}"

    def all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return several names in the cluster."""
        return tuple(map(self.of, names))

    def back(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return partitions under their names in the scenario."""
        return tuple((topic.removeprefix(self.prefix), index) for topic, index in partitions)

    def recorded(self, record: LifeRecord) -> LifeRecord:
        """Return a record under the names in the scenario."""
        if not self.prefix:
            return record
        timeline = record.timeline
        return replace(
            record,
            timeline=replace(
                timeline,
                events=tuple(map(self._event, timeline.events)),
                holds=self.back(timeline.holds),
                open_commits=[
                    dict(zip(self.back(each), each.values(), strict=True))
                    for each in timeline.open_commits
                ],
            ),
        )

    def _event(self, event: MemberHistoryEvent) -> MemberHistoryEvent:
        offsets = tuple(
            (topic.removeprefix(self.prefix), index, offset)
            for topic, index, offset in event.offsets
        )
        return replace(event, partitions=self.back(event.partitions), offsets=offsets)
