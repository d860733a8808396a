"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from typing import Any
from uuid import UUID

import pytest

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Mutating, Node
from failover.partition_kinds import SHARE_STATE
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode, KafkaError
from tests.failover.catalogue.catalogs import Keeper, answer, topic

NONE = ErrorCode.none
NO_OPERATIONS = -(2**31)


@pytest.fixture
def keeper() -> Keeper:
    keeper = Keeper()
    keeper.create(topic("orders", 3, 2), topic("audit", 1))
    return keeper


def asked(*topics: str | UUID, create: bool = False, **flags: bool) -> m.MetadataRequest:
    return m.MetadataRequest(
        topics=tuple(
            m.MetadataRequestTopic(
                topic_id=one if isinstance(one, UUID) else None,
                name=one if isinstance(one, str) else None,
            )
            for one in topics
        ),
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=flags.get("topic_operations", False),
        include_cluster_authorized_operations=flags.get("cluster_operations", False),
    )


EVERYTHING = m.MetadataRequest(
    topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
)


class TestMetadata:
    def test_lists_all_topics_the_internal_one_included(self, keeper: Keeper) -> None:
        response = answer(keeper.view(), 3, EVERYTHING)
        assert [(one.name, one.is_internal, len(one.partitions)) for one in response.topics] == [
            ("__consumer_offsets", True, 3),
            ("__share_group_state", True, 3),
            ("audit", False, 1),
            ("orders", False, 3),
        ]
        assert [(one.node_id, one.host, one.port) for one in response.brokers] == [
            (0, "host0", 9092),
            (1, "host1", 9093),
            (2, "host2", 9094),
        ]
        assert (response.cluster_id, response.controller_id) == ("cluster", 0)

    def test_the_coordinators_lead_the_offsets_topic(self, keeper: Keeper) -> None:
        view = keeper.view(leaders={0: 2, 1: 1})
        (offsets,) = answer(view, 3, asked("__consumer_offsets")).topics
        assert [(one.leader_id, one.error_code) for one in offsets.partitions] == [
            (2, NONE),
            (1, NONE),
            (-1, ErrorCode.leader_not_available),
        ]

    def test_the_coordinators_lead_the_topic_of_share_state(self, keeper: Keeper) -> None:
        view = keeper.view(leaders={0: 2, SHARE_STATE.number(0): 1})
        (state,) = answer(view, 3, asked("__share_group_state")).topics
        assert [each.leader_id for each in state.partitions] == [1, -1, -1]

    def test_nodes_are_shown_with_the_rack_they_are_on(self, keeper: Keeper) -> None:
        keeper.do(NodeChanged(Node(0, "host0", 9092, rack="r1")))
        keeper.do(NodeChanged(Node(1, "host1", 9093, rack="r2")))
        view = keeper.view()
        asked_for = m.DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=False
        )
        for response in (answer(view, 3, EVERYTHING), answer(view, 60, asked_for)):
            assert [one.rack for one in response.brokers] == ["r1", "r2", None]
        assert view.catalog.topics.racks == {0: "r1", 1: "r2"}

    def test_a_node_that_goes_down_keeps_its_rack(self, keeper: Keeper) -> None:
        keeper.do(NodeChanged(Node(0, "host0", 9092, rack="r1")))
        topics = keeper.view().catalog.topics
        keeper.do(NodeChanged(Node(0, "host0", 9092, up=False)))
        assert keeper.view().catalog.topics is topics
        assert keeper.view().catalog.nodes[0] == Node(0, "host0", 9092, False, "r1")

    def test_a_node_that_is_down_is_not_listed_and_leads_nothing(self, keeper: Keeper) -> None:
        keeper.do(NodeChanged(Node(0, "host0", 9092, up=False)))
        response = answer(keeper.view(node_id=1), 3, asked("orders", "__consumer_offsets"))
        assert [one.node_id for one in response.brokers] == [1, 2]
        assert response.controller_id == 1
        orders, offsets = response.topics
        assert {one.leader_id for one in orders.partitions} == {1, 2}
        for one in orders.partitions:
            assert set(one.isr_nodes) == set(one.replica_nodes) - {0}
            assert one.offline_replicas == ((0,) if 0 in one.replica_nodes else ())
        assert offsets.partitions[0].error_code is ErrorCode.leader_not_available

    def test_topics_by_id(self, keeper: Keeper) -> None:
        orders = keeper.catalog.topics().by_name("orders")
        assert orders is not None
        response = answer(keeper.view(), 3, asked(UUID(int=9), orders.topic_id, "audit"))
        assert [(one.name, one.topic_id, one.error_code) for one in response.topics] == [
            (None, UUID(int=9), ErrorCode.unknown_topic_id),
            ("orders", orders.topic_id, NONE),
        ]

    @pytest.mark.parametrize(
        "name, code, created",
        [
            ("missing", ErrorCode.unknown_topic_or_partition, True),
            ("not valid", ErrorCode.invalid_topic_exception, False),
            ("__transaction_state", ErrorCode.unknown_topic_or_partition, False),
        ],
    )
    def test_a_missing_topic_is_created_behind_the_answer(
        self, keeper: Keeper, name: str, code: ErrorCode, created: bool
    ) -> None:
        got = answer(keeper.view(), 3, asked(name, "orders", create=True))
        response = got.response if isinstance(got, Mutating) else got
        assert {one.name: one.error_code for one in response.topics} == {name: code, "orders": NONE}
        assert isinstance(got, Mutating) == created
        if created:
            keeper.ask(19, got.mutation)
            (again,) = answer(keeper.view(), 3, asked(name, create=True)).topics
            assert (again.error_code, len(again.partitions)) == (NONE, 1)

    def test_nothing_is_created_unasked(self, keeper: Keeper) -> None:
        assert not isinstance(answer(keeper.view(), 3, asked("missing")), Mutating)
        assert not isinstance(answer(keeper.view(), 3, EVERYTHING), Mutating)
        strict = Keeper(auto_create_topics_enable="false")
        assert not isinstance(answer(strict.view(), 3, asked("missing", create=True)), Mutating)

    def test_doubles_are_answered_once(self, keeper: Keeper) -> None:
        assert len(answer(keeper.view(), 3, asked("orders", "orders")).topics) == 1

    def test_ids_need_version_12(self, keeper: Keeper) -> None:
        with pytest.raises(KafkaError) as raised:
            answer(keeper.view(), 3, asked(UUID(int=9)), 11)
        assert raised.value.code is ErrorCode.invalid_request

    def test_operations_are_returned_if_requested(self, keeper: Keeper) -> None:
        plain = answer(keeper.view(), 3, asked("orders"))
        assert plain.cluster_authorized_operations == NO_OPERATIONS
        assert plain.topics[0].topic_authorized_operations == NO_OPERATIONS
        full = answer(
            keeper.view(), 3, asked("orders", topic_operations=True, cluster_operations=True)
        )
        assert full.cluster_authorized_operations == 8096
        assert full.topics[0].topic_authorized_operations == 3576


