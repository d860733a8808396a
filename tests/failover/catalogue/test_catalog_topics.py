"""CreateTopics, DeleteTopics and CreatePartitions as Kafka's controller answers them."""

from typing import Any
from uuid import UUID

import pytest

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.catalogue.records import ConfigKey, TopicKey
from failover.catalogue.state import CATALOG_GROUP
from failover.catalogue.topic_names import OWN_LOGS
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.catalogue.catalogs import SECOND, Keeper, request, topic

NONE = ErrorCode.none
BAD_ASSIGNMENT = ErrorCode.invalid_replica_assignment


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


class TestCreate:
    def test_a_topic_has_an_id_and_partitions_led_by_every_node(self, keeper: Keeper) -> None:
        result = keeper.create(topic("orders", 6, 2))["orders"]
        assert (result.error_code, result.error_message) == (NONE, None)
        assert (result.num_partitions, result.replication_factor) == (6, 2)
        made = keeper.catalog.topics().by_id(result.topic_id)
        assert made is not None and made.name == "orders"
        leaders = [nodes[0] for nodes in made.replicas]
        assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
        assert all(len(set(nodes)) == 2 for nodes in made.replicas)

    def test_defaults_come_from_the_configs(self) -> None:
        keeper = Keeper(num_partitions="4", default_replication_factor="3")
        result = keeper.create(topic("orders"))["orders"]
        assert (result.num_partitions, result.replication_factor) == (4, 3)

    def test_placement_is_the_same_wherever_it_is_computed(self) -> None:
        first, second = Keeper(), Keeper()
        second.catalog._rng.random()
        for keeper in (first, second):
            keeper.create(topic("orders", 5, 2))
        assert (
            first.catalog.topics().by_name("orders").replicas  # type: ignore[union-attr]
            == second.catalog.topics().by_name("orders").replicas  # type: ignore[union-attr]
        )

    def test_the_answer_waits_for_the_catalogues_records(self, keeper: Keeper) -> None:
        message = m.CreateTopicsRequest(topics=(topic("orders"),), timeout=SECOND)
        (reply,) = keeper.do(request(19, message)).replies
        assert reply.group_id == CATALOG_GROUP

    @pytest.mark.parametrize(
        "name, code",
        [
            ("", ErrorCode.invalid_topic_exception),
            (".", ErrorCode.invalid_topic_exception),
            ("..", ErrorCode.invalid_topic_exception),
            ("with space", ErrorCode.invalid_topic_exception),
            ("ümlaut", ErrorCode.invalid_topic_exception),
            ("x" * 250, ErrorCode.invalid_topic_exception),
            ("x" * 249, NONE),
            ("A.b_C-9", NONE),
            ("__consumer_offsets", ErrorCode.topic_already_exists),
            ("..consumer_offsets", ErrorCode.invalid_topic_exception),
            ("__cluster_metadata", ErrorCode.invalid_request),
            ("taken", ErrorCode.topic_already_exists),
            ("a.b", ErrorCode.invalid_topic_exception),
        ],
    )
    def test_names(self, keeper: Keeper, name: str, code: ErrorCode) -> None:
        keeper.create(topic("taken"), topic("a_b"))
        keeper.records.clear()
        result = keeper.create(topic(name))[name]
        assert result.error_code is code
        assert (result.error_message is None) == (code is NONE)
        assert (keeper.records == []) == (code is not NONE)

    @pytest.mark.parametrize(
        "asked, code",
        [
            (topic("t", 0), ErrorCode.invalid_partitions),
            (topic("t", -2), ErrorCode.invalid_partitions),
            (topic("t", 10**9), ErrorCode.invalid_partitions),
            (topic("t", 1, 0), ErrorCode.invalid_replication_factor),
            (topic("t", 1, -2), ErrorCode.invalid_replication_factor),
            (topic("t", 1, 4), ErrorCode.invalid_replication_factor),
            (topic("t", configs={"no.such": "1"}), ErrorCode.invalid_config),
            (topic("t", configs={"retention.ms": "soon"}), ErrorCode.invalid_config),
            (topic("t", configs={"retention.ms": None}), ErrorCode.invalid_config),
            (topic("t", 1, -1, {}, [(0, (0,))]), ErrorCode.invalid_request),
            (topic("t", -1, 1, {}, [(0, (0,))]), ErrorCode.invalid_request),
            (topic("t", assignments=[(0, (0,)), (0, (1,))]), BAD_ASSIGNMENT),
            (topic("t", assignments=[(0, (0,)), (2, (1,))]), BAD_ASSIGNMENT),
            (topic("t", assignments=[(0, ())]), BAD_ASSIGNMENT),
            (topic("t", assignments=[(0, (7,))]), BAD_ASSIGNMENT),
            (topic("t", assignments=[(0, (1, 1))]), BAD_ASSIGNMENT),
            (topic("t", assignments=[(0, (0, 1)), (1, (1,))]), BAD_ASSIGNMENT),
        ],
    )
    def test_refusals(self, keeper: Keeper, asked: m.CreatableTopic, code: ErrorCode) -> None:
        result = keeper.create(asked, topic("fine"))
        assert result["t"].error_code is code
        assert result["t"].error_message
        assert result["fine"].error_code is NONE
        assert "t" not in keeper.catalog.topics()

    def test_a_manual_assignment_is_kept(self, keeper: Keeper) -> None:
        keeper.create(topic("orders", assignments=[(1, (2, 0)), (0, (1, 2))]))
        assert keeper.catalog.topics().by_name("orders").replicas == ((1, 2), (2, 0))  # type: ignore[union-attr]

    def test_nothing_is_assigned_to_nodes_that_are_all_down(self, keeper: Keeper) -> None:
        keeper.do(NodeChanged(Node(1, "host1", 9093, up=False)))
        result = keeper.create(topic("orders", assignments=[(0, (1,))]))["orders"]
        assert result.error_code is BAD_ASSIGNMENT

    def test_a_name_given_twice_is_not_created(self, keeper: Keeper) -> None:
        result = keeper.create(topic("orders"), topic("orders"))
        assert result["orders"].error_code is ErrorCode.invalid_request
        assert keeper.records == []

    def test_validating_only_changes_nothing(self, keeper: Keeper) -> None:
        result = keeper.create(topic("orders", 2), validate_only=True)["orders"]
        assert (result.error_code, result.num_partitions) == (NONE, 2)
        assert keeper.records == []

    def test_the_answer_shows_every_config_and_where_it_comes_from(self, keeper: Keeper) -> None:
        result = keeper.create(topic("orders", configs={"retention.ms": "60000"}))["orders"]
        shown = {one.name: (one.value, one.config_source) for one in result.configs}
        assert shown["retention.ms"] == ("60000", 1)
        assert shown["cleanup.policy"] == ("delete", 5)
        assert list(shown) == sorted(shown)


