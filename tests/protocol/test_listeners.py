"""Kafka's syntax of listeners, its rules for them, and the addresses of each coordinator."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.config import ConfigError, Configs, read_server_configs
from protocol.listeners import (
    ConfiguredListener,
    ListenerAddress,
    check_cluster,
    listener_addresses,
    parse_listener,
    replica_port,
)

RAY = "10.77.0.2"
L, A = "listeners", "advertised.listeners"


def addresses(
    listeners: str, advertised: str | None = None, *, node: int = 0, index: int = 0, ray: str = RAY
) -> tuple[str, int, str, int | None]:
    """Return the address to bind and the one to advertise, of the only listener."""
    overrides = {L: listeners} if advertised is None else {L: listeners, A: advertised}
    (one,) = listener_addresses(Configs(overrides), node, ray, index)
    assert one.name == "PLAINTEXT"
    return one.bind_host, one.bind_port, one.advertised_host, one.advertised_port


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://10.0.0.1:9092", "10.0.0.1", "9092"),
        ("  plaintext://kafka_1.example.com.:9092 ", "kafka_1.example.com.", "9092"),
        ("PLAINTEXT://:9092", "", "9092"),
        ("PLAINTEXT://0.0.0.0:0", "0.0.0.0", "0"),
        ("PLAINTEXT://[::]:65535", "::", "65535"),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", "9092"),
        ("PLAINTEXT://[{ray.node.address}]:9092", "{ray.node.address}", "9092"),
        ("PLAINTEXT://k{node.id}.local:909{node.id}", "k{node.id}.local", "909{node.id}"),
        ("PLAINTEXT://10.0.0.{node.id}:{node.id}", "10.0.0.{node.id}", "{node.id}"),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, host: str, port: str) -> None:
    listener = ConfiguredListener(config=L, text=text, name="PLAINTEXT", host=host, port=port)
    assert parse_listener(L, text) == listener


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9092", "it must have the form PLAINTEXT://HOST:PORT"),
        ("PLAINTEXT:/h:9092", "it must have the form PLAINTEXT://HOST:PORT"),
        ("://h:9092", "it must have the form PLAINTEXT://HOST:PORT"),
        ("PLAINTEXT://h", "it has no port: it must end as in PLAINTEXT://HOST:9092"),
        ("PLAINTEXT://h:", "it has no port: it must end as in PLAINTEXT://HOST:9092"),
        ("PLAINTEXT://[::1]9092", "it has no port: it must end as in PLAINTEXT://HOST:9092"),
        ("PLAINTEXT://[::1", "it has no port: it must end as in PLAINTEXT://HOST:9092"),
        ("PLAINTEXT://::1:9092", "an IPv6 address must be in brackets: [::1]"),
        ("PLAINTEXT://h:9092/", "9092/ is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://h:-1", "-1 is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://h:٣", "٣ is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://h:65536", "65536 is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://h:9092{node.id}", "9092{node.id} is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://h:9{node.id", "9{node.id is no port: ports are numbers up to 65535"),
        ("PLAINTEXT://my host:9092", "my host is no IP address or host name"),
        ("PLAINTEXT://h:1:9092", "h:1 is no IP address or host name"),
        ("PLAINTEXT://10.0.0.256:9092", "10.0.0.256 is no IP address or host name"),
        ("PLAINTEXT://0:9092", "0 is no IP address or host name"),
        ("PLAINTEXT://h..i:9092", "h..i is no IP address or host name"),
        (f"PLAINTEXT://{'h' * 64}:1", f"{'h' * 64} is no IP address or host name"),
        ("PLAINTEXT://h{node.id:9092", "h{node.id is no IP address or host name"),
        ("PLAINTEXT://h{}:9092", "there is no placeholder {}: there are {node.id} and"),
        (
            "PLAINTEXT://{host}:9092",
            "there is no placeholder {host}: there are {node.id} and {ray.node.address}",
        ),
        ("PLAINTEXT://h:{ray.node.address}", "{ray.node.address} cannot be part of a port"),
    ],
)
def test_what_is_no_listener_is_refused_in_one_sentence(text: str, why: str) -> None:
    for config in (L, A):
        with pytest.raises(ConfigError) as refused:
            parse_listener(config, text)
        assert str(refused.value).startswith(
            f"Invalid value {text} for configuration {config}: {why}"
        )


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({L: ""}, "configuration listeners: it must not be empty"),
        ({A: ""}, "configuration advertised.listeners: it must not be empty"),
        ({L: "PLAINTEXT//:9092"}, "configuration listeners: it must have the form"),
        ({L: "PLAINTEXT://:1,plaintext://:2"}, "2 listeners have the name PLAINTEXT"),
        ({A: "PLAINTEXT://a:1,PLAINTEXT://b:1"}, "2 listeners have the name PLAINTEXT"),
        ({L: "PLAINTEXT://:1,SSL://:1"}, "2 listeners have port 1"),
        ({L: "PLAINTEXT://h:1,SSL://[::1]:1"}, "2 listeners have port 1"),
        ({L: "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"}, "2 listeners have port 1"),
        (
            {L: "PLAINTEXT://127.0.0.1:1,SSL://[::1]:1"},
            "there can be one listener, not 2 (PLAINTEXT, SSL)",
        ),
        (
            {L: "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "those of Kafka's controllers are left out if controller.listener.names names them",
        ),
        ({L: "SSL://:9093"}, "SSL is not supported: there are listeners for PLAINTEXT only"),
        ({A: "CLIENT://h:9093"}, "CLIENT is not supported: there are listeners for PLAINTEXT"),
        (
            {L: "CONTROLLER://:9093", "controller.listener.names": "controller"},
            "configuration listeners: it has no listener for clients",
        ),
        (
            {A: "CONTROLLER://h:9093", "controller.listener.names": "CONTROLLER"},
            "configuration advertised.listeners: it has no listener for clients",
        ),
        *(
            ({L: f"PLAINTEXT://{host}:9092"}, f"no client can connect to {shown}: set {A}")
            for host, shown in [
                ("0.0.0.0", "0.0.0.0"),
                ("[::]", "::"),
                ("[0:0::0]", "0:0::0"),
                ("[::ffff:0.0.0.0]", "::ffff:0.0.0.0"),
            ]
        ),
        ({A: "PLAINTEXT://0.0.0.0:9092"}, "no client can connect to 0.0.0.0: use a routable IP"),
        ({A: "PLAINTEXT://[::]:9092"}, "no client can connect to ::: use a routable IP address"),
        ({A: "PLAINTEXT://h:0"}, "no client can connect to port 0"),
    ],
)
def test_what_kafka_refuses_or_is_not_supported_is_refused_at_the_start(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        read_server_configs(properties)


def test_kafkas_own_file_starts_a_coordinator() -> None:
    """The listeners of its ``config/server.properties``, of a broker that is a controller too."""
    file = read_server_configs(
        {
            "process.roles": "broker,controller",
            L: "PLAINTEXT://:9092,CONTROLLER://:9093",
            A: "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    (one,) = listener_addresses(file.configs, 0, RAY, 0)
    assert (one.bind_host, one.advertised_host) == (RAY, "localhost")
    assert file.unused == ("process.roles", "inter.broker.listener.name")


def test_unless_configured_a_coordinator_listens_on_its_ray_node() -> None:
    assert listener_addresses(Configs(), 4, RAY, 2) == (
        ListenerAddress(
            name="PLAINTEXT",
            bind_host=RAY,
            bind_port=9094,
            advertised_host=RAY,
            advertised_port=9094,
        ),
    )


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        ("PLAINTEXT://:9092", None, (RAY, 9094, RAY, 9094)),
        ("PLAINTEXT://:0", None, (RAY, 0, RAY, None)),
        ("PLAINTEXT://:00", None, (RAY, 0, RAY, None)),
        ("PLAINTEXT://h:9092", None, ("h", 9094, "h", 9094)),
        ("PLAINTEXT://[0::0]:9092", "PLAINTEXT://:9092", ("::", 9094, RAY, 9094)),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://h:80", ("0.0.0.0", 9094, "h", 82)),
        ("PLAINTEXT://:9092", "PLAINTEXT://h:809{node.id}", (RAY, 9094, "h", 8097)),
        ("PLAINTEXT://:9{node.id}9", "PLAINTEXT://h:80", (RAY, 979, "h", 82)),
        ("PLAINTEXT://:9{node.id}9", None, (RAY, 979, RAY, 979)),
        ("PLAINTEXT://:0", "PLAINTEXT://h:80", (RAY, 0, "h", 82)),
        (
            "PLAINTEXT://{ray.node.address}:9092",
            "PLAINTEXT://k{node.id}.{ray.node.address}.nip.io:9092",
            (RAY, 9094, f"k7.{RAY}.nip.io", 9094),
        ),
        ("PLAINTEXT://[FE80:0::1]:65533", None, ("fe80::1", 65535, "fe80::1", 65535)),
    ],
)
def test_node_7_is_the_third_coordinator_of_its_host(
    listeners: str, advertised: str | None, expected: tuple[str, int, str, int | None]
) -> None:
    assert addresses(listeners, advertised, node=7, index=2) == expected


def test_the_address_of_a_ray_node_may_be_of_ipv6() -> None:
    for listeners in ("PLAINTEXT://:1", "PLAINTEXT://[{ray.node.address}]:1"):
        assert addresses(listeners, ray="fd00::2") == ("fd00::2", 1, "fd00::2", 1)
    with pytest.raises(ConfigError, match="node 0 would have host k-fd00::2, which is no IP"):
        addresses("PLAINTEXT://k-{ray.node.address}:1", ray="fd00::2")


@pytest.mark.parametrize(
    ("listeners", "advertised", "node", "sentence"),
    [
        (
            "PLAINTEXT://:65533", None, 7,
            "listeners leaves no port for node 7: 3 other coordinators of its host have the ports"
            " from 65533 on, and the last port is 65535",
        ),
        (
            "PLAINTEXT://:1", "PLAINTEXT://h:65533", 7,
            "advertised.listeners leaves no port for node 7",
        ),
        ("PLAINTEXT://:909{node.id}", None, 10, "node 10 would have port 90910, which is no port"),
        ("PLAINTEXT://:{node.id}", None, 0, "node 0 would have port 0, which is no port"),
        ("PLAINTEXT://10.0.0.{node.id}:1", None, 256, "node 256 would have host 10.0.0.256"),
    ],
)  # fmt: skip
def test_a_coordinator_that_cannot_have_an_address_is_named(
    listeners: str, advertised: str | None, node: int, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        addresses(listeners, advertised, node=node, index=3)


def test_ports_for_replicas_are_in_a_row_too() -> None:
    assert replica_port(Configs(), 3, 3) == 0
    configs = Configs({"replica.port": "65534"})
    assert [replica_port(configs, 5, index) for index in range(2)] == [65534, 65535]
    with pytest.raises(ConfigError, match="leaves no port for node 5: 2 other"):
        replica_port(configs, 5, 2)
    with pytest.raises(ConfigError, match="no more than 65535"):
        Configs({"replica.port": "65536"})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({}, None),
        ({L: "PLAINTEXT://:0"}, None),
        ({"replica.port": "9094"}, None),
        (
            {"replica.port": "9093"},
            "Node 0 (replica.port) and node 2 (listeners) would both listen on port 9093 of a",
        ),
        (
            {"replica.port": "9091"},
            "Node 0 (listeners) and node 2 (replica.port) would both listen on port 9092 of a",
        ),
        ({"replica.port": "9092"}, "Node 0 (replica.port) and node 0 (listeners) would both"),
        (
            {A: "PLAINTEXT://lb:80"},
            "advertised.listeners gives nodes 0 and 1 the same address, host lb and port 80:"
            " make it differ by {node.id} or {ray.node.address}",
        ),
        ({A: "PLAINTEXT://lb:8{node.id}"}, None),
        ({A: "PLAINTEXT://lb-{ray.node.address}:80"}, None),
        ({L: "PLAINTEXT://a:80"}, "listeners gives nodes 0 and 1 the same address, host a and"),
        ({L: "PLAINTEXT://:65535"}, "listeners leaves no port for node 2"),
    ],
)
def test_each_address_of_a_cluster_is_there_once(
    overrides: dict[str, str], sentence: str | None
) -> None:
    """Nodes 0 and 2 are on the host a, node 1 is on b."""
    configs = Configs(overrides)
    if sentence is None:
        check_cluster(configs, ["a", "b", "a"])
        return
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        check_cluster(configs, ["a", "b", "a"])


PARTS = ["PLAINTEXT", "SSL", "://", ":", "[", "]", "::1", "0.0.0.0", "h", "{node.id}", "{", "}"]
PIECES = st.sampled_from([*PARTS, ".", "9092", "0", "65536", "{ray.node.address}", ",", " "])
TEXTS = st.lists(PIECES | st.text(max_size=2), max_size=8).map("".join)


@given(TEXTS, st.none() | TEXTS, st.integers(0, 10**6), st.integers(0, 10**5))
def test_any_text_gives_addresses_or_a_config_error(
    listeners: str, advertised: str | None, node: int, index: int
) -> None:
    try:
        bound, port, shown, given = addresses(listeners, advertised, node=node, index=index)
    except ConfigError:
        return
    assert bound
    assert shown not in {"", "0.0.0.0", "::"}
    assert 0 <= port <= 65535
    assert given is None or 1 <= given <= 65535


HOSTS = st.sampled_from(["", "h", "10.0.0.1", "[::1]", "n{node.id}", "{ray.node.address}"])


@given(HOSTS, st.integers(1, 65500), st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_coordinators_that_get_addresses_get_different_ones(
    host: str, port: int, hosts: list[str]
) -> None:
    configs = Configs({L: f"PLAINTEXT://{host}:{port}"})
    found = [
        listener_addresses(configs, node_id, each, hosts[:node_id].count(each))[0]
        for node_id, each in enumerate(hosts)
    ]
    shown = {(one.advertised_host, one.advertised_port) for one in found}
    try:
        check_cluster(configs, hosts)
    except ConfigError:
        assert len(shown) < len(hosts)
    else:
        assert len(shown) == len(hosts)
