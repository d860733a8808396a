"""A consumer group that writes its records as Kafka's coordinator does, and knows what is true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from protocol.stories.causes import Cause
from tests.protocol.watching.kafka_log import LEFT, MEMBERS_MAX, KafkaLog, owners_of
from tests.protocol.watching.records import current, epoch, gone, joined, targets

PATTERN = "t.*"
PARTITIONS = range(6)


@dataclass
class Member:
    """A member; ``number`` is that of its instance, or its own.

    ``joined`` is the group's epoch when it joined, ``epoch`` that of what it has.
    """

    number: int
    fields: dict[str, Any]
    joined: int
    epoch: int = 0


@dataclass
class KafkaGroup(KafkaLog):
    """The group and its log; ``waiting`` members joined before their expression was resolved."""

    topics_hash: int = 0
    matches: tuple[str, ...] | None = None
    members: dict[str, Member] = field(default_factory=dict)
    target: dict[str, tuple[int, ...]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Do something that can happen now."""
        names = sorted(self.members)
        able = [self.join] if len(names) < MEMBERS_MAX else []
        if names:
            able += [self.heartbeat] * 4
            able += [self.leave, self.move, self.subscribe, self.come_back]
            if any(map(self._has_topics, names)):
                able += [self.topics_change]
            if any(each.fields.get("subscribed_topic_regex") for each in self.members.values()):
                able += [self.resolve, self.resolve]
        elif self.epoch > self.first_epoch:
            able += [self.delete]
        self.now += self.rng.randrange(1, 20_000)
        self.rng.choice(able)()

    # --- requests

    def join(self) -> None:
        """Let a member join: a static one, one with a regular expression, or neither.

        No epoch follows one that subscribes to nothing yet.
        """
        self.last += 1
        name, kind = f"m{self.last}", self.rng.randrange(3)
        fields: dict[str, Any] = {"instance_id": f"i{self.last}"} if kind == 0 else {}
        if kind == 1:
            fields |= {"topics": (), "subscribed_topic_regex": PATTERN}
        elif self.rng.random() < 0.2:
            fields |= {"topics": ()}
        self.members[name] = Member(self.last, fields, self.epoch)
        self._write(joined(name, **fields))
        if self._has_topics(name):
            self._bump({Cause.JOINED: self._shown(name)})
        elif kind == 1:
            self.waiting.append(name)
        self._assign(name)

    def leave(self) -> None:
        """Let a member leave, or be removed: the next heartbeat computes the target."""
        name = self._any()
        shown = self._shown(name)
        self._drop(name)
        if self.matches is not None and not self._matched():
            self._write((ConsumerGroupRegularExpressionKey("g", PATTERN), None))
            self.matches = None
        self._bump(dict.fromkeys(LEFT, shown))
        if not self.members:
            self.emptied()

    def heartbeat(self) -> None:
        """Let a member compute the target, if that is due, and take its own over."""
        self._assign(self._any())

    def move(self) -> None:
        """Let a member come from another host: no epoch follows."""
        name = self._any()
        self.members[name].fields["client_host"] = f"/10.0.0.{self.rng.randrange(9)}"
        self._write(joined(name, **self.members[name].fields))

    def subscribe(self) -> None:
        """Let a member subscribe to other topics."""
        name = self._any()
        fields = self.members[name].fields
        if fields.get("subscribed_topic_regex"):
            return
        fields["topics"] = ("t",) if fields.get("topics") == ("t", "u") else ("t", "u")
        self._write(joined(name, **fields))
        self._subscribed(name, {Cause.SUBSCRIBED})
        self._assign(name)

    def come_back(self) -> None:
        """Let a static member come back under another member id; maybe with other topics."""
        name = self._any()
        old = self.members[name]
        if "instance_id" not in old.fields:
            return
        self.last += 1
        new, shown = f"m{self.last}", old.fields["instance_id"]
        target = self.target.get(name, ())
        self._drop(name)
        self.members[new] = Member(old.number, {**old.fields}, old.joined)
        self.target[new] = target
        self._write(joined(new, **old.fields), *targets(0, {new: target})[:-1])
        self._take_over(new)
        how = self.rng.randrange(3)
        if how == 1:
            self.members[new].fields["client_host"] = "/10.0.0.77"
            self._write(joined(new, **self.members[new].fields))
        if how == 2:
            self.members[new].fields["topics"] = ("t", f"v{self.last}")
            self._write(joined(new, **self.members[new].fields))
            self._subscribed(new, {Cause.STATIC_REPLACED, Cause.SUBSCRIBED})
            self._assign(new)
        else:
            self.unchanged.append((self.now, shown))

    def topics_change(self) -> None:
        """Let a heartbeat find other topics."""
        self.topics_hash += 1
        self._bump({Cause.TOPICS_CHANGED: ""})
        self._assign(self._any())

    def resolve(self) -> None:
        """Look at the regular expression again: it is written each time."""
        found = self.rng.choice([("t",), ("t", "u"), self.matches or ("t",)])
        changed, self.matches = found != self.matches, found
        value = ConsumerGroupRegularExpressionValue(topics=found, version=1, timestamp=self.now)
        self._write((ConsumerGroupRegularExpressionKey("g", PATTERN), value))
        if self.waiting:
            names = [self._shown(each) for each in self.waiting]
            self.instead[self.now] = frozenset(
                ((Cause.REGEX_RESOLVED, ""), *((Cause.JOINED, each) for each in names))
            )
            self._bump({Cause.JOINED: names[0]})
        elif changed:
            self._bump({Cause.REGEX_RESOLVED: ""})
        self.waiting.clear()

    def delete(self) -> None:
        """Delete the group, which has no members."""
        self._write((ConsumerGroupTargetAssignmentMetadataKey("g"), None))
        self._write((ConsumerGroupMetadataKey("g"), None))
        self.target.clear()
        self.end()

    # --- what they write

    def _subscribed(self, name: str, causes: set[Cause]) -> None:
        shown, member = self._shown(name), self.members[name]
        if member.joined == self.epoch:  # without its first record nothing says that it was here
            self.instead[self.now] = frozenset({(Cause.JOINED, shown)})
        self._bump(dict.fromkeys(sorted(causes), shown))

    def _bump(self, causes: dict[Cause, str]) -> None:
        self.because(causes)
        self._write(epoch(self.epoch, self.topics_hash))

    def _assign(self, name: str) -> None:
        if self.epoch > self.target_epoch:
            names = sorted(self.members)
            self.rng.shuffle(names)
            able = [each for each in names if self._has_topics(each)]
            new = dict.fromkeys(names, ()) | {
                each: tuple(PARTITIONS[at :: len(able)]) for at, each in enumerate(able)
            }
            changed = {each: new[each] for each in new if self.target.get(each) != new[each]}
            self.target = new
            self._write(*targets(self.epoch, changed))
            numbers = {each: member.number for each, member in self.members.items()}
            if self.since is None:  # it was told when the last member went
                self.target_epoch = self.epoch
            else:
                self.assigned(owners_of(new, numbers), len(new))
        self._take_over(name)

    def _take_over(self, name: str) -> None:
        """Let a member have what its target says."""
        self.members[name].epoch = self.target_epoch
        self._write(current(name, self.target_epoch, *self.target.get(name, ())))
        is_done = all(each.epoch == self.epoch for each in self.members.values())
        self.settle(is_done=is_done, shown=self._shown(name))

    def _drop(self, name: str) -> None:
        self._write(*gone(name))
        del self.members[name]
        self.target.pop(name, None)
        if name in self.waiting:
            self.waiting.remove(name)

    def _write(self, *records: tuple[Any, Any]) -> None:
        self.write(list(records))

    def _any(self) -> str:
        return self.rng.choice(sorted(self.members))

    def _has_topics(self, name: str) -> bool:
        fields = self.members[name].fields
        if "subscribed_topic_regex" in fields:
            return self.matches is not None
        return fields.get("topics") != ()

    def _matched(self) -> bool:
        return any(each.fields.get("subscribed_topic_regex") for each in self.members.values())

    def _shown(self, name: str) -> str:
        shown: str = self.members[name].fields.get("instance_id", name)
        return shown
