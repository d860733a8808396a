"""With security.inter.broker.protocol=SSL coordinators talk by TLS, and to nobody without it."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.peers import link as peer_link
from actors.peers import peers
from actors.peers.tls import TlsContexts, TlsError, TlsSettings, check_certificates, tls_settings
from protocol.config import ConfigError, Configs, read_server_configs
from tests.actors.peers.memory_links import ends, pass_on
from tests.actors.peers.nodes import HOST, leading, linked, me, run, seen, some
from tests.actors.peers.test_peers import append
from tests.certificates import Authority
from tests.waiting import WITHIN_S

FILES = {
    "security.inter.broker.protocol": "SSL",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/etc/keystore.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/etc/truststore.pem",
}


@dataclass(frozen=True)
class Files:
    """An authority, a certificate of it, and the settings of a coordinator that uses both."""

    authority: Authority
    directory: Path
    settings: TlsSettings


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory)
    keystore = authority.issue("node")
    return Files(authority, directory, TlsSettings(str(keystore), str(authority.certificate)))


@pytest.fixture
def loop() -> Iterator[None]:
    """Links in memory need an event loop, though nothing in them waits."""
    with asyncio.Runner() as runner:
        asyncio._set_running_loop(runner.get_loop())
        yield
        asyncio._set_running_loop(None)


# --- configs


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ssl.keystore.location": ""}, "needs certificates: set ssl.keystore.location$"),
        ({"ssl.truststore.location": " "}, "needs certificates: set ssl.truststore.location$"),
        ({"ssl.keystore.type": "JKS"}, "needs certificates: set ssl.keystore.type=PEM$"),
        ({"ssl.truststore.type": "PKCS12"}, "needs certificates: set ssl.truststore.type=PEM$"),
        (
            {"ssl.keystore.location": "keystore.pem"},
            "ssl.keystore.location is keystore.pem: give an absolute path",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        tls_settings(Configs(FILES | changes))


def test_without_any_certificate_all_that_is_missing_is_said() -> None:
    with pytest.raises(ConfigError) as raised:
        tls_settings(Configs({"security.inter.broker.protocol": "SSL"}))
    assert str(raised.value) == (
        "security.inter.broker.protocol=SSL needs certificates: set ssl.keystore.type=PEM,"
        " ssl.truststore.type=PEM, ssl.keystore.location, ssl.truststore.location"
    )


def test_the_settings_are_those_of_the_configs() -> None:
    wanted = TlsSettings("/etc/keystore.pem", "/etc/truststore.pem", checks_hosts=True)
    assert tls_settings(Configs(FILES)) == wanted
    assert tls_settings(Configs(FILES | {"security.inter.broker.protocol": "ssl"})) == wanted
    unchecked = Configs(FILES | {"ssl.endpoint.identification.algorithm": ""})
    assert tls_settings(unchecked) == replace(wanted, checks_hosts=False)


def test_a_brokers_certificates_have_no_effect_without_ssl() -> None:
    """A server file of Kafka's may have them for its own listeners."""
    properties = FILES | {"ssl.keystore.type": "JKS", "ssl.key.password": "x"}
    del properties["security.inter.broker.protocol"]
    found = read_server_configs(properties)
    assert tls_settings(found.configs) is None
    assert found.unused == ("ssl.key.password",)


@pytest.mark.parametrize("value", ["SASL_SSL", "SASL_PLAINTEXT", "TLS", ""])
def test_another_protocol_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="String must be one of: PLAINTEXT, SSL"):
        read_server_configs({"security.inter.broker.protocol": value})


# --- certificates


def test_good_certificates_are_accepted(files: Files) -> None:
    check_certificates(files.settings, HOST)


def with_keystore(files: Files, path: Path) -> TlsSettings:
    return replace(files.settings, keystore=str(path))


def with_truststore(files: Files, path: Path) -> TlsSettings:
    return replace(files.settings, truststore=str(path))


def empty(files: Files) -> Path:
    (files.directory / "empty").touch()
    return files.directory / "empty"


