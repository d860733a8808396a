"""Faults of consumer groups and mixed groups: chosen by the seed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from failover.simulation.clients.modern_members import draw_subscription, first_topics
from failover.simulation.clients.share_members import draw_topics
from failover.simulation.faults.schedule import FaultSchedule, Kinds
from failover.simulation.kinds import CONSUMER, MIXED, SHARE, STREAMS, is_modern
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.share import ShareMemberConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.simulation.clients.members import MemberSpec
    from failover.simulation.cluster import SimulatedCluster

AWAY_MS = (500, 90_000)
GROW_MAX = 16
FLAP_MS = 12_000
"""The longest time until another member leaves."""
RETURN_MS = (2_000, 9_000)
"""Between two members that leave: the first has returned, and the others have heard of it."""
NEW_TOPICS = 4
STIR_MS = 120_000
"""After this time every change has been made by all members."""


class GroupInjector(FaultSchedule):
    """Changes subscriptions, protocols and topics, and ends workers, until :meth:`end`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "group faults", cluster.world.settings.group_faults)
        self._specs = [spec for spec in cluster.clients.specs if is_modern(spec.config.group_id)]

    def begin(self) -> None:
        """Start every kind whose rate is not 0, if there is any such group."""
        if self._specs:
            self._begin()

    def end(self) -> None:
        """Change nothing more; restore the workers.

        A group whose assignor failed keeps its old target until the group changes: so a member
        leaves it.
        """
        self._is_on = False
        workers = self._cluster.workers
        workers.restore()
        for group_id in sorted(workers.failed):
            for spec in self._specs:
                driver = spec.driver
                is_dynamic = spec.config.instance_id is None
                if spec.config.group_id == group_id and is_dynamic and driver is not None:
                    driver.leave()
                    break
        self._stir()

    def change(self) -> str:
        """Change a subscription, a protocol or a topic once, after :meth:`end`; return which."""
        if not self._specs:
            return ""
        kind = self._rng.choice(("subscription", "migration", "topic"))
        self.KINDS[kind](self)
        self._world.after(STIR_MS, self._stir)
        return kind

    def _stir(self) -> None:
        """Once no topic changes any more, let a member leave each group of both protocols.

        If the group is classic, its leader may not know that it leads (after a downgrade, or as a
        successor): then no member checks whether topics have changed.
        """
        if self._cluster.administrator.busy:
            self._world.after(1_000, self._stir)
            return
        for group_id in self._cluster.clients.group_ids:
            specs = [spec for spec in self._specs if spec.config.group_id == group_id]
            dynamic = [spec for spec in specs if spec.config.instance_id is None]
            if group_id.startswith(MIXED) and dynamic and dynamic[0].driver is not None:
                dynamic[0].driver.leave()

    # --- subscriptions

    def _subscription(self) -> None:
        """Change a member's subscription; a new regular expression is changed again."""
        specs = [spec for spec in self._specs if spec.config.group_id.startswith((CONSUMER, SHARE))]
        if not specs:
            return
        spec = self._rng.choice(specs)
        config, driver = spec.config, spec.driver
        if isinstance(config, ShareMemberConfig):
            topics = draw_topics(self._rng, first_topics(config.group_id))
            self._world.fault("subscription", f"{config.client_id}: {topics}")
            spec.config = replace(config, topics=topics)
            if driver is not None and not driver.is_gone:
                driver.subscribe(topics)
            return
        topics, regex = draw_subscription(self._rng, config.group_id)
        assert isinstance(config, ConsumerMemberConfig)
        self._world.fault("subscription", f"{config.client_id}: {topics}, {regex}")
        spec.config = replace(config, topics=topics, topic_regex=regex)
        if driver is None or driver.is_gone:
            return
        is_same = isinstance(driver.member, ConsumerMember) and regex == config.topic_regex
        if is_same and driver.member.config == config:
            driver.subscribe(topics)
        else:
            driver.leave()

    # --- protocols

    def _migration(self) -> None:
        """Let one member, or all of a group one by one, change to the other protocol."""
        specs = [spec for spec in self._specs if spec.config.group_id.startswith((MIXED, STREAMS))]
        if not specs:
            return
        spec = self._rng.choice(specs)
        group_id = spec.config.group_id
        if group_id.startswith(STREAMS):
            self._convert(group_id, specs)
            return
        kind = self._rng.random()
        if kind < 0.25:
            self._world.fault("protocol", spec.config.client_id)
            self._change(spec)
            return
        if kind < 0.6:
            self._flap(spec, [each for each in specs if each.config.group_id == group_id])
            return
        is_upgrade = self._rng.random() < 0.5
        self._world.fault("group migrates", f"{group_id}, upgrade: {is_upgrade}")
        wait_ms = 0
        for each in specs:
            if each.config.group_id == group_id:
                self._world.after(wait_ms, self._move, each, is_upgrade)
                wait_ms += int(self._rng.random() * 5_000)

    def _convert(self, group_id: str, specs: Sequence[MemberSpec]) -> None:
        """Let all members leave, and return with another type of group: offline conversion.

        Those that return first are refused until the last one is gone.
        """
        self._world.fault("group converted", group_id)
        wait_ms = 0
        for each in specs:
            if each.config.group_id == group_id:
                self._world.after(wait_ms, self._change, each)
                wait_ms += int(self._rng.random() * 2_000)

    def _flap(self, one: MemberSpec, specs: Sequence[MemberSpec]) -> None:
        """Let a group's only member of the consumer protocol repeatedly join and leave.

        The group is migrated each time, before it has converged: another member left shortly
        before, and returned.
        """
        self._world.fault("group flaps", f"{one.config.group_id}, by {one.config.client_id}")
        for spec in specs:
            self._move(spec, spec is one)
        wait_ms = 0
        for _ in range(self._rng.randint(2, 6)):
            wait_ms += int(self._rng.random() * FLAP_MS)
            self._world.after(wait_ms, self._leave, self._rng.choice(specs))
            wait_ms += self._rng.randint(*RETURN_MS)
            self._world.after(wait_ms, self._leave, one)

    def _leave(self, spec: MemberSpec) -> None:
        if self._is_on and spec.driver is not None and not spec.driver.is_gone:
            spec.driver.leave()

    def _move(self, spec: MemberSpec, is_upgrade: bool) -> None:
        if isinstance(spec.config, ConsumerMemberConfig) != is_upgrade:
            self._change(spec)

    def _change(self, spec: MemberSpec) -> None:
        assert spec.other is not None
        spec.config, spec.other = spec.other, spec.config
        driver = spec.driver
        if driver is None or driver.is_gone:
            return
        if self._rng.random() < 0.7:
            driver.leave()
        else:
            driver.vanish()
            wait_ms = int(self._rng.random() * 6_000)
            self._world.after(wait_ms, self._cluster.clients.start_if_free, spec)

    # --- topics

    def _topic(self) -> None:
        """Grow a topic, delete one, or create one that regular expressions may match."""
        groups = [each for each in self._cluster.clients.group_ids if is_modern(each)]
        if not groups:
            return
        administrator, group_id = self._cluster.administrator, self._rng.choice(groups)
        partitions_of = self._cluster.clients.partitions_of
        first, more = first_topics(group_id)
        spare = [name for name in sorted(partitions_of) if name.startswith(f"{group_id}.")]
        if group_id.startswith(STREAMS):
            first = more  # the other one has a changelog, and must not grow
        kind = self._rng.choice(("grow", "grow", "delete", "create"))
        if kind == "grow":
            name = self._rng.choice([first, *spare])
            if partitions_of.get(name, GROW_MAX) < GROW_MAX and administrator.may_change(name):
                count = partitions_of[name] + self._rng.randint(1, 3)
                self._world.fault("topic grows", f"{name} to {count} partitions")
                administrator.grow_topic(name, count)
        elif kind == "delete":
            spare = [name for name in spare if administrator.may_change(name)]
            if spare:
                name = self._rng.choice(spare)
                self._world.fault("topic deleted", name)
                administrator.delete_topic(name)
        else:
            names = [more]
            if group_id.startswith(CONSUMER):
                names += [f"{group_id}.new-{number}" for number in range(NEW_TOPICS)]
            names = [each for each in names if each not in partitions_of]
            names = [each for each in names if administrator.may_change(each)]
            if names:
                name = self._rng.choice(names)
                self._world.fault("topic created", name)
                administrator.create_topic(name, self._rng.randint(1, 4))

    # --- workers

    def _worker(self) -> None:
        self._cluster.workers.kill(self._draw(AWAY_MS))

    KINDS: ClassVar[Kinds] = {
        "subscription": _subscription,
        "migration": _migration,
        "topic": _topic,
        "worker": _worker,
    }
