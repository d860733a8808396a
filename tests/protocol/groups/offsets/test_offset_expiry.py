"""When committed offsets expire (KIP-211), and empty groups with them."""

import pytest

from protocol.groups.facts import GroupDeleted
from protocol.groups.offsets import expiry as offset_expiry
from protocol.records import GroupMetadataKey, OffsetCommitValue, Record
from tests.protocol.groups.offsets.offset_asks import (
    MINUTE,
    ORDERS,
    T0,
    Asker,
    group_record,
    key,
    milliseconds,
)

RETENTION = 100 * MINUTE


@pytest.fixture
def asker() -> Asker:
    return Asker(
        offsets_retention_minutes="100", offsets_retention_check_interval_ms=str(10 * MINUTE)
    )


def test_a_simple_consumers_offset_expires_after_its_commit(asker: Asker) -> None:
    asker.commit("orders", (0, 1, ""))
    asker.wait(50 * MINUTE)
    asker.commit("orders", (1, 2, ""))
    asker.wait(49 * MINUTE)
    assert len(asker.offsets()) == 2
    asker.wait(1 * MINUTE)
    assert list(asker.offsets()) == [("orders", 1)]


def test_an_empty_groups_offsets_live_on_from_when_it_became_empty(asker: Asker) -> None:
    # KIP-211: "the offsets of an empty group expire together, however old their commits are"
    asker.replay(group_record(since_ms=T0 + 60 * MINUTE))
    asker.commit("orders", (0, 1, ""))
    asker.wait(159 * MINUTE)
    assert len(asker.offsets()) == 1
    asker.wait(1 * MINUTE)
    assert asker.offsets() == {}


def test_a_record_without_the_time_of_its_state_falls_back_to_the_commit(asker: Asker) -> None:
    asker.replay(group_record(since_ms=-1))
    asker.commit("orders", (0, 1, ""))
    asker.wait(RETENTION)
    assert asker.offsets() == {}


def test_subscribed_topics_do_not_expire_while_stable_and_others_do(asker: Asker) -> None:
    asker.replay(group_record(members=1))
    for topic in ("orders", "audit"):
        asker.commit(topic, (0, 1, ""), generation_id_or_member_epoch=1, member_id="m0")
    asker.wait(RETENTION)
    assert list(asker.offsets()) == [("orders", 0)]


@pytest.mark.parametrize(
    "record",
    [
        group_record(members=1, protocol_type="connect"),
        group_record(members=1, subscription=b"\xff"),
    ],
    ids=["another protocol type", "a subscription nobody can read"],
)
def test_nothing_expires_while_nobody_knows_what_is_consumed(asker: Asker, record: Record) -> None:
    asker.replay(record)
    asker.commit("audit", (0, 1, ""), generation_id_or_member_epoch=1, member_id="m0")
    asker.wait(10 * RETENTION)
    assert len(asker.offsets()) == 1


def test_a_clients_own_retention_time_goes_before_the_brokers(asker: Asker) -> None:
    asker.commit("orders", (0, 1, ""), version=4, retention_time=milliseconds(15 * MINUTE))
    asker.commit("orders", (1, 1, ""), version=4, retention_time=milliseconds(3 * RETENTION))
    asker.wait(20 * MINUTE)
    assert list(asker.offsets()) == [("orders", 1)]
    asker.wait(2 * RETENTION)
    assert list(asker.offsets()) == [("orders", 1)]
    asker.wait(RETENTION)
    assert asker.offsets() == {}


def test_a_group_goes_with_its_last_offset(asker: Asker) -> None:
    asker.commit("orders", (0, 1, ""))
    asker.wait(RETENTION)
    assert asker.tombstones() == [key("orders", 0), GroupMetadataKey("group")]
    assert asker.facts == [GroupDeleted(group_id="group", time_ms=T0 + RETENTION)]


def test_an_empty_group_without_offsets_goes_at_the_next_look(asker: Asker) -> None:
    asker.replay(group_record())
    asker.wait(10 * MINUTE)
    assert asker.tombstones() == [GroupMetadataKey("group")]


def test_a_group_with_members_and_no_offsets_stays(asker: Asker) -> None:
    asker.replay(group_record(members=1))
    asker.wait(10 * RETENTION)
    assert asker.tombstones() == []


def test_looking_goes_in_slices_and_reaches_every_group(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE", 7)
    for number in range(40):
        value = OffsetCommitValue(
            offset=1, metadata="", commit_timestamp=T0, topic_id=ORDERS.topic_id
        )
        asker.replay(Record(key("orders", number % 4, f"group-{number}"), value))
    asker.wait(RETENTION)
    assert {one.group for one in asker.tombstones()} == {f"group-{n}" for n in range(40)}
