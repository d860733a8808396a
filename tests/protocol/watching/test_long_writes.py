"""A write whose records come in many polls is told as one that comes in one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.groups.facts import GroupConverted, GroupDeleted, MemberEvent
from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
)
from tests.effort import examples
from tests.protocol.watching.kafka_group import KafkaGroup
from tests.protocol.watching.kafka_share import KafkaShareGroup
from tests.protocol.watching.kafka_streams import KafkaStreamsGroup
from tests.protocol.watching.records import (
    Watched,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.groups.facts import Fact

    Records = Sequence[tuple[Any, Any]]

MEMBERS = [f"m{number}" for number in range(12)]
NOTED = (MemberEvent, GroupConverted, GroupDeleted)
STEPS = 30
MODELS = (KafkaGroup, KafkaShareGroup, KafkaStreamsGroup)


def tombstones(names: Iterable[str]) -> Records:
    """Return those of a whole group, in Kafka's order."""
    currents, those, members = zip(*map(gone, names), strict=True)
    return [
        *currents,
        *those,
        (ConsumerGroupTargetAssignmentMetadataKey("g"), None),
        *members,
        (ConsumerGroupMetadataKey("g"), None),
    ]


def group(first: int = 2) -> Records:
    whole = dict.fromkeys(MEMBERS, ())
    return [
        *map(joined, MEMBERS),
        epoch(first),
        *targets(first, whole),
        *(current(name, first) for name in MEMBERS),
    ]


def removed(last: int) -> Records:
    tombstones = [each for name in MEMBERS[1:] for each in gone(name)]
    return [*tombstones, epoch(last), *targets(last, {"m0": (0,)}), current("m0", last, 0)]


REPLACED = [*gone("m0"), *gone("m1"), *group()[2:12], epoch(3), *targets(3, {"m2": (0,)})]
CLASSIC = list(map(member, MEMBERS))
WRITES: dict[str, Sequence[Records]] = {
    "removed": [group(), removed(3)],
    "removed and others written": [group(), REPLACED],
    "became consumer": [
        [generation(1, *CLASSIC)],
        [(GroupMetadataKey("g"), None), *group(1)],
        removed(2),
    ],
    "became classic": [
        group(),
        [*tombstones(MEMBERS), generation(2, *CLASSIC)],
        [generation(3, *CLASSIC)],
    ],
}


class Noting(Watched):
    """A cluster that also has what happened to members and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[Fact] = []

    def tell(self, facts: Iterable[Fact]) -> None:
        found = list(facts)
        self.facts += [each for each in found if isinstance(each, NOTED)]
        super().tell(found)

    def flush(self) -> None:
        self.tell(self.watch.flush())


@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("polls", [3, 5, 1_000])
def test_what_is_told_does_not_depend_on_polls(writes: Sequence[Records], polls: int) -> None:
    """A poll has 2,000 records at most, and the members of a group that goes have more."""
    said = []
    for count in (1, polls):
        watched, told = Noting(), []
        for write in writes:
            size = -(-len(write) // count)
            for at in range(0, len(write), size):
                watched.write(*write[at : at + size])
                watched.flush()
            told += watched.news()
            watched.now += 60_000
        said.append((told, watched.facts))
    assert said[0] == said[1]
    assert len(said[0][0]) == 2


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_poll_may_end_after_any_record(seed: int) -> None:
    model = MODELS[seed % len(MODELS)](random.Random(seed))
    for _ in range(STEPS):
        model.step()
    said = []
    for part in (0.0, 0.5, 1.0):
        watched, chance = Noting(), random.Random(seed)
        for each in model.log:
            watched.now = each.time_ms
            watched.take(each.key, each.value)
            if chance.random() < part:
                watched.flush()
        said.append((watched.news(), watched.facts))
    assert said[0] == said[1] == said[2]
