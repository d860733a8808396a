"""What consumer, share and streams groups that write as Kafka's coordinator does have in common.

Each step writes the records of one request, with a time of their own. What is true is noted beside
the log: why each epoch came, and of each target whom it took from and gave to, and who had it last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol.records import GroupMetadataKey, Record, encode
from protocol.stories.causes import Cause
from tests.protocol.watching.records import NOW, generation, member

if TYPE_CHECKING:
    import random
    from collections.abc import Hashable, Iterable, Mapping

    Owners = Mapping[Hashable, frozenset[int]]

MEMBERS_MAX = 4
LEFT = frozenset({Cause.LEFT, Cause.GONE})
EXPIRED = frozenset({Cause.EXPIRED, Cause.GONE})
NOT_REVOKED = frozenset({Cause.NOT_REVOKED, Cause.GONE})


@dataclass
class Written:
    """One record as it is in the log, and when it was written."""

    time_ms: int
    key: bytes
    value: bytes | None


@dataclass(kw_only=True)
class Told:
    """A target: what must be told of it. ``done``: when all members had it, and who came last.

    ``written_ms``: when it was written, which may be long after its epoch.
    """

    written_ms: int
    before: int
    after: int
    members: int
    owners_before: Owners
    owners: Owners
    done: tuple[int, str] | None = None

    @property
    def moves(self) -> tuple[int, int, int]:
        """How many units have another owner, have one now, have none now."""
        old, new = self.owners_before, self.owners
        moved = sum(1 for each in old if each in new and new[each] - old[each])
        return moved, len(new.keys() - old.keys()), len(old.keys() - new.keys())


@dataclass
class KafkaLog:
    """The group's log and what is true of it; ``told`` and ``causes`` by when a story begins.

    ``instead`` are causes that a log may show instead that the cleaner has been at.
    ``first_epoch`` is that of a group without records: 1, and 0 before Kafka 4.3.
    """

    rng: random.Random
    now: int = NOW
    log: list[Written] = field(default_factory=list)
    causes: dict[int, dict[Cause, str]] = field(default_factory=dict)
    instead: dict[int, frozenset[tuple[Cause, str]]] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    unchanged: list[tuple[int, str]] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)
    first_epoch: int = 1
    epoch: int = field(init=False)
    target_epoch: int = field(init=False)
    last: int = 0
    owners: Owners = field(default_factory=dict)
    since: int | None = None
    told_epoch: int = field(init=False)
    open: Told | None = None

    def __post_init__(self) -> None:
        self.epoch = self.target_epoch = self.told_epoch = self.first_epoch

    def write(self, *records: list[tuple[Any, Any]]) -> None:
        for those in records:
            for each in those:
                self.log.append(Written(self.now, *encode(Record(*each))))

    def because(self, causes: Mapping[Cause, str]) -> None:
        """Begin an epoch, because of one of these."""
        self.epoch += 1
        self.causes[self.now] = dict(causes)
        if self.since is None:
            self.since = self.now

    def assigned(self, owners: Owners, members: int) -> None:
        """Note a target of the newest epoch."""
        assert self.since is not None
        self.open = self.told[self.since] = Told(
            written_ms=self.now,
            before=self.told_epoch,
            after=self.epoch,
            members=members,
            owners_before=self.owners,
            owners=owners,
        )
        self.owners, self.since = owners, None
        self.target_epoch = self.told_epoch = self.epoch

    def emptied(self) -> None:
        """Note that the last member is gone: no target follows."""
        target_epoch, self.since = self.target_epoch, self.now
        self.assigned({}, 0)
        self.target_epoch, self.open = target_epoch, None

    def settle(self, *, is_done: bool, shown: str) -> None:
        """Note who wrote something last if everybody has the target now."""
        if self.open is not None and is_done:
            self.open.done, self.open = (self.now, shown), None

    def end(self) -> None:
        """Note that the group was deleted."""
        self.deaths.append(self.now)
        self.epoch = self.target_epoch = self.told_epoch = self.first_epoch
        self.owners, self.since, self.open = {}, None, None

    # --- a classic group with the same id, before or after

    def classic(self, tombstones: list[tuple[Any, Any]]) -> None:
        """Let a member of the classic protocol come to the empty group, and leave again."""
        self.write(tombstones, [generation(0)])
        if tombstones:
            self.deaths.append(self.now)
        self.now += 3_000
        self.causes[self.now] = {Cause.JOINED: "z"}
        self.write([generation(1, member("z", 0, 1), since=self.now)])
        self.now += 10_000
        self.causes[self.now] = dict.fromkeys(LEFT | EXPIRED, "z")
        self.write([generation(2, since=self.now)])

    @staticmethod
    def no_classic() -> list[tuple[Any, Any]]:
        """Return the tombstone of an empty classic group, in whose stead another one begins."""
        return [(GroupMetadataKey("g"), None)]


def owners_of(parts: Mapping[str, Iterable[Hashable]], numbers: Mapping[str, int]) -> Owners:
    """Return by unit the numbers of the members that have it."""
    found: dict[Hashable, set[int]] = {}
    for name, those in parts.items():
        for each in those:
            found.setdefault(each, set()).add(numbers[name])
    return {each: frozenset(those) for each, those in found.items()}
