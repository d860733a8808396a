"""IncrementalAlterConfigs (KIP-339) for brokers, topics and groups."""

import pytest

from failover.catalogue.cluster_view import BROKER, GROUP, TOPIC, effective_configs
from protocol.config import Configs
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.catalogue.catalogs import Keeper, topic

SET, DELETE, APPEND, SUBTRACT = range(4)
NONE = ErrorCode.none


@pytest.fixture
def keeper() -> Keeper:
    keeper = Keeper()
    keeper.create(topic("orders"))
    keeper.records.clear()
    return keeper


def test_set_and_delete(keeper: Keeper) -> None:
    assert keeper.alter(TOPIC, "orders", ("retention.ms", SET, "5")) == (NONE, None)
    assert keeper.catalog.image.overrides_of(TOPIC, "orders") == {"retention.ms": "5"}
    assert keeper.alter(TOPIC, "orders", ("retention.ms", DELETE, None)) == (NONE, None)
    assert keeper.catalog.image.overrides == {}


def test_what_does_not_change_is_not_written(keeper: Keeper) -> None:
    for _ in range(2):
        keeper.alter(TOPIC, "orders", ("retention.ms", SET, "5"))
    keeper.alter(TOPIC, "orders", ("segment.ms", DELETE, None))
    assert len(keeper.records) == 1


def test_lists_grow_from_their_default_and_shrink(keeper: Keeper) -> None:
    def policy() -> str:
        return keeper.catalog.image.overrides_of(TOPIC, "orders")["cleanup.policy"]

    assert keeper.alter(TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == (NONE, None)
    assert policy() == "delete,compact"
    keeper.alter(TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert policy() == "delete,compact"
    keeper.alter(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert policy() == "compact"


@pytest.mark.parametrize(
    "resource_type, name, change, code",
    [
        (TOPIC, "orders", ("retention.ms", APPEND, "5"), ErrorCode.invalid_config),
        (TOPIC, "orders", ("retention.ms", SET, "soon"), ErrorCode.invalid_config),
        (TOPIC, "orders", ("no.such", SET, "1"), ErrorCode.invalid_config),
        (TOPIC, "orders", ("no.such", DELETE, None), ErrorCode.invalid_config),
        (TOPIC, "orders", ("retention.ms", SET, None), ErrorCode.invalid_request),
        (TOPIC, "orders", ("retention.ms", 7, "1"), ErrorCode.invalid_request),
        (TOPIC, "nowhere", ("retention.ms", SET, "5"), ErrorCode.unknown_topic_or_partition),
        (TOPIC, "not valid", ("retention.ms", SET, "5"), ErrorCode.invalid_topic_exception),
        (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.invalid_request),
        (BROKER, "", ("no.such", SET, "1"), ErrorCode.invalid_config),
        (BROKER, "", ("max.connections", SET, "-1"), ErrorCode.invalid_config),
        (BROKER, "", ("num.partitions", SET, "3"), ErrorCode.invalid_request),
        (BROKER, "", ("socket.request.max.bytes", SET, "9"), ErrorCode.invalid_request),
        (BROKER, "9", ("max.connections", SET, "3"), ErrorCode.broker_id_not_registered),
        (BROKER, "x", ("max.connections", SET, "3"), ErrorCode.invalid_request),
        (BROKER, "1", ("max.connections", SET, "3"), NONE),
        (BROKER, "", ("max.connections", SET, "3"), NONE),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.invalid_request),
        (GROUP, "g", ("no.such", SET, "1"), ErrorCode.invalid_config),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.invalid_config),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"), NONE),
        (8, "0", ("org.example", SET, "INFO"), ErrorCode.invalid_request),
        (16, "m", ("interval.ms", SET, "1"), ErrorCode.invalid_request),
    ],
)
def test_rules(
    keeper: Keeper,
    resource_type: int,
    name: str,
    change: tuple[str, int, str | None],
    code: ErrorCode,
) -> None:
    got, sentence = keeper.alter(resource_type, name, change)
    assert got is code
    assert (sentence is None) == (code is NONE)
    assert (keeper.records == []) == (code is not NONE)


def test_one_bad_config_spares_the_whole_resource_but_no_other(keeper: Keeper) -> None:
    def resource(name: str, *configs: tuple[str, str]) -> m.AlterConfigsResource:
        return m.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=tuple(
                m.AlterableConfig(name=config, config_operation=SET, value=value)
                for config, value in configs
            ),
        )

    keeper.create(topic("audit"))
    keeper.records.clear()
    message = m.IncrementalAlterConfigsRequest(
        resources=(
            resource("orders", ("retention.ms", "5"), ("segment.ms", "never")),
            resource("audit", ("retention.ms", "5")),
        ),
        validate_only=False,
    )
    codes = [one.error_code for one in keeper.ask(44, message).responses]
    assert codes == [ErrorCode.invalid_config, NONE]
    assert [record.key.resource_name for record in keeper.records] == ["audit"]  # type: ignore[attr-defined]


