"""When committed offsets expire (KIP-211), and empty groups with them."""

import pytest

from protocol.groups.facts import GroupDeleted
from protocol.groups.offsets import expiry as offset_expiry
from protocol.records import GroupMetadataKey, OffsetCommitValue, Record
from tests.protocol.groups.offsets.offset_talk import (
    MINUTE,
    ORDERS,
    T0,
    OffsetTalk,
    group_record,
    key,
    milliseconds,
)

RETENTION = 100 * MINUTE


@pytest.fixture
def talk() -> OffsetTalk:
    return OffsetTalk(
        {
            "offsets.retention.minutes": "100",
            "offsets.retention.check.interval.ms": str(10 * MINUTE),
        }
    )


def test_a_simple_consumers_offset_expires_after_its_commit(talk: OffsetTalk) -> None:
    talk.commit_offsets("orders", (0, 1, ""))
    talk.advance(50 * MINUTE)
    talk.commit_offsets("orders", (1, 2, ""))
    talk.advance(49 * MINUTE)
    assert len(talk.offsets()) == 2
    talk.advance(1 * MINUTE)
    assert list(talk.offsets()) == [("orders", 1)]


def test_an_empty_groups_offsets_live_on_from_when_it_became_empty(talk: OffsetTalk) -> None:
    # KIP-211: "the offsets of an empty group expire together, however old their commits are"
    talk.replay(group_record(since_ms=T0 + 60 * MINUTE))
    talk.commit_offsets("orders", (0, 1, ""))
    talk.advance(159 * MINUTE)
    assert len(talk.offsets()) == 1
    talk.advance(1 * MINUTE)
    assert talk.offsets() == {}


def test_a_record_without_the_time_of_its_state_falls_back_to_the_commit(talk: OffsetTalk) -> None:
    talk.replay(group_record(since_ms=-1))
    talk.commit_offsets("orders", (0, 1, ""))
    talk.advance(RETENTION)
    assert talk.offsets() == {}


def test_subscribed_topics_do_not_expire_while_stable_and_others_do(talk: OffsetTalk) -> None:
    talk.replay(group_record(members=1))
    for topic in ("orders", "audit"):
        talk.commit_offsets(topic, (0, 1, ""), generation_id_or_member_epoch=1, member_id="m0")
    talk.advance(RETENTION)
    assert list(talk.offsets()) == [("orders", 0)]


@pytest.mark.parametrize(
    "record",
    [
        group_record(members=1, protocol_type="connect"),
        group_record(members=1, subscription=b"\xff"),
    ],
    ids=["another protocol type", "a subscription nobody can read"],
)
def test_nothing_expires_while_nobody_knows_what_is_consumed(
    talk: OffsetTalk, record: Record
) -> None:
    talk.replay(record)
    talk.commit_offsets("audit", (0, 1, ""), generation_id_or_member_epoch=1, member_id="m0")
    talk.advance(10 * RETENTION)
    assert len(talk.offsets()) == 1


def test_a_clients_own_retention_time_goes_before_the_brokers(talk: OffsetTalk) -> None:
    talk.commit_offsets("orders", (0, 1, ""), version=4, retention_time=milliseconds(15 * MINUTE))
    talk.commit_offsets("orders", (1, 1, ""), version=4, retention_time=milliseconds(3 * RETENTION))
    talk.advance(20 * MINUTE)
    assert list(talk.offsets()) == [("orders", 1)]
    talk.advance(2 * RETENTION)
    assert list(talk.offsets()) == [("orders", 1)]
    talk.advance(RETENTION)
    assert talk.offsets() == {}


def test_a_group_goes_with_its_last_offset(talk: OffsetTalk) -> None:
    talk.commit_offsets("orders", (0, 1, ""))
    talk.advance(RETENTION)
    assert talk.tombstones() == [key("orders", 0), GroupMetadataKey("g")]
    assert talk.facts == [GroupDeleted(group_id="g", time_ms=T0 + RETENTION)]


def test_an_empty_group_without_offsets_goes_at_the_next_look(talk: OffsetTalk) -> None:
    talk.replay(group_record())
    talk.advance(10 * MINUTE)
    assert talk.tombstones() == [GroupMetadataKey("g")]


def test_a_group_with_members_and_no_offsets_stays(talk: OffsetTalk) -> None:
    talk.replay(group_record(members=1))
    talk.advance(10 * RETENTION)
    assert talk.tombstones() == []


def test_looking_goes_in_slices_and_reaches_every_group(
    talk: OffsetTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE", 7)
    for number in range(40):
        value = OffsetCommitValue(
            offset=1, metadata="", commit_timestamp=T0, topic_id=ORDERS.topic_id
        )
        talk.replay(Record(key("orders", number % 4, f"group-{number}"), value))
    talk.advance(RETENTION)
    assert {one.group for one in talk.tombstones()} == {f"group-{n}" for n in range(40)}
