"""A real Kafka with ACLs that is watched, its members, and the `rollcall watch` beside it."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from actors.errors import ExitCode
from tests.certificates import Authority
from tests.clients import servers
from tests.exchange.groups_of_all_types import KAFKA_SETTINGS
from tests.program import Program
from tests.waiting import SESSION_MS, patient, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

TOPIC, LOG = "orders", "__consumer_offsets"
TOLD_S = patient(60)
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OPERATOR = "operator"
USERS = ("watcher", "describer", "nobody", OPERATOR)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_USERS = f"{LOGIN} " + " ".join(f'user_{name}="secret"' for name in USERS) + ";"
SETTINGS = {
    **KAFKA_SETTINGS,
    **servers.COMMON,
    "num.partitions": "4",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{OPERATOR}",
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM)),
    **{
        f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": users
        for listener in ("watched", "secret")
        for mechanism, users in (
            ("PLAIN", PLAIN_USERS),
            *((name, f"{SCRAM_LOGIN};") for name in SCRAM),
        )
    },
    "listener.name.secret.ssl.keystore.type": "PEM",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.session.timeout.ms": "1000",
    "group.streams.min.session.timeout.ms": "1000",
}


class AclKafka(servers.KafkaServer):
    """A broker with two more listeners, whose users must log in; ``secret`` has TLS as well."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SETTINGS, 2)
        self.watched, self.secret = (f"127.0.0.1:{port}" for port in servers.free_ports(2))
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(directory)
        self._keystore = self.authority.issue("broker")

    def _properties(self, logs: Path) -> dict[str, str]:
        given = super()._properties(logs)
        protocols = given["listener.security.protocol.map"]
        return {
            **given,
            "listeners": f"{given['listeners']},WATCHED://{self.watched},SECRET://{self.secret}",
            "listener.security.protocol.map": (
                f"{protocols},WATCHED:SASL_PLAINTEXT,SECRET:SASL_SSL"
            ),
            "listener.name.secret.ssl.keystore.location": str(self._keystore),
        }


def settings_of(tmp_path: Path, user: str, password: str = "secret") -> Path:
    """Write the settings file of a user."""
    path = tmp_path / f"{user}-{password}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="{user}" password="{password}";\n'
        "reconnect.backoff.max.ms=500\n"
    )
    return path


class Watching:
    """A `rollcall watch` that runs, and what it has told so far."""

    def __init__(self, bootstrap: str, directory: Path, *words: str) -> None:
        self._said = directory / f"{id(self)}.err"
        self._errors = self._said.open("a")
        command = [sys.executable, "-m", "rollcall", "watch", "--bootstrap", bootstrap]
        command += ["--session-timeout", str(SESSION_MS), "--json", *words]
        self.program = Program(command, errors=self._errors.fileno())
        until(lambda: "watching" in self.noted(), TOLD_S, "it has read the log")

    def noted(self) -> str:
        return self._said.read_text()

    def stories(self) -> list[dict[str, Any]]:
        return [each for line in self.program.lines if "sentence" in (each := json.loads(line))]

    def expect(
        self,
        group_id: str,
        pattern: str,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        after: int = 0,
    ) -> dict[str, Any]:
        """Wait for a sentence about a group, among the stories after so many; return its story."""

        def found() -> list[dict[str, Any]]:
            meanwhile()
            return [
                each
                for each in self.stories()[after:]
                if each["group_id"] == group_id and re.search(pattern, each["sentence"])
            ]

        try:
            return until(found, TOLD_S, f"{group_id}: {pattern}")[-1]
        except AssertionError as error:
            told = [f"{each['group_id']}: {each['sentence']}" for each in self.stories()]
            error.add_note("\n".join(["Told:", *told, "Noted:", self.noted()]))
            raise

    def stop(self) -> None:
        """End it as an operator does."""
        process = self.program._process
        process.terminate()
        assert process.wait(TOLD_S) == ExitCode.OK, self.noted()
        self.close()

    def close(self) -> None:
        self.program.kill()
        self._errors.close()


def watch(kafka: AclKafka, config: Path, *words: str) -> Watching:
    """Watch a Kafka as the user of a settings file."""
    words = ("--command-config", str(config), *words)
    return Watching(kafka.watched, config.parent, *words)


class Members:
    """The clients of a test, each in a process of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._programs: list[Program] = []

    def join(self, protocol: str, group_id: str, name: str, *instance: str) -> Program:
        program = self.prepare(protocol, group_id, name, *instance)
        program.say("go")
        return program

    def prepare(self, protocol: str, group_id: str, name: str, *instance: str) -> Program:
        """Start a member that joins when it is told a line."""
        command = [sys.executable, "-m", "tests.exchange.watched_member", self._bootstrap]
        program = Program([*command, protocol, group_id, name, TOPIC, *instance])
        self._programs.append(program)
        return program

    def close(self) -> None:
        for each in self._programs:
            each.kill()


def allow(admin: AdminClient, rights: Mapping[str, tuple[AclOperation, ...]], user: str) -> None:
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for topic, operations in rights.items()
        for operation in operations
    ]
    for future in admin.create_acls(rules).values():
        future.result()
