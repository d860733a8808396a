"""`rollcall watch` tells what the groups of a real Kafka 4.3.1 do, with rights to read only.

The broker has ACLs. The user ``watcher`` may read and describe ``__consumer_offsets`` and describe
the topic of the groups; members connect as a super user. What members do is real: they join, leave,
are killed, come back, migrate, and the broker is killed in between.
"""

from __future__ import annotations

import html
import re
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from actors.errors import ExitCode
from actors.telemetry.root_names import ROOT_NAMES
from actors.watching.console import INFERRED
from protocol.stories.causes import Cause
from tests.clients import servers
from tests.clients.confluent import QUIET
from tests.clients.confluent import admin as admin_of
from tests.clients.java import java
from tests.conftest import rollcall
from tests.exchange.logging_in import logins_are_taken, mistakes_are_told
from tests.exchange.watched_groups import STEPS, WatchedGroup, topic_of
from tests.exchange.watched_kafka import (
    LOG,
    TOLD_S,
    TOPIC,
    AclKafka,
    Members,
    Watching,
    allow,
    settings_of,
    watch,
)
from tests.otlp_backend import Jaeger, find, root, variables
from tests.promtool import check_metrics, has_promtool
from tests.waiting import SESSION_MS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

SERVICE = "watched"
pytestmark = [
    pytest.mark.timeout(1200),  # it may have to wait until the backend is built
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("jaeger")) as backend:
        yield backend


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AclKafka]:
    java()
    server = AclKafka(tmp_path_factory.mktemp("watched") / "kafka")
    with ExitStack() as stack:
        stack.callback(server.close)
        server.start()
        yield server


def refused(kafka: AclKafka, config: Path) -> tuple[int, str]:
    """Run a watch that cannot go on; return its exit code and its sentence."""
    ran = rollcall("watch", "--bootstrap", kafka.watched, "--command-config", config, wait_s=TOLD_S)
    assert ran.stdout == ""
    (sentence,) = ran.stderr.splitlines()
    return ran.returncode, sentence