NOWHERE = Path("/nowhere/file.pem")
WRONG: dict[str, Callable[[Files], TlsSettings]] = {
    "no keystore": lambda files: with_keystore(files, NOWHERE),
    "no truststore": lambda files: with_truststore(files, NOWHERE),
    "no key": lambda files: with_keystore(files, files.authority.certificate),
    "no certificate": lambda files: with_truststore(files, empty(files)),
    "password": lambda files: with_keystore(files, files.authority.issue("p", password="secret")),
    "another authority": lambda files: with_truststore(
        files, Authority(files.directory, "other").certificate
    ),
    "another host": lambda files: with_keystore(
        files, files.authority.issue("host", ["IP:10.0.0.1"])
    ),
    "only a server's": lambda files: with_keystore(
        files, files.authority.issue("server", usage="serverAuth")
    ),
}
"""Settings with one fault each."""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no keystore", "/nowhere/file.pem cannot be read: No such file or directory"),
        ("no truststore", "/nowhere/file.pem cannot be read: No such file or directory"),
        ("no key", "does not contain a private key and its certificate, as PEM"),
        ("no certificate", "empty contains no certificate, as PEM"),
        ("password", "has a password: store it without one"),
        ("another authority", "its certificate is not valid here: unable to get local issuer"),
        ("another host", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("only a server's", "its certificate is not valid here: unsuitable certificate purpose"),
    ],
)
def test_wrong_certificates_are_said_at_the_start(name: str, sentence: str, files: Files) -> None:
    with pytest.raises(TlsError) as raised:
        check_certificates(WRONG[name](files), HOST)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_host_that_the_certificate_does_not_name_may_be_allowed(files: Files) -> None:
    check_certificates(replace(WRONG["another host"](files), checks_hosts=False), HOST)


def test_no_older_tls_is_spoken(files: Files) -> None:
    contexts = TlsContexts(files.settings)._contexts
    for context in contexts:
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.verify_mode is ssl.CERT_REQUIRED


# --- links in memory


@pytest.mark.usefixtures("loop")
@given(bodies=st.lists(st.binary(max_size=100_000), max_size=4), from_caller=st.booleans())
def test_what_is_sent_by_tls_arrives_and_is_not_readable_on_the_way(
    files: Files, bodies: list[bytes], from_caller: bool
) -> None:
    contexts = TlsContexts(files.settings)
    pair = ends(contexts.caller(HOST), contexts.callee())
    pass_on(*pair)
    assert all(end.link.is_open for end in pair)
    sender, receiver = pair if from_caller else pair[::-1]
    for body in bodies:
        sent = sender.sent(body)
        assert len(body) < 8 or body not in sent
        receiver.link.data_received(sent)
    assert receiver.owner.bodies == bodies
    for end in pair:
        end.close()