def test_a_resource_or_a_config_given_twice_is_refused(keeper: Keeper) -> None:
    config = m.AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    once = m.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=(config,))
    message = m.IncrementalAlterConfigsRequest(resources=(once, once), validate_only=False)
    codes = [one.error_code for one in keeper.ask(44, message).responses]
    assert codes == [ErrorCode.invalid_request] * 2
    change = ("retention.ms", SET, "5")
    assert keeper.alter(TOPIC, "orders", change, change)[0] is ErrorCode.invalid_request
    assert keeper.records == []


def test_validating_only_changes_nothing(keeper: Keeper) -> None:
    config = m.AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    resource = m.AlterConfigsResource(
        resource_type=TOPIC, resource_name="orders", configs=(config,)
    )
    message = m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    assert [one.error_code for one in keeper.ask(44, message).responses] == [NONE]
    assert keeper.records == []


def test_a_node_takes_the_clusters_dynamic_configs_and_then_its_own(keeper: Keeper) -> None:
    keeper.alter(BROKER, "", ("max.connections", SET, "10"))
    keeper.alter(BROKER, "1", ("max.connections", SET, "20"))
    image = keeper.catalog.image
    found = [
        effective_configs(Configs(), image, node).integer("max.connections") for node in range(3)
    ]
    assert found == [10, 20, 10]


def test_dynamic_configs_that_contradict_a_nodes_static_ones_are_left_out(keeper: Keeper) -> None:
    change = ("group.consumer.assignment.interval.ms", SET, "5000")
    assert keeper.alter(BROKER, "", change, ("max.connections", SET, "10"))[0] is NONE
    static = Configs({"group.consumer.max.assignment.interval.ms": "2000"})
    configs = effective_configs(static, keeper.catalog.image, 0)
    assert configs.integer("group.consumer.assignment.interval.ms") == 1000
    assert configs.integer("max.connections") == 10


def test_alter_configs_replaces_all_of_a_resources_configs(keeper: Keeper) -> None:
    assert keeper.replace(TOPIC, "orders", retention_ms="1000", segment_ms="5000") == (NONE, None)
    assert keeper.replace(TOPIC, "orders", retention_ms="2000", cleanup_policy="compact") == (
        NONE,
        None,
    )
    overrides = keeper.catalog.image.overrides_of(TOPIC, "orders")
    assert overrides == {"retention.ms": "2000", "cleanup.policy": "compact"}
    assert keeper.replace(TOPIC, "orders") == (NONE, None)
    assert keeper.catalog.image.overrides_of(TOPIC, "orders") == {}


@pytest.mark.parametrize(
    "name, configs, code",
    [
        ("orders", {"retention_ms": None}, ErrorCode.invalid_request),
        ("orders", {"retention_ms": "soon"}, ErrorCode.invalid_config),
        ("orders", {"no_such_config": "1"}, ErrorCode.invalid_config),
        ("missing", {"retention_ms": "1"}, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_alter_configs_changes_nothing_where_one_config_is_wrong(
    keeper: Keeper, name: str, configs: dict[str, str | None], code: ErrorCode
) -> None:
    keeper.replace(TOPIC, "orders", segment_ms="5000")
    keeper.records.clear()
    assert keeper.replace(TOPIC, name, **configs)[0] is code
    assert keeper.records == []


def test_alter_configs_that_only_validates_changes_nothing(keeper: Keeper) -> None:
    assert keeper.replace(TOPIC, "orders", validate_only=True, retention_ms="1") == (NONE, None)
    assert keeper.replace(TOPIC, "orders", validate_only=True, retention_ms="x") != (NONE, None)
    assert keeper.catalog.image.overrides_of(TOPIC, "orders") == {}
