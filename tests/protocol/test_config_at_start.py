"""What Kafka refuses when a server starts is refused here, in one sentence that says what to do."""

from __future__ import annotations

import pytest

from protocol.config import (
    ConfigError,
    Configs,
    Scope,
    out_of_bounds,
    read_server_configs,
    validate,
    validate_group,
)

KAFKAS = "org.apache.kafka.coordinator.group.assignor."


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"group.consumer.assignors": ""}, "group.consumer.assignors: it must not be empty"),
        (
            {"group.consumer.assignors": "range,range"},
            "group.consumer.assignors: its values must not be duplicated",
        ),
        (
            {"group.consumer.assignors": f"range,{KAFKAS}RangeAssignor"},
            "group.consumer.assignors: its values must not be duplicated",
        ),
        (
            {"group.consumer.assignors": "unifrom"},
            "Unknown assignor unifrom in group.consumer.assignors .did you mean uniform",
        ),
        (
            {"group.consumer.assignors": "org.example.Mine"},
            "Unknown assignor org.example.Mine in group.consumer.assignors .there are uniform",
        ),
        ({"group.share.assignors": "simple,other"}, "group.share.assignors must name exactly one"),
        ({"group.share.assignors": ""}, "group.share.assignors: it must not be empty"),
        ({"group.share.assignors": "other"}, "Unknown assignor other in group.share.assignors"),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols must name classic",
        ),
        (
            {"group.coordinator.rebalance.protocols": "classic,consumer,classic"},
            "its values must not be duplicated",
        ),
        *(
            (
                {f"group.{kind}.session.timeout.ms": "45000",
                 f"group.{kind}.heartbeat.interval.ms": "45000",
                 f"group.{kind}.max.heartbeat.interval.ms": "45000"},
                rf"group.{kind}.heartbeat.interval.ms \(45000\) must be less than"
                rf" group.{kind}.session.timeout.ms \(45000\)",
            )
            for kind in ("consumer", "share", "streams")
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            r"group.streams.num.standby.replicas \(3\) must not be greater than",
        ),
        (
            {"group.streams.num.warmup.replicas": "21"},
            r"group.streams.num.warmup.replicas \(21\) must not be greater than"
            r" group.streams.max.warmup.replicas \(20\)",
        ),
        (
            {"group.streams.task.offset.interval.ms": "14999"},
            r"group.streams.min.task.offset.interval.ms \(15000\) must not be greater than"
            r" group.streams.task.offset.interval.ms \(14999\)",
        ),
        *(
            (
                {f"group.share.{low}": more, f"group.share.{high}": less},
                rf"group.share.{low} \({more}\) must not be greater than"
                rf" group.share.{high} \({less}\)",
            )
            for low, more, high, less in (
                ("min.delivery.count.limit", "4", "delivery.count.limit", "3"),
                ("delivery.count.limit", "6", "max.delivery.count.limit", "5"),
                ("min.partition.max.record.locks", "151", "partition.max.record.locks", "150"),
                ("partition.max.record.locks", "2001", "max.partition.max.record.locks", "2000"),
                ("min.record.lock.duration.ms", "15000", "record.lock.duration.ms", "14999"),
                ("record.lock.duration.ms", "60001", "max.record.lock.duration.ms", "60000"),
            )
        ),
        (
            {"group.share.max.share.sessions": "199"},
            r"group.share.max.size \(200\) must not be greater than"
            r" group.share.max.share.sessions \(199\)",
        ),
        (
            {"share.coordinator.state.topic.num.partitions": "banana"},
            "share.coordinator.state.topic.num.partitions: Not a number of type INT",
        ),
        (
            {"share.coordinator.write.timeout.ms": "0"},
            "share.coordinator.write.timeout.ms: Value must be at least 1",
        ),
    ],
)  # fmt: skip
def test_what_kafka_refuses_at_its_start_is_refused(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_server_configs(properties)


def test_assignors_may_have_the_names_of_kafkas_classes() -> None:
    names = f"{KAFKAS}RangeAssignor, {KAFKAS}UniformAssignor"
    configs = read_server_configs({"group.consumer.assignors": names}).configs
    assert configs.strings("group.consumer.assignors") == ("range", "uniform")
    share = read_server_configs({"group.share.assignors": f"{KAFKAS}SimpleAssignor"}).configs
    assert share.strings("group.share.assignors") == ("simple",)


@pytest.mark.parametrize("text", ["latest", "EARLIEST", "by_duration:PT1H30M", "by_duration:P2D"])
def test_where_a_share_partition_starts(text: str) -> None:
    assert validate("share.auto.offset.reset", text, Scope.GROUP) is None


@pytest.mark.parametrize(
    "text", ["banana", "", "by_duration:", "by_duration:P", "by_duration:-PT1H"]
)
def test_where_no_share_partition_starts(text: str) -> None:
    assert validate("share.auto.offset.reset", text, Scope.GROUP) is not None


def test_a_groups_config_out_of_the_brokers_bounds_is_told_of() -> None:
    configs = Configs({"group.consumer.min.session.timeout.ms": "45000"})
    own = {
        "consumer.session.timeout.ms": "10000",
        "consumer.heartbeat.interval.ms": "99000",
        "consumer.assignment.interval.ms": "-1",
        "consumer.assignor.offload.enable": "true",
    }
    assert out_of_bounds(own, configs) == [
        "consumer.session.timeout.ms is 10000, beyond group.consumer.min.session.timeout.ms;"
        " 45000 counts",
        "consumer.heartbeat.interval.ms is 99000, beyond group.consumer.max.heartbeat.interval.ms;"
        " 15000 counts",
    ]


def test_a_file_for_kafka_4_4_is_read() -> None:
    """Whatever of Kafka 4.4's the file names, with Kafka's defaults."""
    file = read_server_configs(
        {
            "errors.deadletterqueue.auto.create.topics.enable": "false",
            "errors.deadletterqueue.topic.name.prefix": "dlq.",
            "group.share.dlq.manager.class.name": "org.example.Manager",
            "group.streams.topology.description.plugin.class": "org.example.Plugin",
            "share.coordinator.state.topic.num.partitions": "50",
        }
    )
    assert file.unused == ()
    own = {
        "errors.deadletterqueue.copy.record.enable": "true",
        "errors.deadletterqueue.topic.name": "dlq.orders",
    }
    assert validate_group(own, file.configs) is None
