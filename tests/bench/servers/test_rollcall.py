"""What the READY line of a cluster says."""

import pytest

from bench.servers.rollcall import StartError, parse_ready


def test_ready_has_the_addresses_of_both_ip_versions() -> None:
    said = "READY bootstrap=10.0.0.1:9092,[fd77::2]:9093 console=http://10.0.0.1:1\n"
    assert parse_ready(said) == (("10.0.0.1", 9092), ("fd77::2", 9093))


def test_anything_else_is_an_error() -> None:
    with pytest.raises(StartError, match="did not say READY but: nothing"):
        parse_ready("\n")
