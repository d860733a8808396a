"""Configs: Kafka's table, the sentences, the server's file."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.config import (
    BROKER_CONFIGS,
    CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigError,
    Configs,
    ConfigType,
    Scope,
    find,
    read_server_configs,
    text_of,
    validate,
    validate_group,
)
from protocol.config_unused import UNUSED_CONFIGS, UNUSED_PREFIXES
from protocol.properties import parse_properties
from tests.java_support import run_java

OFFLOAD = {
    f"{prefix}{kind}.assignor.offload.enable"
    for prefix in ("", "group.")
    for kind in ("consumer", "share", "streams")
}
"""KIP-1263 names them; Kafka 4.3.1 does not have them yet."""
OUR_BOUNDS = {f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")}
"""-1 is the broker's (KIP-1263)."""
NEWER = {
    f"{prefix}streams.{name}"
    for prefix in ("", "group.")
    for name in (
        "acceptable.recovery.lag",
        "assignor.name",
        "num.warmup.replicas",
        "rack.aware.assignment.tags",
        "task.offset.interval.ms",
    )
} | {
    "group.streams.assignors",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.topology.description.plugin.class",
    "group.share.dlq.manager.class.name",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.name.prefix",
}
"""Of Kafka 4.4 (test_kafka_4_4_configs.py); Kafka 4.3.1 does not have them yet."""
OURS = {
    *OFFLOAD,
    *NEWER,
    "consumer.static.takeover.enable",
    "logging.format",
    "group.active.members",
    "group.instance.assignment.retention.ms",
    "group.expected.instance.ids",
    "group.expected.instance.wait.ms",
    "replica.replace.after.ms",
    "consumer.assignor.rack.aware.enable",
    "group.consumer.assignor.rack.aware.enable",
    "group.consumer.unsettled.heartbeat.interval.ms",
    "group.streams.unsettled.heartbeat.interval.ms",
    "group.coordinator.background.timeout.ms",
    "event.loop.watch.interval.ms",
    "incident.recording.max.bytes",
    "log.flush",
    "cluster.secret",
    "share.version",  # Kafka's is a feature, which kafka-features.sh changes
    "replica.heartbeat.interval.ms",
    "replica.lease.ms",
    "replica.election.timeout.ms",
    "replica.port",
    "console.port",
    "console.hosts",
    "console.actions.enable",
    "metrics.groups.max",
}
OUR_DEFAULTS = {
    "offsets.topic.num.partitions",
    "node.id",
    "controller.listener.names",  # Kafka's has none
    "socket.listen.backlog.size",
    "queued.max.request.bytes",
}


def kafkas(scope: str) -> dict[str, list[str]]:
    rows = [line.split("\t") for line in run_java("VersionCheck").splitlines()]
    return {row[1]: row[2:] for row in rows if row[0] == scope}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("scope", "table"),
    [("broker", BROKER_CONFIGS), ("group", GROUP_CONFIGS), ("topic", TOPIC_CONFIGS)],
    ids=["broker", "group", "topic"],
)
def test_types_defaults_bounds_and_importance_are_kafkas(scope: str, table: dict) -> None:  # type: ignore[type-arg]
    theirs = kafkas(scope)
    for name, row in table.items():
        if name in OURS:
            continue
        kind, default, validator, importance, internal = theirs[name]
        assert row.type.name == kind, name
        assert row.importance.name == importance or scope == "topic", name
        assert row.internal == (internal == "true"), name
        if name not in OUR_DEFAULTS:
            default = "" if row.default is None and default == "null" else default
            assert text_of(row.default) == default.strip("[]").replace(", ", ","), name
        if " or " in validator or name in OUR_BOUNDS:
            continue
        if validator.startswith("[") and row.type not in {ConfigType.STRING, ConfigType.LIST}:
            low, *high = validator.strip("[]").split(" ")[0].rstrip("]").split(",...")
            assert row.low == float(low), name
            assert row.high == (float(high[0].lstrip(",")) if high and high[0] else None), name
        elif validator == "null":
            assert (row.low, row.high) == (None, None), name


@pytest.mark.thorough
def test_every_other_broker_config_of_kafka_is_known_by_name() -> None:
    known = set(BROKER_CONFIGS) | UNUSED_CONFIGS
    assert {name for name in kafkas("broker") if name not in known} == set()
    assert not UNUSED_CONFIGS & set(BROKER_CONFIGS)


@pytest.mark.thorough
def test_every_group_config_of_kafka_is_there() -> None:
    assert set(kafkas("group")) == set(GROUP_CONFIGS) - OURS


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "x", "Not a number of type INT"),
        ("num.partitions", "1_0", "Not a number of type INT"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("group.share.max.size", "1001", "Value must be no more than 1000"),
        ("log.flush", "never", "String must be one of: majority, os"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        (
            "max.connections.per.ip.overrides",
            "10.0.0.1",
            r"String must match ([^,\s]+:\d+(,[^,\s]+:\d+)*)?",
        ),
    ],
)
def test_a_wrong_value_is_told_in_kafkas_sentence(name: str, text: str, why: str) -> None:
    assert validate(name, text) == f"Invalid value {text} for configuration {name}: {why}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.partitions", " 3 "),
        ("auto.create.topics.enable", "FALSE"),
        ("group.consumer.migration.policy", "Upgrade"),
    ],
)
def test_a_good_value_has_nothing_wrong_with_it(name: str, text: str) -> None:
    assert validate(name, text) is None


