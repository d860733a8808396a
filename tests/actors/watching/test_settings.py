"""The consumer's settings: the operator's pass through, and none of them can make it write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.errors import BadInputError
from actors.watching.reader import Reader
from actors.watching.settings import OWN, read_settings

if TYPE_CHECKING:
    from pathlib import Path


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return path


def test_settings_pass_through_beside_our_own(tmp_path: Path) -> None:
    path = written(tmp_path, "security.protocol=SASL_SSL\ngroup.id=other\n")
    settings = read_settings(path, "k:1")
    assert settings["security.protocol"] == "SASL_SSL"
    assert (settings["group.id"], settings["bootstrap.servers"]) == ("other", "k:1")
    assert settings["enable.auto.commit"] is False
    assert read_settings(None, "k:1")["group.id"] == "rollcall-watch"


def test_the_login_of_a_java_client_is_understood(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="me" password="a\\\\"b";\n',
    )
    settings = read_settings(path, "k:1")
    assert (settings["sasl.username"], settings["sasl.password"]) == ("me", 'a"b')
    assert "sasl.jaas.config" not in settings


@pytest.mark.parametrize("name", ["bootstrap.servers", *OWN])
def test_what_keeps_it_harmless_cannot_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match=f"sets {name}, which `rollcall watch` sets by itself"):
        read_settings(written(tmp_path, f"{name}=x\n"), "k:1")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read: No such file"):
        read_settings(tmp_path / "none", "k:1")
    with pytest.raises(BadInputError, match="is no properties file"):
        read_settings(written(tmp_path, "a=\\u12"), "k:1")


@pytest.mark.parametrize("line", ["no.such.setting=1", "security.protocol=NONE"])
def test_a_setting_that_the_consumer_refuses(tmp_path: Path, line: str) -> None:
    settings = read_settings(written(tmp_path, line), "127.0.0.1:1")
    with pytest.raises(BadInputError, match="a setting of the consumer is wrong: "):
        Reader(settings, "127.0.0.1:1")