@pytest.mark.usefixtures("loop")
@given(data=st.data())
def test_changed_bytes_of_tls_close_the_link(files: Files, data: st.DataObject) -> None:
    contexts = TlsContexts(files.settings)
    pair = ends(contexts.caller(HOST), contexts.callee())
    pass_on(*pair)
    sent = bytearray(pair[0].sent(b"body" * 10))
    bit = data.draw(st.integers(8 * 5, 8 * len(sent) - 1))  # beyond the head of TLS's record
    sent[bit // 8] ^= 1 << bit % 8
    pair[1].link.data_received(bytes(sent))
    assert pair[1].owner.bodies == []
    assert len(pair[1].owner.refusals) == 1
    for end in pair:
        end.close()


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("has_tls", ["caller", "callee"])
def test_an_end_without_tls_and_one_with_it_refuse_each_other(has_tls: str, files: Files) -> None:
    contexts = TlsContexts(files.settings)
    if has_tls == "caller":
        pair = ends(contexts.caller(HOST), None)
        sentence = "it uses TLS, and security.inter.broker.protocol is PLAINTEXT here"
    else:
        pair = ends(None, contexts.callee())
        sentence = "it does not use TLS, and security.inter.broker.protocol is SSL here"
    pass_on(*pair)
    assert pair[1].owner.refusals == [sentence]
    assert pair[1].wire.is_closed
    assert not any(end.link.is_open for end in pair)
    for end in pair:
        end.close()


# --- links over sockets


def test_peers_are_linked_by_tls_and_send_messages_of_any_size(files: Files) -> None:
    async def test() -> None:
        async with some() as made:
            nodes = [await made.add(me(number), tls=files.settings) for number in (2, 0, 1)]
            await linked(*nodes)
            large = append(20_000_000)
            nodes[1].peers.send(2, [leading(1), large, leading(2)])
            nodes[0].peers.send(0, [leading(3)])
            await seen(lambda: len(nodes[0].said) == 3, "everything has come")
            assert nodes[0].said == [(0, leading(1)), (0, large), (0, leading(2))]
            await seen(lambda: nodes[1].said == [(2, leading(3))], "the other way, too")
            assert all(one.tls_version == "TLSv1.3" for one in nodes[0].peers._open.values())

    run(test)


@pytest.mark.parametrize(
    ("stranger", "sentence"),
    [
        ("another authority", "refused a caller at 127.0.0.1"),
        (None, "it does not use TLS, and security.inter.broker.protocol is SSL here"),
    ],
)
def test_a_stranger_is_refused_in_one_sentence(
    stranger: str | None, sentence: str, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rollcall.peers")
    other = None
    if stranger is not None:
        foreign = Authority(files.directory, "foreign")
        keystore = foreign.issue("foreign-node")
        other = TlsSettings(str(keystore), files.settings.truststore)

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1), tls=files.settings)
            calling = await made.add(me(0), tls=other)
            await seen(lambda: sentence in caplog.text, "it is said")
            assert node.story == calling.story == []
            assert not node.peers._recognized

    run(test)
    said = [one.getMessage() for one in caplog.records if sentence in one.getMessage()]
    assert len(said) == 1
    if stranger is not None:
        assert "its certificate is not valid here: unable to get local issuer" in said[0]


def test_a_certificate_does_not_replace_the_secret(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1), tls=files.settings)
            await made.add(me(0, secret=b"t" * 32), tls=files.settings)
            said = "it does not know the cluster's secret"
            await seen(lambda: said in caplog.text, "it is said")
            assert node.story == []

    run(test)


def test_new_certificates_are_used_without_a_restart(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when something renews them every few weeks; a half-written file changes nothing."""
    keystore, truststore = tmp_path / "keystore.pem", tmp_path / "truststore.pem"
    keystore.write_bytes(Path(files.settings.keystore).read_bytes())
    truststore.write_bytes(files.authority.certificate.read_bytes())
    new = Authority(tmp_path, "new")
    issued = new.issue("new-node")

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1), tls=TlsSettings(str(keystore), str(truststore)))
            keystore.write_text("half of")
            old = await made.add(me(0), tls=files.settings)
            await linked(node, old)
            assert "the certificates that were read before are used" in caplog.text
            old.peers.close()
            await seen(lambda: node.story[-1] == ("down", 0), "it is gone")
            keystore.write_bytes(issued.read_bytes())
            truststore.write_bytes(new.certificate.read_bytes())
            again = await made.add(me(0), tls=TlsSettings(str(issued), str(new.certificate)))
            await linked(node, again)

    run(test)


def test_who_starts_no_tls_is_let_go(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "HANDSHAKE_S", 0.05)

    async def test() -> None:
        async with some() as made:
            node = await made.add(me(1), tls=files.settings)
            reader, writer = await asyncio.open_connection(HOST, node.port)
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
            writer.close()

    run(test)


def test_connections_that_start_no_tls_do_not_keep_peers_from_linking(files: Files) -> None:
    async def test() -> None:
        async with some() as made:
            high = await made.add(me(1), tls=files.settings)
            silent = [
                await asyncio.open_connection(HOST, high.port)
                for _ in range(peers.UNIDENTIFIED_MAX)
            ]
            low = await made.add(me(0), tls=files.settings)
            await linked(low, high)
            for _, writer in silent:
                writer.close()

    run(test)
