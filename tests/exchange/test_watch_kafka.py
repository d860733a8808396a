"""`rollcall watch` tells what the groups of a real Kafka 4.3.1 do, with rights to read only.

The broker has ACLs. The user ``watcher`` may read and describe ``__consumer_offsets`` and describe
the topic of the groups; members connect as a super user. What members do is real: they join, leave,
are killed, come back, migrate, and the broker is killed in between.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from actors.errors import ExitCode
from tests.clients import servers
from tests.clients.confluent import QUIET
from tests.clients.confluent import admin as admin_of
from tests.clients.java import java
from tests.conftest import rollcall
from tests.exchange.logging_in import logins_are_taken, mistakes_are_told, rehearsals_log_in
from tests.exchange.watched_console import Pages, are_shown, in_a_browser
from tests.exchange.watched_groups import WatchedGroup, create_topics_of
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
from tests.exchange.watched_steps import STEPS, TOPICS, TRACED
from tests.exchange.watched_traces import SERVICE, came_back, is_in_the_backend
from tests.otlp_backend import Jaeger, variables
from tests.waiting import SESSION_MS, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
            **dict.fromkeys(TOPICS, (AclOperation.DESCRIBE,)),
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
            is_in_the_backend(jaeger, (kind, kind), cause, is_inferred=is_inferred)
        has_commits_behind(kafka)
        shown = Pages(watching)
        are_shown(shown, ("classic", "consumer"))
        static_members(watching, members, jaeger)
        of_all_types(kafka, watching, jaeger)
        in_a_browser(shown)
        comes_to_the_same_from_the_beginning(kafka, config, watching)
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


def has_commits_behind(kafka: AclKafka) -> None:
    """Let the topic have records that nobody has read."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for _ in range(100):
        producer.produce(TOPIC, b"an order", partition=0)
    assert producer.flush(TOLD_S) == 0


def comes_to_the_same_from_the_beginning(kafka: AclKafka, config: Path, first: Watching) -> None:
    """Who reads the whole log later knows the same groups and members, and tells the same."""
    second = watch(kafka, config, "--from", "beginning", "--console", "0")
    try:
        groups = [name for name, *_ in Pages(first).rows("/")]
        for path in ("/", *(f"/group?id={each}" for each in groups)):
            until(
                lambda at=path: Pages(first).rows(at) == Pages(second).rows(at),
                TOLD_S,
                f"{path} is the same",
            )
        until(lambda: not sentences(first) - sentences(second), TOLD_S, "it has told the same")
    except AssertionError as error:
        lacking = sentences(first) - sentences(second)
        error.add_note(f"It lacks {lacking}, and has {sentences(second) - sentences(first)}")
        error.add_note(f"{Pages(first).rows('/')}, {Pages(second).rows('/')}")
        raise
    finally:
        second.close()


def sentences(watching: Watching) -> set[tuple[str, str]]:
    """Return what was told, but for rebalances whose end was not known yet.

    How many partitions there were is left out: that is known of the topics as they are now.
    """
    told = {(each["group_id"], each["sentence"]) for each in watching.stories()}
    return {
        (group_id, re.sub(r" of \d+ partitions", " partitions", sentence))
        for group_id, sentence in told
        if "its end was not seen yet" not in sentence
    }


def test_members_of_a_rehearsal_log_in(
    kafka: AclKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rehearsals_log_in(kafka, tmp_path, capsys)


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


def static_members(watching: Watching, members: Members, jaeger: Jaeger) -> None:
    """A static member comes back, and nothing moves: that is traced, and no rebalance."""
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
        came_back(jaeger, kind)


def of_all_types(kafka: AclKafka, watching: Watching, jaeger: Jaeger) -> None:
    """Groups of each type: what happens is told, and what is inferred is marked."""
    create_topics_of(kafka.bootstrap, STEPS)
    for group_id, (created, steps) in STEPS.items():
        with closing(WatchedGroup(kafka.bootstrap, group_id, created)) as group:
            told, kind = 0, created
            for step in steps:
                if step.act is not None:
                    told = len(watching.stories())
                    step.act(group)
                story = watching.expect(group_id, step.told, group.tick, after=told)
                kind = step.kind or kind
                assert story["group_type"] == kind
                assert bool(step.inferred) is ("inferred" in story), story
                assert re.search(step.inferred, story.get("inferred", "")), story
                is_in_the_backend(
                    jaeger, (group_id, kind), step.cause, group.tick,
                    is_inferred=bool(step.inferred),
                )  # fmt: skip


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
