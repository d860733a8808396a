"""A streams group that writes its records as Kafka's coordinator does, and knows what is true.

Static members are those of Kafka 4.4; of older versions there are only the other ones.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from protocol.stories.causes import Cause
from tests.protocol.watching import streams_records as records
from tests.protocol.watching.kafka_log import (
    EXPIRED,
    LEFT,
    MEMBERS_MAX,
    NOT_REVOKED,
    KafkaLog,
    owners_of,
)
from tests.protocol.watching.kafka_tasks import STABLE, UNREVOKED, Held, assign, reconciled

if TYPE_CHECKING:
    from tests.protocol.watching.streams_records import Task

AWAY = -2
DELAY_MS = 3_000
TOPICS = {"s": 3, "c": 3, "r": 2}


@dataclass
class Member:
    """A member; ``held`` is its current assignment, ``until`` when it must have given up tasks."""

    number: int
    process: str
    instance: str | None = None
    host: str = "/10.0.0.4"
    held: Held = field(default_factory=Held)
    until: int | None = None


@dataclass
class KafkaStreamsGroup(KafkaLog):
    """The group, its log, the topics of its cluster, and the configs of the group.

    ``ready_ms``: when the first target may be computed. ``is_due``: topics have changed, and no
    heartbeat has looked at them yet; ``seen`` are those that one looked at last.
    """

    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, frozenset[Task]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=lambda: {"s": 3, "c": 3})
    seen: dict[str, int] = field(default_factory=dict)
    has_topology: bool = False
    topics_hash: int = 0
    validated: int = -1
    standbys: int = 0
    configs: dict[str, str] = field(default_factory=dict)
    ready_ms: int | None = None
    is_due: bool = False

    def step(self) -> None:
        """Do something that can happen now."""
        since, self.now = self.now, self.now + self.rng.randrange(5, 20_000)
        self._timers(since)
        able = [self.join] * 2 if len(self.members) < MEMBERS_MAX else []
        if self._here():
            able += [self.heartbeat] * 12
            able += [self.expire, self.change, self.go, self.topics_change, self.configure]
        if self._here()[1:]:
            able += [self.leave]
        if self._away():
            able += [self.come_back] * 3 + [self.stay_away]
        if not self.members and self.epoch > self.first_epoch:
            able += [self.delete, self.delete_for_classic]
        self.rng.choice(able)()

    # --- requests

    def join(self) -> None:
        self.last += 1
        name, is_new = f"m{self.last}", not self.members
        instance = f"i{self.last}" if self.rng.random() < 0.3 else None
        process = f"p{self.rng.randrange(3)}"
        if self.epoch == self.first_epoch and not self.has_topology and self.rng.random() < 0.3:
            self.classic([])
            self.now += 5_000
            self.write(self.no_classic())
        self.members[name] = Member(self.last, process, instance)
        self._write_member(name)
        if not self.has_topology:
            self.has_topology = self.is_due = True
            self.write(records.topology())
        self._beat(name, {Cause.JOINED: self._shown(name)}, can_delay=is_new)

    def leave(self) -> None:
        self._drop(self.rng.choice(self._here()), LEFT)

    def expire(self) -> None:
        self._drop(self.rng.choice(self._here()), EXPIRED)

    def heartbeat(self) -> None:
        self._beat(self.rng.choice(self._here()), {})

    def change(self) -> None:
        """Let a member say something else of itself: each such change begins an epoch."""
        name = self.rng.choice(self._here())
        self.last += 1
        self.members[name].host = f"/10.0.1.{self.last}"
        self._write_member(name)
        self._beat(name, {Cause.UPDATED: self._shown(name)})

    def go(self) -> None:
        """Let a static member leave that means to come back."""
        static = [each for each in self._here() if self.members[each].instance]
        if static:
            name = self.rng.choice(static)
            member = self.members[name]
            member.until = None
            self._hold(name, replace(member.held, epoch=AWAY, revoking=frozenset()))

    def stay_away(self) -> None:
        """Let the session of a static member end that has not come back."""
        self._drop(self.rng.choice(self._away()), EXPIRED)

    def come_back(self) -> None:
        """Let a static member come back under another member id; maybe as another process."""
        old = self.rng.choice(self._away())
        self.last += 1
        new, shown, target = f"m{self.last}", self._shown(old), self.targets.pop(old, frozenset())
        member = self.members.pop(old)
        self.members[new], self.targets[new] = member, target
        self.write(records.gone(old))
        self._write_member(new)
        self.write(records.targets(0, {new: target})[:-1])
        self._hold(new, replace(member.held, epoch=0))
        causes: dict[Cause, str] = {}
        if self.rng.random() < 0.5:
            member.process = f"new-p{self.last}"
            self._write_member(new)
            causes = {Cause.STATIC_REPLACED: shown, Cause.UPDATED: shown}
        else:
            self.unchanged.append((self.now, shown))
        self._beat(new, causes)

    def topics_change(self) -> None:
        """Create, enlarge or delete a topic; the next heartbeat looks at them."""
        name = self.rng.choice(sorted(TOPICS))
        missing = sorted(TOPICS.keys() - self.topics.keys())
        if missing:
            self.topics[missing[0]] = TOPICS[missing[0]]
        elif self.rng.random() < 0.3:
            del self.topics[name]
        else:
            self.topics[name] = self.topics[name] % 4 + 1
        self.is_due = True

    def configure(self) -> None:
        """Set the number of standby tasks; the next heartbeat looks at it."""
        self.standbys = 1 - self.standbys

    def delete(self) -> None:
        """Delete the group, which has no members."""
        self.write(records.removed())
        self._forget()

    def delete_for_classic(self) -> None:
        """Let a classic group take the place of this one, which has no members."""
        self._forget(in_log=False)
        self.classic(records.removed())
        self.now += 5_000
        self.write(self.no_classic())

    # --- timers

    def _timers(self, since: int) -> None:
        """Let timers run out that end before now, each at a time of its own."""
        ends, end = [], self.now
        if self.ready_ms is not None:
            ends.append((self.ready_ms, ""))
        ends += [(each.until, name) for name, each in self.members.items() if each.until]
        for at, name in sorted(each for each in ends if each[0] < end):
            self.now = since = max(at, since + 1)
            if name:
                self._drop(name, NOT_REVOKED)
                continue
            self.ready_ms = None
            if self.members and self.epoch > self.target_epoch:
                self._assign()
        self.now = max(end, since + 1)

    # --- what they write

    def _beat(self, name: str, causes: dict[Cause, str], *, can_delay: bool = False) -> None:
        validated = self.validated
        if self.is_due:
            self.is_due = False
            topics_hash = zlib.crc32(repr(sorted(self.topics.items())).encode())
            if topics_hash != self.topics_hash:
                causes[Cause.TOPICS_CHANGED] = ""
            self.topics_hash = topics_hash
            self.seen = dict(self.topics)
            validated = 0 if self.topics.keys() == TOPICS.keys() else -1
        if validated != self.validated:
            is_ready = validated == 0
            causes[Cause.TOPOLOGY_READY if is_ready else Cause.TOPOLOGY_NOT_READY] = ""
            self.validated = validated
        configs = {"num.standby.replicas": str(self.standbys)}
        if configs != self.configs:
            causes[Cause.CONFIGS_CHANGED] = ""
            self.configs = configs
        if causes:
            self._begin(causes)
        if can_delay and self.rng.random() < 0.5:
            self.ready_ms = self.now + DELAY_MS
        if self.epoch > self.target_epoch and self.ready_ms is None and self.rng.random() < 0.8:
            self._assign()
        self._reconcile(name)

    def _begin(self, causes: dict[Cause, str]) -> None:
        self.because(causes)
        self.write(records.epoch(self.epoch, self.topics_hash, self.validated, self.configs))

    def _assign(self) -> None:
        processes = {each: member.process for each, member in self.members.items()}
        names = sorted(self.members)
        self.rng.shuffle(names)
        tasks: list[tuple[str, int]] = []
        if self.validated == 0:
            tasks = [("0", each) for each in range(self.seen["s"])]
            tasks += [("1", each) for each in range(self.seen["r"])]
        new = assign(names, processes, tasks, self.standbys)
        changed = {each: new[each] for each in names if self.targets.get(each) != new[each]}
        self.targets = new
        self.write(records.targets(self.epoch, changed))
        active = {
            name: [each[1:] for each in those if each[0] == "active"] for name, those in new.items()
        }
        numbers = {each: member.number for each, member in self.members.items()}
        self.assigned(owners_of(active, numbers), len(names))

    def _reconcile(self, name: str) -> None:
        member = self.members[name]
        others = [(each.process, each.held) for at, each in self.members.items() if at != name]
        has_revoked = self.rng.random() < 0.7
        held = reconciled(
            member.held,
            (self.target_epoch, self.targets.get(name, frozenset())),
            (member.process, others),
            has_revoked=has_revoked,
        )
        if held == member.held:
            return
        is_revoking = held.state == UNREVOKED
        member.until = self.now + records.REBALANCE_MS if is_revoking else None
        self._hold(name, held)

    def _hold(self, name: str, held: Held) -> None:
        self.members[name].held = held
        self.write(records.current(name, held.epoch, held.tasks, held.state, held.revoking))
        is_done = self.epoch == self.target_epoch and all(
            each.held.epoch == self.epoch and each.held.state == STABLE
            for each in self.members.values()
        )
        self.settle(is_done=is_done, shown=self._shown(name))

    def _write_member(self, name: str) -> None:
        member = self.members[name]
        self.write(
            records.joined(
                name,
                instance_id=member.instance,
                client_host=member.host,
                process_id=member.process,
            )
        )

    def _drop(self, name: str, causes: frozenset[Cause]) -> None:
        shown = self._shown(name)
        self.write(records.gone(name))
        del self.members[name]
        self.targets.pop(name, None)
        self._begin(dict.fromkeys(causes, shown))
        if not self.members:
            self.emptied()

    def _forget(self, *, in_log: bool = True) -> None:
        self.targets.clear()
        self.has_topology, self.ready_ms = False, None
        self.topics_hash, self.validated, self.configs = 0, -1, {}
        self.end()
        if not in_log:
            self.deaths.pop()

    def _here(self) -> list[str]:
        return sorted(each for each, member in self.members.items() if member.held.epoch != AWAY)

    def _away(self) -> list[str]:
        return sorted(each for each, member in self.members.items() if member.held.epoch == AWAY)

    def _shown(self, name: str) -> str:
        return self.members[name].instance or name
