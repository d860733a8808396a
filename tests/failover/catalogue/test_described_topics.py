"""Metadata's topics are built once, and again when what they show is different."""

from dataclasses import replace

import pytest

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import ClusterView, Node
from failover.catalogue.described_topics import DescribedTopics
from protocol.wire import messages as m
from protocol.wire.messages import MetadataRequest, MetadataResponseTopic
from tests.failover.apis import asks
from tests.failover.catalogue.catalogs import SECOND, Keeper, answer, topic
from tests.failover.working import working_driver

METADATA, CREATE_TOPICS, CREATE_PARTITIONS = 3, 19, 37


class Node0:
    """The views of one node, which share what is built."""

    def __init__(self) -> None:
        self.keeper = Keeper()
        self.keeper.create(topic("orders", 3, 2), topic("audit", 1))
        self.leaders = {0: 0, 1: 1, 2: 2}
        self.described = DescribedTopics()

    def view(self) -> ClusterView:
        return replace(self.keeper.view(leaders=dict(self.leaders)), described=self.described)

    def metadata(self, *, with_operations: bool = False) -> dict[str, MetadataResponseTopic]:
        request = MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=with_operations,
        )
        response = answer(self.view(), METADATA, request)
        return {each.name: each for each in response.topics}


@pytest.fixture
def node() -> Node0:
    return Node0()


def rebuilt(node: Node0, before: dict[str, MetadataResponseTopic]) -> set[str]:
    """Return the topics that the next answer does not share with the one before."""
    after = node.metadata()
    return {name for name, each in after.items() if each is not before.get(name)}


def test_a_new_topic_is_built_and_no_other(node: Node0) -> None:
    before = node.metadata()
    node.keeper.create(topic("payments", 2))
    assert rebuilt(node, before) == {"payments"}


def test_a_topic_with_more_partitions_is_built_again(node: Node0) -> None:
    before = node.metadata()
    more = m.CreatePartitionsTopic(name="audit", count=4, assignments=None)
    message = m.CreatePartitionsRequest(topics=(more,), timeout=SECOND, validate_only=False)
    node.keeper.ask(CREATE_PARTITIONS, message)
    assert rebuilt(node, before) == {"audit"}
    assert len(node.metadata()["audit"].partitions) == 4


def test_a_topic_that_was_deleted_and_created_is_built_again(node: Node0) -> None:
    before = node.metadata()
    node.keeper.delete("audit")
    node.keeper.create(topic("audit", 1))
    assert rebuilt(node, before) == {"audit"}


def test_a_deleted_topic_is_forgotten(node: Node0) -> None:
    orders = node.keeper.catalog.topics().by_name("orders")
    assert orders is not None
    node.metadata()
    assert node.described.find(orders, with_operations=False) is not None
    node.keeper.delete("orders")
    assert "orders" not in node.metadata()
    assert node.described.find(orders, with_operations=False) is None


def test_all_topics_are_built_again_when_a_node_goes_down(node: Node0) -> None:
    before = node.metadata()
    node.keeper.do(NodeChanged(Node(0, "host0", 9092, up=False)))
    assert rebuilt(node, before) == set(before)
    assert {each.leader_id for each in node.metadata()["orders"].partitions} == {1, 2}


def test_all_topics_are_built_again_when_a_leader_changes(node: Node0) -> None:
    before = node.metadata()
    node.leaders[0] = 2
    assert rebuilt(node, before) == set(before)
    assert node.metadata()["__consumer_offsets"].partitions[0].leader_id == 2


def test_topics_with_operations_are_others(node: Node0) -> None:
    plain, detailed = node.metadata(), node.metadata(with_operations=True)
    operations = {each.topic_authorized_operations for each in detailed.values()}
    assert operations.isdisjoint({each.topic_authorized_operations for each in plain.values()})
    assert rebuilt(node, plain) == set()


def test_a_host_keeps_what_it_built_when_a_topic_is_created() -> None:
    driver = working_driver()
    everything = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    before = {each.name: each for each in driver.ask(METADATA, 13, everything).topics}
    driver.ask(CREATE_TOPICS, 7, asks.create_topics("new"))
    after = {each.name: each for each in driver.ask(METADATA, 13, everything).topics}
    assert {name for name, each in after.items() if each is not before.get(name)} == {"new"}
