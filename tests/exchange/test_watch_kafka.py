"""`rollcall watch` tells what the groups of a real Kafka 4.3.1 do, with rights to read only.

The broker has ACLs. The user ``watcher`` may read and describe ``__consumer_offsets`` and describe
the topic of the groups; members connect as a super user. What members do is real: they join, leave,
are killed, come back, migrate, and the broker is killed in between.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from actors.errors import ExitCode
from tests.clients import servers
from tests.clients.confluent import QUIET
from tests.clients.confluent import admin as admin_of
from tests.clients.java import java
from tests.clients.modern_members import ShareMember, StreamsMember
from tests.conftest import rollcall
from tests.exchange.groups_of_all_types import KAFKA_SETTINGS, settle
from tests.program import Program
from tests.promtool import check_metrics, has_promtool
from tests.waiting import SESSION_MS, patient, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]

TOPIC, LOG = "orders", "__consumer_offsets"
TOLD_S = patient(60)
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = ("watcher", "describer", "nobody")
SETTINGS = {
    **KAFKA_SETTINGS,
    **servers.COMMON,
    "num.partitions": "4",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.watched.plain.sasl.jaas.config": f"{LOGIN} "
    + " ".join(f'user_{name}="secret"' for name in USERS)
    + ";",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


class AclKafka(servers.KafkaServer):
    """A broker with a second listener, whose users must log in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SETTINGS, 2)
        self.watched = f"127.0.0.1:{servers.free_ports(1)[0]}"

    def _properties(self, logs: Path) -> dict[str, str]:
        given = super()._properties(logs)
        protocols = given["listener.security.protocol.map"]
        return {
            **given,
            "listeners": f"{given['listeners']},WATCHED://{self.watched}",
            "listener.security.protocol.map": f"{protocols},WATCHED:SASL_PLAINTEXT",
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AclKafka]:
    java()
    server = AclKafka(tmp_path_factory.mktemp("watched") / "kafka")
    with ExitStack() as stack:
        stack.callback(server.close)
        server.start()
        yield server


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

    def __init__(self, kafka: AclKafka, config: Path, *words: str) -> None:
        self.bootstrap = kafka.bootstrap
        self._said = config.with_name(f"{id(self)}.err")
        self._errors = self._said.open("a")
        command = [sys.executable, "-m", "rollcall", "watch", "--bootstrap", kafka.watched]
        command += ["--command-config", str(config), "--session-timeout", str(SESSION_MS)]
        self.program = Program([*command, "--json", *words], errors=self._errors.fileno())
        until(lambda: "watching" in self.noted(), TOLD_S, "it has read the log")

    def noted(self) -> str:
        return self._said.read_text()

    def stories(self) -> list[dict[str, Any]]:
        return [each for line in self.program.lines if "sentence" in (each := json.loads(line))]

    def expect(self, group_id: str, pattern: str) -> dict[str, Any]:
        """Wait for a sentence about a group; return its story."""

        def found() -> list[dict[str, Any]]:
            return [
                each
                for each in self.stories()
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


def refused(kafka: AclKafka, config: Path) -> tuple[int, str]:
    """Run a watch that cannot go on; return its exit code and its sentence."""
    ran = rollcall("watch", "--bootstrap", kafka.watched, "--command-config", config, wait_s=TOLD_S)
    assert ran.stdout == ""
    (sentence,) = ran.stderr.splitlines()
    return ran.returncode, sentence


def test_the_groups_of_a_kafka_are_explained(kafka: AclKafka, tmp_path: Path) -> None:
    admin = admin_of(kafka.bootstrap)
    for future in admin.create_topics([NewTopic(TOPIC, 4, 1)]).values():
        future.result()
    config = settings_of(tmp_path, "watcher")
    code, sentence = refused(kafka, config)
    assert (code, "has no __consumer_offsets that this user may see" in sentence) == (1, True)
    allow(
        admin,
        {LOG: (AclOperation.READ, AclOperation.DESCRIBE), TOPIC: (AclOperation.DESCRIBE,)},
        "watcher",
    )
    allow(admin, {LOG: (AclOperation.DESCRIBE,)}, "describer")
    with ExitStack() as stack:
        members = Members(kafka.bootstrap)
        stack.callback(members.close)
        first = {kind: members.join(kind, kind, "a") for kind in ("classic", "consumer")}
        until(lambda: all("ASSIGNED 4" in each.lines for each in first.values()), TOLD_S, "a has 4")
        refuse(kafka, tmp_path)
        place = str(tmp_path / "place")
        watching = Watching(kafka, config, "--state", place, "--console", "0")
        stack.callback(watching.close)
        come_and_go(watching, members)
        has_metrics(watching)
        static_members(watching, members)
        of_other_types(kafka, watching)
        kafka.kill_everything()
        kafka.start()
        members.join("consumer", "classic", "m")
        story = watching.expect(
            "classic", r"member m .*joined.*; (\d of 4 partitions moved|\d partitions? newly)"
        )
        assert story["group_type"] == "consumer"
        watching.stop()
        first["consumer"].leave()
        again = Watching(kafka, config, "--state", place)
        stack.callback(again.close)
        # After a slow start of the broker it has joined anew, maybe without a commit.
        again.expect("consumer", "member a .* (left|is gone) .inferred")
        assert {each["group_id"] for each in again.stories()} <= {"classic", "consumer"}
        again.stop()
        listed = [each.group_id for each in admin.list_consumer_groups().result().valid]
        assert sorted({"classic", "consumer"} - {*listed}) == []
        assert "rollcall-watch" not in listed
    is_told_of_its_end(kafka, admin, config)


def has_metrics(watching: Watching) -> None:
    """What a real watch answers Prometheus has the lag of groups, and no fault."""
    (console,) = re.findall(r"console: (http\S+)", watching.noted())

    def page() -> str:
        with urllib.request.urlopen(f"{console}/metrics", timeout=TOLD_S) as answer:
            return str(answer.read().decode())

    until(lambda: "kafka_consumergroup_lag{" in page(), TOLD_S, "the lag of a group")
    if has_promtool():
        check_metrics(page())


def refuse(kafka: AclKafka, tmp_path: Path) -> None:
    """Each way to be refused is one sentence."""
    for user, password, said in (
        ("nobody", "secret", "that this user may see"),
        ("describer", "secret", "not allowed to read __consumer_offsets"),
        ("watcher", "wrong", "refuse the connection"),
    ):
        config = settings_of(tmp_path, f"{user}", password)
        code, sentence = refused(kafka, config)
        assert code == ExitCode.FAILURE, sentence
        assert said in sentence


def come_and_go(watching: Watching, members: Members) -> None:
    """A member joins, leaves, and one is killed."""
    kinds = ("classic", "consumer")
    b = {kind: members.join(kind, kind, "b") for kind in kinds}
    for kind in kinds:
        story = watching.expect(kind, "member b .*joined.*; 2 of 4 partitions moved$")
        assert ("inferred" in story) is (kind == "classic")
        assert {(each["before"], each["after"]) for each in story["moves"]} == {("a", "b")}
        assert {each["unit"].rpartition("-")[0] for each in story["moves"]} == {TOPIC}
    for kind in kinds:
        committed(watching.bootstrap, kind, "b")
        b[kind].leave()
        story = watching.expect(kind, "member b .* left .inferred: its last commit was")
        assert "its session timeout is" in story["inferred"]
    c = {kind: members.join(kind, kind, "c") for kind in kinds}
    for kind in kinds:
        committed(watching.bootstrap, kind, "c")
    for kind in kinds:
        c[kind].kill()
    for kind in kinds:
        story = watching.expect(kind, "member c .* no heartbeat within its .* served by nobody")
        (nobody,) = story["unserved"]
        assert (nobody["count"], nobody["unserved_ms"] >= SESSION_MS - 2_000) == (2, True)


def committed(bootstrap: str, group_id: str, name: str) -> None:
    """Wait until a member has committed its two partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, **QUIET})
    places = [TopicPartition(TOPIC, number) for number in range(4)]

    def has_committed() -> bool:
        try:
            found = consumer.committed(places, 10)
        except KafkaException:
            return False
        return [each.offset for each in found].count(ord(name)) == 2

    until(has_committed, TOLD_S, f"{name} has committed in {group_id}")
    consumer.close()


def static_members(watching: Watching, members: Members) -> None:
    """A static member comes back, and nothing moves."""
    for kind in ("classic", "consumer"):
        static = members.join(kind, kind, "s", "i-1")
        watching.expect(kind, "member i-1 .*joined")
        successor = members.prepare(kind, kind, "s", "i-1")
        until(
            lambda old=static, new=successor: "ASSIGNED 2" in old.lines and "READY" in new.lines,
            TOLD_S,
            "it has two",
        )
        static.leave()
        successor.say("go")
        watching.expect(kind, "member i-1 .*came back under a new member id; nothing else changed")


def of_other_types(kafka: AclKafka, watching: Watching) -> None:
    """A share and a streams group: a member joins, and is given what it is to have."""
    for kind, member_class, told in (
        ("share", ShareMember, "more of its partitions may be assigned; 4 partitions newly"),
        ("streams", StreamsMember, "all topics of its topology exist now; 8 tasks newly"),
    ):
        first = member_class(kafka.bootstrap, kind, f"{kind}-1", TOPIC)
        settle(first)
        watching.expect(kind, "member .* joined")
        watching.expect(kind, told)
        first.leave()


def is_told_of_its_end(kafka: AclKafka, admin: AdminClient, config: Path) -> None:
    """The topic is deleted while it is watched."""
    watching = Watching(kafka, config)
    try:
        for future in admin.delete_topics([LOG]).values():
            future.result()
        process = watching.program._process
        assert process.wait(TOLD_S * 3) == ExitCode.FAILURE
        assert f"rollcall: {LOG} was deleted" in watching.noted()
    finally:
        watching.close()
