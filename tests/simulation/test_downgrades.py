"""The checker of downgrades: what it takes for a loss, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from failover.simulation.checkers.downgrades import Downgrades
from failover.simulation.event_log import Violation
from protocol.records import GroupMetadataKey, Record, decode, encode
from tests.protocol.groups.conversation import topic_id
from tests.protocol.groups.migration.mixed_talk import MixedTalk

HELD = {("a", 0), ("a", 1), ("a", 2), ("a", 3)}
NAMES = {topic_id(name): name for name in "ab"}


def downgraded() -> tuple[MixedTalk, list[Record]]:
    """Give a reference that stands before the downgrade of B's group, and its records."""
    talk = MixedTalk(topics={"a": 4})
    talk.classic_group("B")
    talk.join("A")
    talk.leave("A")
    assert not talk.is_consumer_group
    assert talk.result is not None
    batch = talk.result.records
    assert any(isinstance(record.key, GroupMetadataKey) and record.value for record in batch)
    reference = MixedTalk(topics={"a": 4})
    for record in talk.records[: len(talk.records) - len(batch)]:
        reference.shard.replay(decode(*encode(record)))
    return reference, batch


def check(reference: MixedTalk, batch: list[Record], gave_up: set[tuple[str, int]]) -> None:
    asked = []

    def has_given_up(group_id: str, _: str, since: int, until: int) -> set[tuple[str, int]]:
        asked.append((group_id, since, until))
        return gave_up

    downgrades = Downgrades(NAMES.get, has_given_up)
    downgrades.begin(3, 7)
    for record in batch:
        downgrades.check(reference.context, record)
        reference.shard.replay(decode(*encode(record)))
    assert set(asked) <= {("g", 3, 7)}


def forgetful(batch: list[Record]) -> list[Record]:
    """Let the generation say that nobody has anything."""
    return [
        replace(
            record,
            value=replace(
                record.value,
                members=tuple(replace(each, assignment=b"") for each in record.value.members),
            ),
        )
        if isinstance(record.key, GroupMetadataKey)
        else record
        for record in batch
    ]


def test_a_downgrade_that_names_what_members_have_is_good() -> None:
    check(*downgraded(), set())


def test_what_a_member_has_and_the_generation_does_not_name_is_lost() -> None:
    reference, batch = downgraded()
    with pytest.raises(Violation, match="knows nothing"):
        check(reference, forgetful(batch), HELD - {("a", 3)})


def test_what_a_member_gave_up_in_that_turn_is_not_lost() -> None:
    reference, batch = downgraded()
    check(reference, forgetful(batch), HELD)