class TestDescribeCluster:
    def ask(self, keeper: Keeper, fenced: bool = False, endpoint_type: int = 1) -> Any:
        message = m.DescribeClusterRequest(
            include_cluster_authorized_operations=True,
            endpoint_type=endpoint_type,
            include_fenced_brokers=fenced,
        )
        return answer(keeper.view(), 60, message)

    def test_lists_the_nodes(self, keeper: Keeper) -> None:
        keeper.do(NodeChanged(Node(2, "host2", 9094, up=False)))
        response = self.ask(keeper)
        assert [one.broker_id for one in response.brokers] == [0, 1]
        assert (response.cluster_id, response.cluster_authorized_operations) == ("cluster", 8096)
        fenced = self.ask(keeper, fenced=True).brokers
        assert [(one.broker_id, one.is_fenced) for one in fenced] == [
            (0, False),
            (1, False),
            (2, True),
        ]

    @pytest.mark.parametrize(
        "endpoint_type, code",
        [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
    )
    def test_other_endpoints_are_not_served(
        self, keeper: Keeper, endpoint_type: int, code: ErrorCode
    ) -> None:
        with pytest.raises(KafkaError) as raised:
            self.ask(keeper, endpoint_type=endpoint_type)
        assert raised.value.code is code


class TestDescribeTopicPartitions:
    def ask(
        self,
        keeper: Keeper,
        *names: str,
        limit: int = 2000,
        cursor: tuple[str, int] | None = None,
    ) -> Any:
        message = m.DescribeTopicPartitionsRequest(
            topics=tuple(m.TopicRequest(name=name) for name in names),
            response_partition_limit=limit,
            cursor=cursor and m.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        return answer(keeper.view(), 75, message)

    def pages(self, keeper: Keeper, *names: str, limit: int) -> list[list[tuple[str, int]]]:
        found, cursor = [], None
        while True:
            response = self.ask(keeper, *names, limit=limit, cursor=cursor)
            found.append(
                [
                    (one.name, partition.partition_index)
                    for one in response.topics
                    for partition in one.partitions
                ]
            )
            if response.next_cursor is None:
                return found
            cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)

    def test_pages_through_all_topics_in_the_order_of_their_names(self, keeper: Keeper) -> None:
        everything = [
            *(("__consumer_offsets", index) for index in range(3)),
            *(("__share_group_state", index) for index in range(3)),
            ("audit", 0),
            *(("orders", index) for index in range(3)),
        ]
        for limit in range(1, 9):
            pages = self.pages(keeper, limit=limit)
            assert [one for page in pages for one in page] == everything
            assert all(len(page) <= limit for page in pages)

    def test_names_missing_topics(self, keeper: Keeper) -> None:
        response = self.ask(keeper, "orders", "missing", "not valid")
        assert [(one.name, one.error_code) for one in response.topics] == [
            ("missing", ErrorCode.unknown_topic_or_partition),
            ("not valid", ErrorCode.invalid_topic_exception),
            ("orders", NONE),
        ]

    def test_the_limit_is_at_least_one_and_at_most_the_brokers(self, keeper: Keeper) -> None:
        assert len(self.pages(keeper, "orders", limit=-5)) == 3
        small = Keeper(max_request_partition_size_limit="2")
        small.create(topic("orders", 3))
        assert len(self.pages(small, "orders", limit=2000)) == 2

    @pytest.mark.parametrize("names, cursor", [(("audit",), ("orders", 0)), ((), ("orders", -1))])
    def test_cursors_that_can_not_be(
        self, keeper: Keeper, names: tuple[str, ...], cursor: tuple[str, int]
    ) -> None:
        with pytest.raises(KafkaError) as raised:
            self.ask(keeper, *names, cursor=cursor)
        assert raised.value.code is ErrorCode.invalid_request

    def test_a_cursor_may_name_a_topic_deleted_meanwhile(self, keeper: Keeper) -> None:
        response = self.ask(keeper, cursor=("gone", 5))
        assert [(one.name, len(one.partitions)) for one in response.topics] == [("orders", 3)]