class TestDelete:
    def test_by_name_and_by_id(self, keeper: Keeper) -> None:
        made = keeper.create(topic("a", configs={"retention.ms": "1"}), topic("b"), topic("c"))
        results = keeper.delete("a", made["b"].topic_id)
        assert [(one.name, one.topic_id, one.error_code) for one in results] == [
            ("a", made["a"].topic_id, NONE),
            ("b", made["b"].topic_id, NONE),
        ]
        assert keeper.catalog.topics().names() == (*OWN_LOGS, "c")
        gone = [record.key for record in keeper.records if record.value is None]
        assert gone == [
            ConfigKey(2, "a", "retention.ms"),
            TopicKey("a"),
            TopicKey("b"),
        ]

    @pytest.mark.parametrize(
        "asked, code",
        [
            ("nowhere", ErrorCode.unknown_topic_or_partition),
            (UUID(int=9), ErrorCode.unknown_topic_id),
            (m.DeleteTopicState(name=None, topic_id=None), ErrorCode.invalid_request),
            (m.DeleteTopicState(name="a", topic_id=UUID(int=9)), ErrorCode.invalid_request),
            ("__consumer_offsets", ErrorCode.invalid_request),
        ],
    )
    def test_refusals(self, keeper: Keeper, asked: Any, code: ErrorCode) -> None:
        keeper.create(topic("a"))
        keeper.records.clear()
        assert [one.error_code for one in keeper.delete(asked)] == [code]
        assert keeper.records == []

    def test_what_is_given_twice_stays(self, keeper: Keeper) -> None:
        made = keeper.create(topic("a"), topic("b"))
        keeper.records.clear()
        results = keeper.delete("a", "a", "b", made["b"].topic_id)
        assert [one.error_code for one in results] == [ErrorCode.invalid_request] * 2
        assert keeper.records == []

    def test_deletion_can_be_switched_off(self) -> None:
        keeper = Keeper(delete_topic_enable="false")
        keeper.create(topic("a"))
        assert [one.error_code for one in keeper.delete("a")] == [ErrorCode.topic_deletion_disabled]

    def test_a_topic_created_again_has_another_id(self, keeper: Keeper) -> None:
        first = keeper.create(topic("a"))["a"].topic_id
        keeper.delete("a")
        assert keeper.create(topic("a"))["a"].topic_id != first


