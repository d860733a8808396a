"""Simulated members: the client members that are shipped, over simulated connections.

A *seat* is one member's place in the world: its group and, when static, its instance id. The member
on a seat changes: members restart, crash, leave and return, and static ones are duplicated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.simulation.clients import modern_members as modern_clients
from failover.simulation.kinds import STREAMS, is_modern
from failover.simulation.nodes.connection import SimulatedConnection
from protocol.members.classic import MemberConfig
from protocol.members.client import State
from protocol.members.kinds import TopicMetadata, kind_of, member_of

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.network import Network
    from failover.simulation.nodes.process import Process
    from failover.simulation.settings import Settings
    from failover.simulation.world import World
    from protocol.members.client import Outgoing
    from protocol.members.history import MemberHistoryEvent
    from protocol.members.kinds import AnyConfig, Member


LONGER: Final = 5
"""How much longer static members of streams groups are away: others join and leave meanwhile."""


class SimulatedMember:
    """Runs one life of one member: polls it, sends its requests, wakes it in time."""

    def __init__(
        self, cluster: Clients, name: str, config: AnyConfig, commit_interval_ms: int
    ) -> None:
        self.name = name
        topics = TopicMetadata(partitions_of=cluster.partitions_of, names=cluster.topic_names)
        self.member: Member = member_of(config, cluster.rng, topics)
        self._commit_interval_ms = commit_interval_ms
        self._commits = kind_of(config).commits
        self.is_gone = False
        self._cluster = cluster
        self._world = cluster.world
        self._connection: SimulatedConnection | None = None
        self._woken_at = -1
        self._last_asked = -1  # the node that could not help: ask another one next
        self._told = 0
        self._commit_at = 0
        self._is_frozen = False
        self._unread: list[tuple[Any, ...]] = []  # one answer at most, and the end after it

    def start(self) -> None:
        """Start the member."""
        self._world.tell(self.member.config.group_id, f"{self.name} starts")
        self._poll()

    def vanish(self) -> None:
        """End without a request, as a crashed client does."""
        self.is_gone = True
        if self._connection is not None:
            self._connection.abandon()

    def leave(self, reason: str = "the simulation says so") -> None:
        """Leave the group (dynamic), or stop (static)."""
        self.member.leave(reason)
        self._poll()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics."""
        self.member.subscribe(topics)
        self._poll()

    def freeze(self) -> None:
        """Stand still: send nothing, and read nothing."""
        self._is_frozen = True

    def thaw(self) -> None:
        """Go on; what arrived meanwhile waits in the socket."""
        self._is_frozen = False
        unread, self._unread = self._unread, []
        for take, *arguments in unread:
            take(*arguments)
        if not self.is_gone:
            self._poll()

    def commit(self) -> None:
        """Commit at once, if the member is in its group and owns a partition."""
        if not self.is_gone:
            self._commit_at = self._world.client_now
            self._poll()

    # --- input from a connection

    def answered(self, token: Outgoing, response: Entity) -> None:
        """Take an answer."""
        if self._is_frozen:
            self._unread.append((self.answered, token, response))
        elif not self.is_gone:
            self.member.receive(token, response, self._world.client_now)
            self._poll()

    def disconnected(self, connection: SimulatedConnection) -> None:
        """Note that a connection is gone, and its answer with it."""
        if self._is_frozen:
            self._unread.append((self.disconnected, connection))
            return
        if self._connection is connection:
            self._connection = None
        if self._world.settings.shuns_broken:
            self._last_asked = connection.process.node_id
        if not self.is_gone:
            if connection.awaiting is not None:
                self.member.lost(connection.awaiting, self._world.client_now)
            self._poll()

    # --- the member's actions

    def _poll(self) -> None:
        member, now = self.member, self._world.client_now
        if (
            self._commit_interval_ms
            and self._commits
            and self._cluster.commits
            and now >= self._commit_at
            and member.state is State.STABLE
            and member.partitions
        ):
            interval_ms = self._commit_interval_ms
            if self._commit_at:
                at = self._cluster.rng.choice(member.partitions)
                member.commit({at: self._cluster.values.draw()})
            self._commit_at = now + int(interval_ms * (0.5 + self._cluster.rng.random()))
        for outgoing in member.poll(now):
            self._send(outgoing)
        if self._told < len(member.history):
            self._tell()
        if member.is_done:
            self.is_gone = True
            if self._connection is not None:
                self._connection.abandon()
            self._cluster.done(self)
            return
        self._wake_at(member.next_deadline(), now)

    def _send(self, outgoing: Outgoing) -> None:
        to = outgoing.to
        connection = self._connection
        if connection is None or connection.awaiting is not None:
            connection = None  # no request there was ever answered: the next one will not be either
        elif to is None or connection.process.node_id != to.node_id:
            connection = None
        if connection is None:
            if self._connection is not None:
                self._last_asked = self._connection.process.node_id
                self._connection.abandon()
            node_id = self._cluster.any_node(self._last_asked) if to is None else to.node_id
            connection = self._connection = self._cluster.connect(self, node_id)
        connection.send(outgoing, outgoing.message)

    def _wake_at(self, deadline_ms: int | None, now: int) -> None:
        if deadline_ms is None:
            return
        member = self.member
        if (
            self._commit_at
            and self._cluster.commits
            and member.state is State.STABLE
            and member.partitions
        ):
            deadline_ms = min(deadline_ms, max(self._commit_at, now + 1))
        if self._woken_at <= now or deadline_ms < self._woken_at:
            self._woken_at = max(deadline_ms, now + 1)
            self._world.after(self._woken_at - now, self._wake, self._woken_at)

    def _wake(self, woken_at: int) -> None:
        if self.is_gone or woken_at != self._woken_at or self._is_frozen:
            return
        self._woken_at = -1
        self._poll()

    def _tell(self) -> None:
        member, world = self.member, self._world
        if world.tells:
            for event in member.history[self._told :]:
                world.tell(member.config.group_id, f"{self.name} {_line(event)}")
        if self._cluster.drivers is None:
            member.history.clear()
        self._told = len(member.history)