def test_an_unknown_or_missing_config_is_told() -> None:
    hint = "Unknown broker config name: num.partition (did you mean num.partitions?)"
    assert validate("num.partition", "3") == hint
    assert validate("nothing.like.it", "3") == "Unknown broker config name: nothing.like.it"
    assert validate("num.partitions", None) is not None


def test_a_default_is_within_its_own_bounds() -> None:
    for scope, table in CONFIGS.items():
        for name, row in table.items():
            assert validate(name, text_of(row.default), scope) is None, name


def test_a_groups_configs_keep_within_the_brokers_bounds() -> None:
    configs = Configs({"group.consumer.min.session.timeout.ms": "10000"})
    assert validate_group({"consumer.session.timeout.ms": "10000"}, configs) is None
    for overrides, sentence in [
        ({"no.such": "1"}, "Unknown group config name: no.such"),
        (
            {"consumer.session.timeout.ms": "9999"},
            "consumer.session.timeout.ms must be greater than or equal to"
            " group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "99999"},
            "consumer.heartbeat.interval.ms must be less than or equal to"
            " group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"consumer.session.timeout.ms": "10000", "consumer.heartbeat.interval.ms": "10000"},
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to"
            " group.streams.max.standby.replicas",
        ),
    ]:
        assert validate_group(overrides, configs) == sentence


def test_a_snapshot_is_changed_by_making_another() -> None:
    first = Configs({"group.max.size": "5"})
    second = first.with_overrides({"log.flush": "os"})
    assert (first.text("log.flush"), second.text("log.flush")) == ("majority", "os")
    assert second.integer("group.max.size") == 5
    assert second.without(["group.max.size"]).integer("group.max.size") == 2**31 - 1
    assert second.strings("group.consumer.assignors") == ("uniform", "range")
    assert second.boolean("auto.create.topics.enable") is True
    assert pickle.loads(pickle.dumps(second)) == second
    assert hash(pickle.loads(pickle.dumps(second))) == hash(second)


def test_values_that_cannot_hold_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"group.min.session.timeout.ms \(9\) must not be"):
        Configs({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"})


def test_a_servers_file_may_hold_what_only_kafka_uses() -> None:
    file = read_server_configs(
        {"num.partitions": "4", "process.roles": "broker", "listener.name.x.ssl.y": "z"}
    )
    assert file.configs.integer("num.partitions") == 4
    assert file.unused == ("process.roles", "listener.name.x.ssl.y")
    assert all(prefix.endswith(".") for prefix in UNUSED_PREFIXES)


def test_a_misspelt_name_in_a_servers_file_is_an_error_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"did you mean group\.max\.size"):
        read_server_configs({"group.maxsize": "4"})
    with pytest.raises(ConfigError, match="Unknown group config"):
        find("nothing", Scope.GROUP)


def test_a_properties_file_is_read_as_java_does() -> None:
    text = "# note\n! note\n\na=1\n b : 2\nc 3\nd=\ne=x=y\nf=one,\\\n   two\ng=C:\\\\dir\nlast\\"
    assert parse_properties(text) == {
        "a": "1", "b": "2", "c": "3", "d": "", "e": "x=y", "f": "one,two", "g": "C:\\dir",
        "last": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\:b\=c=d", {"a:b=c": "d"}),
        (r"a\ b c", {"a b": "c"}),
        (r"k=\u0041\t.", {"k": "A\t."}),
        ("k=C:\\\\\\\\", {"k": "C:\\\\"}),
        ("k=x\\\\\\\n   y", {"k": "x\\y"}),
        ("k=x\\\\\n   y=z", {"k": "x\\", "y": "z"}),
        ("k=v\\\r\n  w\rl=1", {"k": "vw", "l": "1"}),
        ("# no\\\nk=1", {"k": "1"}),
        ("k=\\ud83d\\ude00", {"k": "\N{GRINNING FACE}"}),
        ("k=1\nk= 2 ", {"k": "2"}),
    ],
)
def test_escapes_are_those_of_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a=1\n=2\n", "line 2 has no name before its value: =2"),
        ("# x\na=1,\\\n  2\n\n:2", "line 5 has no name"),
        (r"k=\u00zz", "Invalid "),
        (r"k=\ud83d", "line 1 has half of a surrogate pair"),
        (r"a\nb=1", "line 1 has a name with a control character"),
        (r"group.consumer.assignors=uni\nform", "Invalid value 'uni\\nform'"),
    ],
)
def test_a_bad_line_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as refused:
        read_server_configs(parse_properties(text))
    assert "\n" not in str(refused.value)


@given(st.text(st.characters(codec="ascii") | st.sampled_from("\\u=:\n")))
def test_any_text_is_properties_or_a_config_error(text: str) -> None:
    try:
        read_server_configs(parse_properties(text))
    except ConfigError as error:
        assert "\n" not in str(error)