class TestCreatePartitions:
    def grow(self, keeper: Keeper, *asked: m.CreatePartitionsTopic, only: bool = False) -> Any:
        message = m.CreatePartitionsRequest(topics=asked, timeout=SECOND, validate_only=only)
        return [one.error_code for one in keeper.ask(37, message).results]

    def asked(
        self, name: str, count: int, assignments: tuple[tuple[int, ...], ...] | None = None
    ) -> m.CreatePartitionsTopic:
        chosen = None
        if assignments is not None:
            chosen = tuple(m.CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignments)
        return m.CreatePartitionsTopic(name=name, count=count, assignments=chosen)

    def test_partitions_are_added_behind_the_old_ones(self, keeper: Keeper) -> None:
        keeper.create(topic("orders", 2, 2))
        before = keeper.catalog.topics().by_name("orders")
        assert self.grow(keeper, self.asked("orders", 4)) == [NONE]
        after = keeper.catalog.topics().by_name("orders")
        assert before is not None and after is not None
        assert after.topic_id == before.topic_id
        assert after.partitions == 4
        assert after.replicas[:2] == before.replicas
        assert [len(nodes) for nodes in after.replicas] == [2] * 4

    @pytest.mark.parametrize(
        "name, count, assignments, code",
        [
            ("nowhere", 4, None, ErrorCode.unknown_topic_or_partition),
            ("orders", 2, None, ErrorCode.invalid_partitions),
            ("orders", 1, None, ErrorCode.invalid_partitions),
            ("orders", 0, None, ErrorCode.invalid_partitions),
            ("orders", 10**9, None, ErrorCode.invalid_partitions),
            ("__consumer_offsets", 9, None, ErrorCode.invalid_partitions),
            ("orders", 4, ((0,),), BAD_ASSIGNMENT),
            ("orders", 3, ((0, 1),), BAD_ASSIGNMENT),
            ("orders", 3, ((9,),), BAD_ASSIGNMENT),
            ("orders", 3, ((2,),), NONE),
        ],
    )
    def test_rules(
        self,
        keeper: Keeper,
        name: str,
        count: int,
        assignments: tuple[tuple[int, ...], ...] | None,
        code: ErrorCode,
    ) -> None:
        keeper.create(topic("orders", 2))
        assert self.grow(keeper, self.asked(name, count, assignments)) == [code]

    def test_validating_only_and_doubles_change_nothing(self, keeper: Keeper) -> None:
        keeper.create(topic("orders", 2))
        keeper.records.clear()
        assert self.grow(keeper, self.asked("orders", 4), only=True) == [NONE]
        double = self.asked("orders", 4)
        assert self.grow(keeper, double, double) == [ErrorCode.invalid_request]
        assert keeper.records == []