def test_commands_log_in_at_a_kafka(
    kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By each mechanism, with and without TLS; each mistake is one sentence."""
    logins_are_taken(kafka, tmp_path, capsys)
    mistakes_are_told(kafka, tmp_path, capsys)


def test_the_groups_of_a_kafka_are_explained(
    kafka: AclKafka, jaeger: Jaeger, tmp_path: Path
) -> None:
    admin = admin_of(kafka.bootstrap)
    for future in admin.create_topics([NewTopic(TOPIC, 4, 1)]).values():
        future.result()
    config = settings_of(tmp_path, "watcher")
    code, sentence = refused(kafka, config)
    assert (code, "has no __consumer_offsets that this user may see" in sentence) == (1, True)
    allow(
        admin,
        {
            LOG: (AclOperation.READ, AclOperation.DESCRIBE),
            **dict.fromkeys((TOPIC, *map(topic_of, STEPS)), (AclOperation.DESCRIBE,)),
        },
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
        with pytest.MonkeyPatch.context() as environment:
            for name, value in variables(jaeger, SERVICE).items():
                environment.setenv(name, value)
            watching = watch(kafka, config, "--state", place, "--console", "0")
        stack.callback(watching.close)
        come_and_go(kafka, watching, members)
        for kind, cause, is_inferred in TRACED:
            is_in_the_backend(jaeger, kind, cause, is_inferred=is_inferred)
        are_on_the_console(kafka, watching)
        static_members(watching, members)
        of_other_types(kafka, watching, jaeger)
        kafka.kill_everything()
        kafka.start()
        members.join("consumer", "classic", "m")
        story = watching.expect(
            "classic", r"member m .*joined.*; (\d of 4 partitions moved|\d partitions? newly)"
        )
        assert story["group_type"] == "consumer"
        watching.stop()
        first["consumer"].leave()
        again = watch(kafka, config, "--state", place)
        stack.callback(again.close)
        # After a slow start of the broker it has joined anew, maybe without a commit.
        again.expect("consumer", "member a .* (left|is gone) .inferred")
        assert {each["group_id"] for each in again.stories()} <= {"classic", "consumer"}
        again.stop()
        listed = [each.group_id for each in admin.list_consumer_groups().result().valid]
        assert sorted({"classic", "consumer"} - {*listed}) == []
        assert "rollcall-watch" not in listed
    is_told_of_its_end(kafka, admin, config)


TRACED = (
    ("classic", Cause.JOINED, True),
    ("consumer", Cause.JOINED, False),
    ("classic", Cause.LEFT, True),
    ("consumer", Cause.LEFT, True),
    ("classic", Cause.EXPIRED, True),
    ("consumer", Cause.EXPIRED, True),
)
"""Types of groups, causes of rebalances that are told of them, and whether these are inferred."""


def are_on_the_console(kafka: AclKafka, watching: Watching) -> None:
    """The pages and the metrics of a watch have what a real Kafka's groups did."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for _ in range(100):
        producer.produce(TOPIC, b"an order", partition=0)
    assert producer.flush(TOLD_S) == 0
    (console,) = re.findall(r"console: (http\S+)", watching.noted())

    def page(path: str) -> str:
        with urllib.request.urlopen(f"{console}{path}", timeout=TOLD_S) as answer:
            return str(answer.read().decode())

    def lacks(path: str, patterns: Iterable[str]) -> list[str]:
        text = page(path)
        plain = " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split())
        return [each for each in patterns if not re.search(each, plain)]

    def has(path: str, patterns: Sequence[str]) -> None:
        try:
            until(lambda: not lacks(path, patterns), TOLD_S, f"{path} is complete")
        except AssertionError as error:
            error.add_note(f"It lacks {lacks(path, patterns)}: {page(path)}")
            raise

    for kind in ("classic", "consumer"):
        has("/", [rf"{kind} {kind} Stable 1 \d+ 3\b"])
        has(f"/group?id={kind}", [*SHOWN, rf"type {kind} state Stable members 1\b"])
        has("/metrics", [each.replace("KIND", kind) for each in EXPOSED])
    if has_promtool():
        check_metrics(page("/metrics"))


SHOWN = (
    re.escape(INFERRED),
    "member b .*joined.*; 2 of 4 partitions moved",
    "member b .* left .inferred: its last commit was",
    "member c .* sent no heartbeat within its .* served by nobody",
    rf"Members .* a 127\.0\.0\.1 4 : {TOPIC}-0",
    rf"Offsets .* {TOPIC}-0 97 100 3 {TOPIC}-1 97 0 0 {TOPIC}-2 97 0 0 {TOPIC}-3 97 0 0",
)
"""What the page of a group shows once c was killed: a has all partitions, and commits there."""

EXPOSED = (
    r'kafka_consumergroup_members{consumergroup="KIND",coordinator="0"} 1\.0',
    rf'kafka_consumergroup_lag{{consumergroup="KIND",partition="0",topic="{TOPIC}"}} 3\.0',
    rf'kafka_consumergroup_current_offset{{consumergroup="KIND",partition="3",topic="{TOPIC}"}} 97',
    'trigger="member-expired"',
)
"""What Prometheus reads of the same group."""


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


def come_and_go(kafka: AclKafka, watching: Watching, members: Members) -> None:
    """A member joins, leaves, and one is killed."""
    kinds = ("classic", "consumer")
    b = {kind: members.join(kind, kind, "b") for kind in kinds}
    for kind in kinds:
        story = watching.expect(kind, "member b .*joined.*; 2 of 4 partitions moved$")
        assert ("inferred" in story) is (kind == "classic")
        assert {(each["before"], each["after"]) for each in story["moves"]} == {("a", "b")}
        assert {each["unit"].rpartition("-")[0] for each in story["moves"]} == {TOPIC}
    for kind in kinds:
        committed(kafka.bootstrap, kind, "b")
        b[kind].leave()
        story = watching.expect(kind, "member b .* left .inferred: its last commit was")
        assert "its session timeout is" in story["inferred"]
    c = {kind: members.join(kind, kind, "c") for kind in kinds}
    for kind in kinds:
        committed(kafka.bootstrap, kind, "c")
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


def of_other_types(kafka: AclKafka, watching: Watching, jaeger: Jaeger) -> None:
    """Share and streams groups: what happens is told, and what is inferred is marked."""
    for kind, steps in STEPS.items():
        group = WatchedGroup(kafka.bootstrap, kind)
        told = 0
        for step in steps:
            if step.act is not None:
                told = len(watching.stories())
                step.act(group)
            story = watching.expect(kind, step.told, group.beat, after=told)
            assert bool(step.inferred) is ("inferred" in story), story
            assert re.search(step.inferred, story.get("inferred", "")), story
            is_inferred = bool(step.inferred)
            is_in_the_backend(jaeger, kind, step.cause, group.beat, is_inferred=is_inferred)
        group.leave()


def is_in_the_backend(
    jaeger: Jaeger,
    kind: str,
    cause: Cause,
    beat: Callable[[], object] | None = None,
    *,
    is_inferred: bool,
) -> None:
    """Who looks for a cause in a type of group finds its rebalance, and whether it is inferred.

    ``beat``: a rebalance is traced once every member has told that it has its target.
    """
    found = root(find(jaeger, SERVICE, beat, group__type=kind, rebalance__cause=cause))
    assert found["operationName"] == ROOT_NAMES[cause]
    assert found["tags"]["messaging.consumer.group.name"] == kind
    assert ("rollcall.rebalance.inferred" in found["tags"]) is is_inferred


def is_told_of_its_end(kafka: AclKafka, admin: AdminClient, config: Path) -> None:
    """The topic is deleted while it is watched."""
    watching = watch(kafka, config)
    try:
        for future in admin.delete_topics([LOG]).values():
            future.result()
        process = watching.program._process
        assert process.wait(TOLD_S * 3) == ExitCode.FAILURE
        assert f"rollcall: {LOG} was deleted" in watching.noted()
    finally:
        watching.close()
