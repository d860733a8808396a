"""A consumer group that writes its records as Kafka's coordinator does, and knows what is true.

Each step writes the records of one request, with a time of their own. ``causes`` has why the epoch
of that time came, ``owned`` who owns each partition as of a target, by a number that a static
member keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    Record,
    encode,
)
from protocol.stories.causes import Cause
from tests.protocol.watching.records import NOW, current, epoch, gone, joined, targets

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

PATTERN = "t.*"
PARTITIONS = range(6)
GONE = frozenset({Cause.LEFT, Cause.EXPIRED, Cause.GONE, Cause.NOT_REVOKED})


@dataclass
class Written:
    """One record as it is in the log, and when it was written."""

    time_ms: int
    key: bytes
    value: bytes | None


@dataclass
class Member:
    """A member; ``number`` is that of its instance, or its own."""

    number: int
    fields: dict[str, Any]
    has: tuple[int, ...] | None = None


@dataclass
class KafkaGroup:
    """The group and its log."""

    rng: random.Random
    now: int = NOW
    log: list[Written] = field(default_factory=list)
    causes: dict[int, tuple[frozenset[Cause], str]] = field(default_factory=dict)
    owned: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    life: int = 0
    epoch: int = 1
    target_epoch: int = 1
    topics_hash: int = 0
    matches: tuple[str, ...] | None = None
    members: dict[str, Member] = field(default_factory=dict)
    target: dict[str, tuple[int, ...]] = field(default_factory=dict)
    last: int = 0

    def step(self) -> None:
        """Do something that can happen now."""
        names = sorted(self.members)
        able = [self.join] if len(names) < 4 else []
        if names:
            able += [self.heartbeat] * 4
            able += [self.leave, self.move, self.subscribe, self.come_back, self.topics_change]
            if any(each.fields.get("subscribed_topic_regex") for each in self.members.values()):
                able += [self.resolve, self.resolve]
        elif self.epoch > 1:
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
        self.members[name] = Member(self.last, fields)
        self._write(joined(name, **fields))
        if self._has_topics(name):
            self._bump(frozenset({Cause.JOINED}), self._shown(name))
        self._assign(name)

    def leave(self) -> None:
        """Let a member leave, or be removed: the next heartbeat computes the target."""
        name = self._any()
        shown = self._shown(name)
        self._drop(name)
        if self.matches is not None and not self._matched():
            self._write((ConsumerGroupRegularExpressionKey("g", PATTERN), None))
            self.matches = None
        self._bump(GONE, shown)
        if not self.members:
            self.owned[self.life, self.epoch] = {}

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
        self._bump(frozenset({Cause.SUBSCRIBED}), self._shown(name))
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
        self.members[new] = Member(old.number, {**old.fields}, target)
        self.target[new] = target
        self._write(joined(new, **old.fields), *targets(0, {new: target})[:-1])
        self._write(current(new, self.target_epoch, *target))
        how = self.rng.randrange(3)
        if how == 1:
            self.members[new].fields["client_host"] = "/10.0.0.77"
            self._write(joined(new, **self.members[new].fields))
        if how == 2:
            self.members[new].fields["topics"] = ("t", f"v{self.last}")
            self._write(joined(new, **self.members[new].fields))
            self._bump(frozenset({Cause.STATIC_REPLACED, Cause.SUBSCRIBED}), shown)
            self._assign(new)

    def topics_change(self) -> None:
        """Let a heartbeat find other topics."""
        self.topics_hash += 1
        self._bump(frozenset({Cause.TOPICS_CHANGED}), "")
        self._assign(self._any())

    def resolve(self) -> None:
        """Look at the regular expression again: it is written each time."""
        found = self.rng.choice([("t",), ("t", "u"), self.matches or ("t",)])
        changed, self.matches = found != self.matches, found
        value = ConsumerGroupRegularExpressionValue(topics=found, version=1, timestamp=self.now)
        self._write((ConsumerGroupRegularExpressionKey("g", PATTERN), value))
        if changed:
            self._bump(frozenset({Cause.REGEX_RESOLVED, Cause.JOINED}), "")

    def delete(self) -> None:
        """Delete the group, which has no members."""
        self._write((ConsumerGroupTargetAssignmentMetadataKey("g"), None))
        self._write((ConsumerGroupMetadataKey("g"), None))
        self.epoch = self.target_epoch = 1
        self.life += 1
        self.target.clear()

    # --- what they write

    def _bump(self, causes: frozenset[Cause], shown: str) -> None:
        self.epoch += 1
        self.causes[self.now] = (causes, shown)
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
            self.target, self.target_epoch = new, self.epoch
            self._write(*targets(self.epoch, changed))
            self.owned[self.life, self.epoch] = {
                place: self.members[each].number for each in new for place in new[each]
            }
        member, target = self.members[name], self.target.get(name, ())
        self._write(current(name, self.target_epoch, *target))
        member.has = target

    def _drop(self, name: str) -> None:
        self._write(*gone(name))
        del self.members[name]
        self.target.pop(name, None)

    def _write(self, *records: tuple[Any, Any]) -> None:
        for each in records:
            self.log.append(Written(self.now, *encode(Record(*each))))

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

    def moves(self, time_ms: int, before: int, after: int) -> tuple[int, int, int] | None:
        """Return how many partitions moved, got an owner and lost it between two targets."""
        life = sum(each < time_ms for each in self.deaths)
        old, new = self.owned.get((life, before), {}), self.owned.get((life, after))
        if new is None:
            return None
        moved = sum(1 for each in old if each in new and old[each] != new[each])
        return moved, len(new.keys() - old.keys()), len(old.keys() - new.keys())

    @property
    def deaths(self) -> Iterable[int]:
        """When the group was deleted."""
        key, _ = encode(Record(ConsumerGroupMetadataKey("g"), None))
        return [each.time_ms for each in self.log if each.key == key and each.value is None]
