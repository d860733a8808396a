"""Produce: listed as Kafka lists it, and refused for each partition."""

from typing import Any
from uuid import UUID

import pytest

from failover.apis.produce import NOT_STORED
from failover.catalogue.cluster_view import ClusterView
from protocol.wire import messages as m
from protocol.wire.apis import api_versions_response
from protocol.wire.errors import ErrorCode
from tests.failover.catalogue.catalogs import SECOND, Keeper, answer, topic


@pytest.fixture
def view() -> ClusterView:
    keeper = Keeper()
    keeper.create(topic("orders", assignments=[(0, (0,)), (1, (1,))]))
    return keeper.view()


def ask(view: ClusterView, name: str | UUID, index: int, acks: int = -1, version: int = 12) -> Any:
    partition = m.PartitionProduceData(index=index, records=b"whatever")
    data = m.TopicProduceData(
        topic_id=name if isinstance(name, UUID) else None,
        name=name if isinstance(name, str) else "",
        partition_data=(partition,),
    )
    message = m.ProduceRequest(transactional_id=None, acks=acks, timeout=SECOND, topic_data=(data,))
    (found,) = answer(view, 0, message, version).responses
    assert (found.topic_id, found.name) == (data.topic_id, data.name)
    (one,) = found.partition_responses
    assert (one.index, one.base_offset, one.record_errors) == (index, -1, ())
    return one.error_code, one.error_message


@pytest.mark.parametrize(
    "name, index, acks, expected",
    [
        ("orders", 0, -1, (ErrorCode.policy_violation, NOT_STORED)),
        ("orders", 0, 1, (ErrorCode.policy_violation, NOT_STORED)),
        ("orders", 1, -1, (ErrorCode.policy_violation, NOT_STORED)),  # the same wherever it is led
        ("orders", 2, -1, (ErrorCode.unknown_topic_or_partition, None)),
        ("orders", -1, -1, (ErrorCode.unknown_topic_or_partition, None)),
        ("missing", 0, -1, (ErrorCode.unknown_topic_or_partition, None)),
        ("orders", 0, 2, (ErrorCode.invalid_required_acks, None)),
    ],
)
def test_records_are_refused(
    view: ClusterView, name: str, index: int, acks: int, expected: tuple[ErrorCode, str | None]
) -> None:
    assert ask(view, name, index, acks) == expected


def test_topics_by_id_from_version_13(view: ClusterView) -> None:
    orders = view.catalog.topics.by_name("orders")
    assert orders is not None
    assert ask(view, orders.topic_id, 0, version=13)[0] is ErrorCode.policy_violation
    assert ask(view, UUID(int=9), 0, version=13)[0] is ErrorCode.unknown_topic_id


def test_the_versions_are_those_by_which_clients_judge_a_broker() -> None:
    # librdkafka's features MsgVer1 (Produce 2, Fetch 2), MsgVer2 (3, 4) and ZSTD (7, 10); without
    # the second it sends Fetch 2, which is not served, and never stops trying.
    listed = {each.api_key: each for each in api_versions_response().api_keys}
    assert (listed[0].min_version, listed[0].max_version) == (0, 13)
    assert (listed[1].min_version, listed[1].max_version) == (4, 18)
