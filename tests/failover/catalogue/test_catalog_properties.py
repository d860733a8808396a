"""The catalogue's log alone tells its state; its records survive their bytes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.catalogue.catalog import Catalog, ClusterFormed, NodeChanged
from failover.catalogue.cluster_view import TOPIC, Node
from failover.catalogue.records import RECORD_TYPES, decode, encode
from protocol.config import Configs
from protocol.records import BadRecord, Record, UnknownRecordType
from protocol.wire import messages as m
from protocol.wire.writers import encoder
from tests.effort import examples
from tests.failover.catalogue.catalogs import SECOND, Keeper, topic
from tests.protocol.wire.later import written_later
from tests.protocol.wire.strategies import messages

NAMES = st.sampled_from(["orders", "audit", "a.b", "a_b", "not valid"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(-1, 3), st.integers(-1, 4)),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("grow"), NAMES, st.integers(0, 6)),
        st.tuples(st.just("alter"), NAMES, st.integers(0, 3), st.sampled_from(["5", "x"])),
        st.tuples(st.just("node"), st.integers(0, 4), st.booleans()),
    ),
    max_size=30,
)


def take(keeper: Keeper, step: tuple[object, ...]) -> None:
    match step:
        case ("create", str(name), int(partitions), int(replicas)):
            keeper.create(topic(name, partitions, replicas, {"retention.ms": "7"}))
        case ("delete", str(name)):
            keeper.delete(name)
        case ("grow", str(name), int(count)):
            asked = m.CreatePartitionsTopic(name=name, count=count, assignments=None)
            keeper.ask(
                37, m.CreatePartitionsRequest(topics=(asked,), timeout=SECOND, validate_only=False)
            )
        case ("alter", str(name), int(operation), str(value)):
            keeper.alter(TOPIC, name, ("segment.ms", operation, value))
        case ("node", int(number), bool(up)):
            keeper.do(NodeChanged(Node(number, "host", 9000 + number, up)))


def replayed(records: list[Record]) -> Catalog:
    catalog = Catalog(Configs(), random.Random(2))
    for record in records:
        catalog.replay(decode(*encode(record)))
    return catalog


def state(catalog: Catalog) -> tuple[object, ...]:
    image = catalog.image
    return image.topics, image.nodes, image.overrides


def compacted(records: list[Record]) -> list[Record]:
    last = {record.key: record for record in records}
    return [record for record in last.values() if record.value is not None]


@given(STEPS)
def test_a_replayed_catalogue_equals_the_live_one(steps: list[tuple[object, ...]]) -> None:
    keeper = Keeper()
    records = keeper.catalog.snapshot()
    for step in steps:
        take(keeper, step)
    records += keeper.records
    live = state(keeper.catalog)
    assert state(replayed(records)) == live
    assert state(replayed(compacted(records))) == live
    assert state(replayed(keeper.catalog.snapshot())) == live


@given(STEPS)
def test_deleted_topics_leave_no_configs(steps: list[tuple[object, ...]]) -> None:
    keeper = Keeper()
    for step in steps:
        take(keeper, step)
    image = keeper.catalog.image
    assert {name for _, name in image.overrides} <= set(image.topics.names())


def test_the_image_is_one_object_until_something_changes() -> None:
    keeper = Keeper()
    image = keeper.catalog.image
    assert keeper.catalog.image is image
    keeper.create(topic("orders"))
    assert keeper.catalog.image is not image
    assert "orders" not in image.topics


def test_forming_the_cluster_again_changes_nothing() -> None:
    keeper = Keeper()
    assert keeper.do(ClusterFormed([(0,)] * 5)).records == []
    assert keeper.do(NodeChanged(Node(0, "host0", 9092))).records == []


def test_records_of_an_unknown_type_or_version_are_told_from_damaged_ones() -> None:
    keeper = Keeper()
    key, value = encode(keeper.catalog.snapshot()[0])
    assert value is not None
    with pytest.raises(UnknownRecordType):
        decode(b"\x00\x01" + key[2:], value)
    with pytest.raises(UnknownRecordType):
        decode(key, b"\x00\x09" + value[2:])
    with pytest.raises(BadRecord):
        decode(key[:3], value)


@pytest.mark.parametrize("number", RECORD_TYPES)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_tagged_fields_of_a_later_version_are_skipped(number: int, data: st.DataObject) -> None:
    """KIP-482: a reader ignores tagged fields that it does not know, in every struct."""
    key_shape, value_shape = RECORD_TYPES[number]
    key, value = data.draw(messages(key_shape)), data.draw(messages(value_shape))
    head, version = number.to_bytes(2, "big"), value_shape.__version__.to_bytes(2, "big")
    plain = decode(head + encoder(key_shape)(key), version + encoder(value_shape)(value))
    assert decode(head + written_later(key), version + written_later(value)) == plain
