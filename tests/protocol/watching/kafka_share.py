"""A share group that writes its records as Kafka's coordinator does, and knows what is true."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from protocol.stories.causes import Cause
from tests.protocol.watching import share_records as records
from tests.protocol.watching.kafka_log import (
    EXPIRED,
    LEFT,
    MEMBERS_MAX,
    KafkaLog,
    owners_of,
)
from tests.protocol.watching.records import TOPIC

if TYPE_CHECKING:
    Place = tuple[UUID, int]
    States = dict[UUID, tuple[str, set[int]]]

SUBSCRIPTIONS = (("t",), ("t", "u"), ("u",))


@dataclass
class Member:
    """A member; ``epoch`` and ``has`` are those of its current assignment."""

    number: int
    topics: tuple[str, ...]
    host: str = "/10.0.0.4"
    epoch: int = 0
    has: frozenset[Place] = frozenset()


@dataclass
class KafkaShareGroup(KafkaLog):
    """The group, its log, and the topics of its cluster.

    ``is_due``: topics have changed, and no heartbeat has looked at them yet. ``is_old``: before
    Kafka 4.3 share state is looked at while an epoch awaits its target, too, and targets have no
    times.
    """

    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, frozenset[Place]] = field(default_factory=dict)
    topics: dict[str, tuple[UUID, int]] = field(default_factory=lambda: {"t": (TOPIC, 2)})
    initializing: States = field(default_factory=dict)
    initialized: States = field(default_factory=dict)
    topics_hash: int = 0
    is_due: bool = False
    is_old: bool = False

    def step(self) -> None:
        """Do something that can happen now."""
        able = [self.join] * 2 if len(self.members) < MEMBERS_MAX else []
        if self.members:
            able += [self.heartbeat] * 5
            able += [self.leave, self.expire, self.move, self.subscribe]
            able += [self.create, self.grow, self.delete_topic]
        else:
            able += [self.alter_offsets]
            if self.epoch > self.first_epoch:
                able += [self.delete]
        if self.initializing:
            able += [self.initialize] * 3 + [self.fail]
        self.now += self.rng.randrange(1, 20_000)
        self.rng.choice(able)()

    # --- requests

    def join(self) -> None:
        self.last += 1
        name, is_pending = f"m{self.last}", self._is_pending()
        self.members[name] = Member(self.last, self.rng.choice(SUBSCRIPTIONS))
        self.write(records.joined(name, self.members[name].topics))
        self._beat(name, {Cause.JOINED: name}, is_pending=is_pending)

    def leave(self) -> None:
        self._drop(self._any(), LEFT)

    def expire(self) -> None:
        self._drop(self._any(), EXPIRED)

    def heartbeat(self) -> None:
        self._beat(self._any(), {}, is_pending=self._is_pending())

    def move(self) -> None:
        """Let a member come from another host: no epoch follows."""
        name, is_pending = self._any(), self._is_pending()
        member = self.members[name]
        member.host = f"/10.0.0.{self.last}{self.rng.randrange(9)}"
        self.write(records.joined(name, member.topics, member.host))
        self._beat(name, {}, is_pending=is_pending)

    def subscribe(self) -> None:
        name, is_pending = self._any(), self._is_pending()
        member = self.members[name]
        others = [each for each in SUBSCRIPTIONS if each != member.topics]
        member.topics = self.rng.choice(others)
        self.write(records.joined(name, member.topics, member.host))
        self._beat(name, {Cause.SUBSCRIBED: name}, is_pending=is_pending)

    def alter_offsets(self) -> None:
        """Set the offsets of a group without members, which may not exist yet."""
        for name, (topic_id, partitions) in self.topics.items():
            self.initializing[topic_id] = (name, set(range(partitions)))
        if self.topics:
            self._write_state()

    def delete(self) -> None:
        """Delete the group, which has no members: first what its topics have of share state."""
        if self.initialized:
            names = {each: name for each, (name, _) in self.initialized.items()}
            self.initialized.clear()
            self.write(records.state(self.initializing, {}, names))
            self.now += 50
        self.write(records.removed())
        self.initializing.clear()
        self.initialized.clear()
        self.targets.clear()
        self.topics_hash = 0
        self.end()

    # --- share state

    def initialize(self) -> None:
        """Hear that some partitions have share state now."""
        topic_id = self.rng.choice(sorted(self.initializing, key=str))
        name, asked = self.initializing.pop(topic_id)
        some = {each for each in asked if self.rng.random() < 0.8} or asked
        _, known = self.initialized.get(topic_id, (name, set()))
        self.initialized[topic_id] = (name, known | some)
        if asked - some:
            self.initializing[topic_id] = (name, asked - some)
        self._write_state()

    def fail(self) -> None:
        """Hear that some partitions could not get share state."""
        self.initializing.pop(self.rng.choice(sorted(self.initializing, key=str)))
        self._write_state()

    # --- topics

    def create(self) -> None:
        missing = [each for each in ("t", "u") if each not in self.topics]
        if missing:
            self.last += 1
            self.topics[self.rng.choice(missing)] = (UUID(int=100 + self.last), 2)
            self.is_due = True

    def grow(self) -> None:
        if self.topics:
            name = self.rng.choice(sorted(self.topics))
            topic_id, partitions = self.topics[name]
            self.topics[name] = (topic_id, min(partitions + 1, 6))
            self.is_due = True

    def delete_topic(self) -> None:
        if self.topics and self.rng.random() < 0.5:
            topic_id, _ = self.topics.pop(self.rng.choice(sorted(self.topics)))
            self.is_due = True
            known = self.initializing.pop(topic_id, None), self.initialized.pop(topic_id, None)
            if any(known):
                self._write_state()

    # --- what they write

    def _beat(self, name: str, causes: dict[Cause, str], *, is_pending: bool) -> None:
        if is_pending:
            causes[Cause.SHARE_STATE] = ""
        has_bumped = bool(causes)
        if causes or self.is_due:
            topics_hash = self._hash()
            if self.is_due and topics_hash != self.topics_hash:
                causes[Cause.TOPICS_CHANGED] = ""
                has_bumped = True
            self.is_due = False
            if has_bumped:
                self.topics_hash = topics_hash
                self.because(causes)
                self.write(records.epoch(self.epoch, topics_hash))
        if self.epoch > self.target_epoch and self.rng.random() < 0.8:
            self._assign()
        member = self.members[name]
        if member.epoch != self.target_epoch or has_bumped:
            before = member.epoch, member.has
            ids = {self.topics[each][0] for each in member.topics if each in self.topics}
            target = self.targets.get(name, frozenset())
            member.has = frozenset(each for each in target if each[0] in ids)
            member.epoch = self.target_epoch
            if before != (member.epoch, member.has):
                self.write(records.current(name, member.epoch, member.has))
                self._settle(name)
        self._ask_for_state()

    def _assign(self) -> None:
        names, target = sorted(self.members), {each: set() for each in self.members}
        self.rng.shuffle(names)
        for topic, (topic_id, _) in self.topics.items():
            _, known = self.initialized.get(topic_id, (topic, set()))
            able = [each for each in names if topic in self.members[each].topics]
            places = [(topic_id, each) for each in sorted(known)]
            for at in range(max(len(able), len(places)) if able and places else 0):
                target[able[at % len(able)]].add(places[at % len(places)])
        new = {each: frozenset(those) for each, those in target.items()}
        changed = {each: new[each] for each in names if self.targets.get(each) != new[each]}
        self.targets = new
        self.write(records.targets(self.epoch, changed, 0 if self.is_old else self.now))
        numbers = {each: member.number for each, member in self.members.items()}
        by_name = {
            name: [(self.initialized[topic_id][0], each) for topic_id, each in those]
            for name, those in new.items()
        }
        self.assigned(owners_of(by_name, numbers), len(names))

    def _ask_for_state(self) -> None:
        """Ask for share state of what is subscribed to and has none; or ask once more."""
        is_new = False
        for name in sorted(self._subscribed() & self.topics.keys()):
            topic_id, partitions = self.topics[name]
            _, known = self.initialized.get(topic_id, (name, set()))
            _, asked = self.initializing.get(topic_id, (name, set()))
            lacks = set(range(partitions)) - known
            if lacks - asked or (lacks and self.rng.random() < 0.1):
                self.initializing[topic_id] = (name, lacks)
                is_new = True
        if is_new:
            self._write_state()

    def _is_pending(self) -> bool:
        """Whether there is share state that the target does not have."""
        if not self.members or (self.epoch > self.target_epoch and not self.is_old):
            return False
        has = {each for those in self.targets.values() for each in those}
        names = self._subscribed()
        return any(
            name in names and those != {at for each, at in has if each == topic_id}
            for topic_id, (name, those) in self.initialized.items()
        )

    def _drop(self, name: str, causes: frozenset[Cause]) -> None:
        self.write(records.gone(name))
        del self.members[name]
        self.targets.pop(name, None)
        self.topics_hash = self._hash()
        self.because(dict.fromkeys(causes, name))
        self.write(records.epoch(self.epoch, self.topics_hash))
        if not self.members:
            self.emptied()

    def _settle(self, name: str) -> None:
        is_done = all(each.epoch == self.epoch for each in self.members.values())
        self.settle(is_done=is_done, shown=name)

    def _write_state(self) -> None:
        self.write(records.state(self.initializing, self.initialized))

    def _subscribed(self) -> set[str]:
        return {topic for each in self.members.values() for topic in each.topics}

    def _hash(self) -> int:
        has = sorted((each, self.topics.get(each)) for each in self._subscribed())
        return zlib.crc32(repr(has).encode())

    def _any(self) -> str:
        return self.rng.choice(sorted(self.members))
