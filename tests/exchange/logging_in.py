"""Commands and rehearsals that log in at a real Kafka with ``--command-config``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from actors.client.security import MECHANISMS
from actors.errors import ExitCode
from bench import rehearse
from tests.actors.cli.commands import rollcall
from tests.clients.confluent import admin as admin_of
from tests.clients.confluent import create_topics
from tests.exchange.watched_kafka import OPERATOR, TOLD_S
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.actors.cli.commands import Said
    from tests.exchange.watched_kafka import AclKafka

TOPIC, GROUP = "logins", "logged-in"
EMPTY = "logged-out"
MODULES = {"PLAIN": "plain.PlainLoginModule"}
SCRAM_MODULE = "scram.ScramLoginModule"
LIST = ("groups", "--list")
SCENARIO = """
about = "members that log in"
duration = "12s"
topics.t.partitions = 4
commit_interval_ms = 1000
[[groups]]
name = "classic"
topics = ["t"]
heartbeat_interval_ms = 500
behaviours = [{ do = "scale", at = "6s", replicas = 4 }]
[[groups]]
name = "modern"
protocol = "consumer"
topics = ["t"]
"""


def settings(
    tmp_path: Path,
    protocol: str = "SASL_PLAINTEXT",
    mechanism: str = "PLAIN",
    password: str = "secret",
    more: str = "",
) -> Path:
    """Write a file as Kafka's own tools read it."""
    module = f"org.apache.kafka.common.security.{MODULES.get(mechanism, SCRAM_MODULE)}"
    path = tmp_path / "client.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\nclient.id=some-tool\n"
        f'sasl.jaas.config={module} required username="{OPERATOR}" password="{password}";\n{more}'
    )
    return path


def trusted(kafka: AclKafka) -> str:
    """Return the lines of a file that trust the broker."""
    return f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.authority.certificate}\n"


def make_scram_users(kafka: AclKafka) -> None:
    """Let the operator log in by SCRAM, too."""
    admin = admin_of(kafka.bootstrap)
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        known = UserScramCredentialUpsertion(OPERATOR, ScramCredentialInfo(kind, 4096), b"secret")
        for future in admin.alter_user_scram_credentials([known]).values():
            future.result()


def make_group(
    kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str], group: str, topic: str
) -> None:
    """Make a topic, and a group without members that has committed its end."""
    create_topics(kafka.bootstrap, [topic], 1)
    reset = ("groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-latest")
    where = ("--bootstrap", kafka.watched, "--command-config", str(settings(tmp_path)))
    said = rollcall(capsys, *reset, "--execute", *where)
    assert (said.code, [row["NEW-OFFSET"] for row in said.rows]) == (ExitCode.OK, ["0"]), said.err


def logins_are_taken(kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands do their work by each mechanism, with and without TLS."""
    make_group(kafka, tmp_path, capsys, GROUP, TOPIC)
    make_scram_users(kafka)
    for mechanism in MECHANISMS:
        for at, protocol, more in (
            (kafka.watched, "SASL_PLAINTEXT", ""),
            (kafka.secret, "SASL_SSL", trusted(kafka)),
        ):
            config = settings(tmp_path, protocol, mechanism, more=more)
            words = (*LIST, "--bootstrap", at, "--command-config", str(config))

            def lists(words: tuple[str, ...] = words) -> Said | None:
                said = rollcall(capsys, *words)
                return said if said.code == ExitCode.OK else None

            listed = until(lists, TOLD_S, f"{mechanism} at {protocol}, whose users were just made")
            assert GROUP in listed.lines


def rehearsals_log_in(kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Simulated members do, too; and the scenario of a group is asked for by who may."""
    scenario, out = tmp_path / "logins.toml", tmp_path / "verdict.json"
    scenario.write_text(SCENARIO)
    make_group(kafka, tmp_path, capsys, EMPTY, f"{TOPIC}-of-nobody")
    make_scram_users(kafka)
    for at, mechanism, protocol, more in (
        (kafka.watched, "PLAIN", "SASL_PLAINTEXT", ""),
        (kafka.secret, "SCRAM-SHA-256", "SASL_SSL", trusted(kafka)),
    ):
        config = str(settings(tmp_path, protocol, mechanism, more=more))
        where = ("--bootstrap", at, "--command-config", config)
        code = rehearse.main([str(scenario), *where, "--json", str(out)])
        told = capsys.readouterr()
        assert code == ExitCode.OK, told.out + told.err
        groups = json.loads(out.read_text())["groups"]
        assert {name: each["members"] for name, each in groups.items()} == {
            "classic": 4,
            "modern": 3,
        }
        left = rollcall(capsys, *LIST, *where).lines
        assert not [name for name in left if name.startswith("rehearsal-")]
        assert rehearse.main(["--from-group", EMPTY, *where]) == ExitCode.BAD_INPUT
        assert capsys.readouterr().err.startswith(f"rollcall: Group {EMPTY} has no members now")
    config = str(settings(tmp_path, password="wrong"))
    where = ("--bootstrap", kafka.watched, "--command-config", config)
    refused = f"rollcall: {kafka.watched}: it refuses the login of user {OPERATOR}: "
    for words in ([str(scenario)], ["--from-group", GROUP]):
        assert rehearse.main([*words, *where]) != ExitCode.OK
        assert capsys.readouterr().err.startswith(refused)


def mistakes_are_told(kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one sentence and an exit code."""

    def say(at: str, config: Path | None, *words: str, code: ExitCode = ExitCode.FAILURE) -> str:
        given = () if config is None else ("--command-config", str(config))
        said = rollcall(capsys, *(words or LIST), "--bootstrap", at, *given)
        assert (said.code, said.lines) == (code, []), said.err
        (sentence,) = said.err.splitlines()
        return sentence

    make: Callable[..., Path] = lambda *given, **named: settings(tmp_path, *given, **named)  # noqa: E731
    for at, protocol, more in (
        (kafka.watched, "SASL_PLAINTEXT", ""),
        (kafka.secret, "SASL_SSL", trusted(kafka)),
    ):
        for mechanism in MECHANISMS:
            config = make(protocol, mechanism, "wrong", more)
            refused = f"rollcall: {at}: it refuses the login of user {OPERATOR}: "
            assert say(at, config).startswith(refused)
    hint = "; it may want TLS or a login (security.protocol)"
    for at, code in ((kafka.watched, ExitCode.NO_CLUSTER), (kafka.secret, ExitCode.FAILURE)):
        said = say(at, None, code=code)  # the one closes the connection, the other answers in TLS
        assert said.startswith(f"rollcall: {at}: ")
        assert said.endswith(hint)
    not_trusted = say(kafka.secret, make("SASL_SSL"))
    assert not_trusted.startswith(f"rollcall: {kafka.secret}: its certificate is not trusted: ")
    no_tls = say(kafka.watched, make("SASL_SSL"))
    assert no_tls.startswith(f"rollcall: {kafka.watched}: it does not take a TLS connection (")
    no_login = say(kafka.bootstrap, make())
    assert no_login.startswith(f"rollcall: {kafka.bootstrap}: it does not take logins (")
    assert say(kafka.watched, make(), "explain", GROUP) == (
        "rollcall: this cluster does not remember rebalances: it is no Rollcall;"
        f" use `rollcall watch --bootstrap {kafka.watched}`"
    )