class MemberSpec:
    """A place for a member; ``driver`` runs its current one.

    ``other`` are the settings of a member of the other protocol, where there may be one. Its
    members commit every ``commit_interval_ms``, 0: never; None: as the simulation's settings say.
    """

    def __init__(
        self,
        config: AnyConfig,
        other: AnyConfig | None = None,
        commit_interval_ms: int | None = None,
    ) -> None:
        self.config = config
        self.other = other
        self.commit_interval_ms = commit_interval_ms
        self.driver: SimulatedMember | None = None
        self.lives = 0


class Clients:
    """All members and their shared state. ``drivers`` are all lives of all members, if kept."""

    def __init__(
        self, world: World, network: Network, values: Values, configs: Sequence[AnyConfig]
    ) -> None:
        self.world = world
        self.network = network
        self.values = values
        self.rng: random.Random = world.random("clients")
        self.specs = [MemberSpec(config) for config in configs]
        self.specs += [MemberSpec(*pair) for pair in modern_clients.member_configs(world.settings)]
        self.group_ids = tuple(dict.fromkeys(spec.config.group_id for spec in self.specs))
        partitions = world.settings.topic_partitions
        self.partitions_of = {
            name: partitions if name in self.group_ids else modern_clients.MORE_PARTITIONS
            for group_id in self.group_ids
            for name in modern_clients.first_topics(group_id)
        }
        self.topic_names: dict[UUID, str] = {}
        self.commits = True
        self.is_open = True
        self._alive: list[SimulatedMember] = []  # and some that are gone, until it is swept
        self._sweep_at = 1
        self.drivers: list[tuple[MemberSpec, SimulatedMember]] | None = None

    def start_all(self) -> None:
        """Start all members, within a heartbeat interval."""
        for spec in self.specs:
            delay_ms = int(self.rng.random() * self.world.settings.heartbeat_interval_ms)
            self.world.after(delay_ms, self.start, spec)

    def join(self, config: AnyConfig) -> None:
        """Add a seat with a member."""
        spec = MemberSpec(config)
        self.specs.append(spec)
        self.start(spec)

    def start(self, spec: MemberSpec) -> None:
        """Put a new member on a seat (a static one takes over from the previous member)."""
        spec.lives += 1
        spec.driver = self.another(spec, f"{spec.config.client_id}#{spec.lives}")

    def start_if_free(self, spec: MemberSpec) -> None:
        """Put a new member on a seat that has none, unless all members were ended."""
        if self.is_open and (spec.driver is None or spec.driver.is_gone):
            self.start(spec)

    def end_all(self) -> None:
        """End every member without a request, duplicates too; none returns."""
        self.is_open = False
        for driver in self._alive:
            driver.vanish()
        self._alive.clear()
        for spec in self.specs:
            spec.driver = None

    def begin_again(self) -> None:
        """Put a new member on every seat, after :meth:`end_all`."""
        self.is_open = True
        for spec in self.specs:
            self.start(spec)

    def another(self, spec: MemberSpec, name: str) -> SimulatedMember:
        """Start another member with a seat's settings."""
        interval_ms = spec.commit_interval_ms
        if interval_ms is None:
            interval_ms = self.world.settings.commit_interval_ms
        driver = SimulatedMember(self, name, spec.config, interval_ms)
        if self.drivers is not None:
            self.drivers.append((spec, driver))
        if len(self._alive) >= self._sweep_at:
            self._alive = [each for each in self._alive if not each.is_gone]
            self._sweep_at = 2 * len(self._alive) + 1
        self._alive.append(driver)
        driver.start()
        return driver

    def done(self, driver: SimulatedMember) -> None:
        """Note that a member has left or failed: its seat is filled again after a while."""
        for spec in self.specs:
            if spec.driver is driver:
                spec.driver = None
                wait_ms = 500 + int(self.rng.random() * 4_000)
                if spec.config.group_id.startswith(STREAMS) and spec.config.instance_id is not None:
                    wait_ms *= LONGER  # its tasks wait for it, whatever happens meanwhile
                self.world.after(wait_ms, self.start_if_free, spec)

    def any_node(self, but: int) -> int:
        """Return a random bootstrap server other than ``but``."""
        node_id = int(self.rng.random() * len(self.network.processes))
        if node_id == but:
            node_id = (node_id + 1) % len(self.network.processes)
        return node_id

    def connect(self, driver: SimulatedMember, node_id: int) -> SimulatedConnection:
        """Open a connection to a node."""
        process: Process = self.network.processes[node_id]
        return SimulatedConnection(self.world, self.network, driver, process)

    def at_rest(self) -> str:
        """Return what keeps the groups from being whole; empty when every group is.

        Whole: all seats are taken by Stable members of one generation, whose partitions are all of
        the topic's, each once.
        """
        for group_id in self.group_ids:
            if is_modern(group_id):
                if why := modern_clients.unconverged(
                    self.specs, self.partitions_of, group_id, self.world.settings
                ):
                    return why
                continue
            members = []
            for spec in self.specs:
                if spec.config.group_id == group_id:
                    if spec.driver is None or spec.driver.is_gone:
                        return f"{group_id}: {spec.config.client_id} is away"
                    members.append(spec.driver.member)
            states = {member.state for member in members}
            if states != {State.STABLE}:
                return f"{group_id}: its members are {', '.join(sorted(states))}"
            if len({member.generation for member in members}) > 1:
                return f"{group_id}: its members are in several generations"
            owned = sorted(at for member in members for at in member.partitions)
            wanted = [(group_id, index) for index in range(self.partitions_of[group_id])]
            if members and owned != wanted:
                return f"{group_id}: {len(owned)} of {len(wanted)} partitions are owned"
        return ""


def member_configs(settings: Settings) -> list[MemberConfig]:
    """Return the members of classic groups: every group has static and dynamic ones."""
    configs = []
    groups = settings.all_groups
    for number in range(settings.members * settings.groups // groups):
        group, place = number % settings.groups, number // settings.groups
        group_id = f"group-{group}"
        is_static = (place + group) % 2 == 0
        configs.append(
            MemberConfig(
                group_id=group_id,
                topics=(group_id,),
                client_id=f"{group_id}/{place}",
                instance_id=f"{group_id}/{place}" if is_static else None,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                request_timeout_ms=settings.request_timeout_ms,
            )
        )
    return configs


def _line(event: MemberHistoryEvent) -> str:
    parts = [str(event.kind), f"generation {event.generation}", event.member_id[-6:] or "no id"]
    if event.error:
        parts.append(event.error)
    if event.offsets:
        parts.append(", ".join(f"{topic}-{at}: {value}" for topic, at, value in event.offsets))
    elif event.partitions and event.kind != "heartbeat":
        parts.append("owns " + ",".join(str(index) for _, index in event.partitions))
    return ", ".join(parts)
