"""Ports are chosen and checked on the host that will listen."""

import socket

import pytest

from actors.cluster import listening_ports
from actors.cluster.listening_ports import SERVER_PORTS, TRIES, choose_ports
from actors.cluster.spec import Address
from actors.errors import BadInputError

HOST = "127.0.0.1"


def at(*ports: int, host: str = HOST) -> list[Address]:
    return [Address(host=host, port=port) for port in ports]


def test_fixed_ports_are_kept_and_others_chosen() -> None:
    (first,) = choose_ports(at(0))
    ports = choose_ports(at(first, 0))
    assert ports[0] == first
    assert len(set(ports)) == 2


def test_free_ports_are_those_of_the_last_start() -> None:
    ports = choose_ports(at(0, 0, 0, 0))
    assert len(set(ports)) == 4
    assert choose_ports(at(0, 0, 0, 0), ports) == ports


def test_chosen_ports_are_none_that_outgoing_connections_get() -> None:
    assert all(port in SERVER_PORTS for port in choose_ports(at(*[0] * 20)))


def test_without_a_free_one_among_those_any_port_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server((HOST, 0)) as taken:
        monkeypatch.setattr(listening_ports, "SERVER_PORTS", [taken.getsockname()[1]] * TRIES)
        (port,) = choose_ports(at(0))
        assert port != taken.getsockname()[1]


def test_a_kept_port_that_is_taken_by_now_is_replaced_and_the_others_stay() -> None:
    ports = choose_ports(at(0, 0, 0))
    with socket.create_server((HOST, ports[1])):
        again = choose_ports(at(0, 0, 0), ports)
    assert again[::2] == ports[::2]
    assert again[1] not in ports


def test_a_port_in_use_is_refused_by_name() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            choose_ports(at(port))


def test_a_foreign_host_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"Cannot listen on 192\.0\.2\.77"):
        choose_ports(at(0, host="192.0.2.77"))


def test_a_port_of_the_last_start_is_not_given_to_two() -> None:
    (kept,) = choose_ports(at(0))
    first, second = choose_ports(at(kept, 0), (0, kept))
    assert first == kept
    assert second != kept
