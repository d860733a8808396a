"""DescribeConfigs and ListConfigResources."""

from typing import Any

import pytest

from failover.catalogue.cluster_view import BROKER, CLIENT_METRICS, GROUP, TOPIC
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode, KafkaError
from tests.failover.catalogue.catalogs import Keeper, answer, topic

NONE = ErrorCode.none
SET = 0


@pytest.fixture
def keeper() -> Keeper:
    keeper = Keeper(max_connections="7")
    keeper.create(topic("orders", configs={"retention.ms": "60000"}))
    return keeper


def describe(
    keeper: Keeper, resource_type: int, name: str, *keys: str, node_id: int = 0, **flags: bool
) -> Any:
    """Ask for one resource; return its result."""
    resource = m.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys or None
    )
    message = m.DescribeConfigsRequest(
        resources=(resource,),
        include_synonyms=flags.get("synonyms", False),
        include_documentation=flags.get("documentation", False),
    )
    (result,) = answer(keeper.view(node_id=node_id), 32, message).results
    return result


def chain(entry: Any) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


def test_a_topic_shows_kafkas_topic_configs(keeper: Keeper) -> None:
    shown = {one.name: one for one in describe(keeper, TOPIC, "orders").configs}
    assert {"cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes"} <= set(shown)
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("60000", 1)
    assert (shown["cleanup.policy"].value, shown["cleanup.policy"].config_source) == ("delete", 5)
    assert not shown["retention.ms"].read_only and not shown["retention.ms"].is_sensitive
    assert (shown["retention.ms"].config_type, shown["cleanup.policy"].config_type) == (5, 7)
    assert all(one.synonyms == () and one.documentation is None for one in shown.values())


def test_synonyms_tell_all_values_the_one_in_force_first(keeper: Keeper) -> None:
    keeper.alter(BROKER, "", ("max.connections", SET, "8"))
    keeper.alter(BROKER, "0", ("max.connections", SET, "9"))
    (entry,) = describe(keeper, BROKER, "0", "max.connections", synonyms=True).configs
    assert (entry.value, entry.config_source, entry.read_only) == ("9", 2, False)
    assert chain(entry) == [
        ("max.connections", "9", 2),
        ("max.connections", "8", 3),
        ("max.connections", "7", 4),
        ("max.connections", "2147483647", 5),
    ]


def test_a_topics_synonyms_go_on_with_its_brokers(keeper: Keeper) -> None:
    keeper.alter(BROKER, "", ("min.insync.replicas", SET, "2"))
    keeper.alter(TOPIC, "orders", ("min.insync.replicas", SET, "3"))
    (entry,) = describe(keeper, TOPIC, "orders", "min.insync.replicas", synonyms=True).configs
    assert [source for _, _, source in chain(entry)] == [1, 3, 5]


def test_a_group_shows_its_own_configs_and_the_brokers_behind_them(keeper: Keeper) -> None:
    name = "consumer.session.timeout.ms"
    keeper.alter(GROUP, "g", (name, SET, "50000"))
    (entry,) = describe(keeper, GROUP, "g", name, synonyms=True).configs
    assert chain(entry) == [(name, "50000", 8), (f"group.{name}", "45000", 5)]
    (other,) = describe(keeper, GROUP, "another", name).configs
    assert (other.value, other.config_source) == ("45000", 5)


def test_the_cluster_wide_resource_shows_what_was_set_dynamically(keeper: Keeper) -> None:
    assert describe(keeper, BROKER, "").configs == ()
    keeper.alter(BROKER, "", ("max.connections", SET, "8"))
    (entry,) = describe(keeper, BROKER, "").configs
    assert (entry.name, entry.value, entry.config_source) == ("max.connections", "8", 3)


def test_a_broker_shows_what_can_not_be_changed_as_read_only(keeper: Keeper) -> None:
    shown = {one.name: one for one in describe(keeper, BROKER, "0", documentation=True).configs}
    assert shown["offsets.topic.num.partitions"].read_only
    assert not shown["max.connections"].read_only
    assert all(one.documentation for one in shown.values())


@pytest.mark.parametrize(
    "resource_type, name, code",
    [
        (BROKER, "1", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "not valid", ErrorCode.invalid_topic_exception),
        (GROUP, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "m", NONE),
        (8, "0", NONE),
        (8, "1", ErrorCode.invalid_request),
    ],
)
def test_refusals(keeper: Keeper, resource_type: int, name: str, code: ErrorCode) -> None:
    result = describe(keeper, resource_type, name)
    assert (result.error_code, result.configs) == (code, ())
    assert (result.resource_type, result.resource_name) == (resource_type, name)


def test_an_unknown_resource_type_fails_the_request(keeper: Keeper) -> None:
    with pytest.raises(KafkaError) as raised:
        describe(keeper, 99, "x")
    assert raised.value.code is ErrorCode.invalid_request


class TestList:
    def ask(self, keeper: Keeper, *types: int, version: int = 1) -> list[tuple[int, str]]:
        message = m.ListConfigResourcesRequest(resource_types=types)
        response = answer(keeper.view(), 74, message, version)
        return [(one.resource_type, one.resource_name) for one in response.config_resources]

    def test_lists_brokers_topics_and_configured_groups(self, keeper: Keeper) -> None:
        keeper.alter(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        assert self.ask(keeper, BROKER) == [(BROKER, "0"), (BROKER, "1"), (BROKER, "2")]
        own = [(TOPIC, "__consumer_offsets"), (TOPIC, "__share_group_state")]
        assert self.ask(keeper, TOPIC) == [*own, (TOPIC, "orders")]
        assert self.ask(keeper, GROUP) == [(GROUP, "g")]
        assert len(self.ask(keeper)) == 10  # broker loggers, too

    def test_version_0_knows_client_metrics_only(self, keeper: Keeper) -> None:
        assert self.ask(keeper, version=0) == []
        with pytest.raises(KafkaError) as raised:
            self.ask(keeper, TOPIC, version=0)
        assert raised.value.code is ErrorCode.unsupported_version

    def test_unknown_types_are_refused(self, keeper: Keeper) -> None:
        with pytest.raises(KafkaError) as raised:
            self.ask(keeper, 99)
        assert raised.value.code is ErrorCode.unsupported_version


def test_the_clusters_secret_is_never_shown() -> None:
    keeper = Keeper(cluster_secret="hush")
    (entry,) = describe(keeper, BROKER, "0", "cluster.secret", synonyms=True).configs
    assert entry.is_sensitive and entry.value is None
    assert {one.value for one in entry.synonyms} == {None}
    assert "hush" not in repr(keeper.configs)


def test_where_a_coordinator_listens_is_shown_and_cannot_be_changed() -> None:
    keeper = Keeper(advertised_listeners=" PLAINTEXT://k{node.id}:9092 ")
    names = ("listeners", "advertised.listeners", "replica.port")
    shown = {entry.name: entry for entry in describe(keeper, BROKER, "0", *names).configs}
    assert {name: shown[name].value for name in names} == {
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "PLAINTEXT://k{node.id}:9092",
        "replica.port": "0",
    }
    assert all(entry.read_only for entry in shown.values())
    (unset,) = describe(Keeper(), BROKER, "0", "advertised.listeners").configs
    assert unset.value is None
