"""What a file of ``--command-config`` asks for, and each mistake in it as one sentence."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from actors.client.command_config import FILE_BYTES_MAX
from actors.client.login import WORDS
from actors.client.security import MECHANISMS, PLAINTEXT, Login, read_security
from actors.errors import BadInputError
from tests.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
    '  username="ada" password="a\\\\"b";\n'
)
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return path


def test_every_mechanism_has_its_words() -> None:
    assert list(WORDS) == list(MECHANISMS)


def test_without_a_file_or_a_protocol_connections_are_plaintext(tmp_path: Path) -> None:
    assert read_security(None) == PLAINTEXT
    assert read_security(written(tmp_path, f"client.id=me\n{JAAS}")) == PLAINTEXT


@pytest.mark.parametrize(
    ("text", "login"),
    [
        (SASL + JAAS, Login("PLAIN", "ada", 'a"b')),
        (SASL + "sasl.username=eve\nsasl.password=c\n", Login("PLAIN", "eve", "c")),
        (
            "security.protocol=sasl_plaintext\nsasl.mechanisms=SCRAM-SHA-512\n" + JAAS,
            Login("SCRAM-SHA-512", "ada", 'a"b'),
        ),
    ],
    ids=["jaas", "librdkafka", "other spellings"],
)
def test_a_login_is_read(tmp_path: Path, text: str, login: Login) -> None:
    security = read_security(written(tmp_path, text))
    assert (security.login, security.tls) == (login, None)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Login("PLAIN", "ada", "secret"))


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.ca.location"])
@pytest.mark.parametrize(
    ("check", "is_checked"), [(None, True), ("https", True), ("none", False), ("", False)]
)
def test_tls_trusts_an_authority(
    tmp_path: Path, authority: Authority, name: str, check: str | None, is_checked: bool
) -> None:
    text = f"security.protocol=SSL\n{name}={authority.certificate}\n"
    if check is not None:
        text += f"ssl.endpoint.identification.algorithm={check}\n"
    tls = read_security(written(tmp_path, text)).tls
    assert tls is not None
    assert tls.check_hostname is is_checked
    assert tls.verify_mode == ssl.CERT_REQUIRED
    assert len(tls.get_ca_certs()) == 1


@pytest.mark.parametrize("password", ["", "secret"])
def test_a_client_may_have_a_certificate(
    tmp_path: Path, authority: Authority, password: str
) -> None:
    keystore = authority.issue(f"client-{password}", password=password)
    text = f"security.protocol=SSL\nssl.keystore.location={keystore}\n"
    path = written(tmp_path, f"{text}ssl.key.password={password}\n")
    assert read_security(path).tls is not None
    if password:
        with pytest.raises(BadInputError, match="is not a file of type PEM"):
            read_security(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS\n", "security.protocol=TLS is not one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\n", "sasl.mechanism is missing: give one of PLAIN, SCRAM"),
        (SASL + "sasl.mechanism=GSSAPI\n", "sasl.mechanism=GSSAPI is not one of PLAIN, SCRAM"),
        (SASL, 'there is no username="..." in sasl.jaas.config, and no sasl.username'),
        (SASL + "sasl.username=a\n", 'there is no password="..." in sasl.jaas.config'),
        ("security.protocol=SSL\nssl.truststore.type=JKS\n", "ssl.truststore.type=JKS is not"),
        ("security.protocol=SSL\nssl.ca.location=/gone\n", "ssl.ca.location=/gone cannot be read"),
        (
            "security.protocol=SSL\nssl.keystore.location=/gone\n",
            "ssl.keystore.location=/gone cannot be read: No such file or directory",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location={path}\n",
            "ssl.truststore.location={path} is not a file of type PEM",
        ),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=dns\n",
            "ssl.endpoint.identification.algorithm=dns is not one of https, none",
        ),
        ("=nothing\n", "is no properties file: line 1 has no name"),
        ("x" * (FILE_BYTES_MAX + 1), "is longer than 1 MiB"),
    ],
    ids=range(12),
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(BadInputError) as raised:
        read_security(written(tmp_path, text.replace("{path}", str(path))))
    assert str(raised.value).startswith(str(path))
    assert said.replace("{path}", str(path)) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone cannot be read: No such file or directory$"):
        read_security(tmp_path / "gone")
