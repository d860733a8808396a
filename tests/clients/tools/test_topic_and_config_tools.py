"""`rollcall topics` and `rollcall configs` do what kafka-topics and kafka-configs do.

Either Kafka's tools or our commands change a real Kafka 4.3.1 and Rollcall. A step must succeed on
both, or be refused by both with the same error. Afterwards Kafka's tools and ours must read the
same state from both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from actors.cli.main import main
from tests.clients import servers
from tests.clients.tools.side_by_side import CONFIGS, GROUP, TOPICS, Both, Tools
from tests.waiting import WITHIN_S, until

TOOLS = {"topics": TOPICS, "configs": CONFIGS}
NAME = ("--topic", "life")
CREATE, ALTER = ("topics", "--create"), ("topics", "--alter")
TOPIC_ENTITY = ("--entity-type", "topics", "--entity-name", "life")
GROUP_ENTITY = ("--entity-type", "groups", "--entity-name", GROUP)
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
MISSING, EXISTS = "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_ALREADY_EXISTS"
NOT_MORE, BAD_NAME = "INVALID_PARTITIONS", "INVALID_TOPIC_EXCEPTION"
BAD_CONFIG, TOO_MANY = "INVALID_CONFIG", "INVALID_REPLICATION_FACTOR"

Row = tuple[str, ...]

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]


class Server:
    """One of the two, with Kafka's tools and ours for it."""

    def __init__(self, bootstrap: str, tools: Tools) -> None:
        self._bootstrap, self._tools = bootstrap, tools

    def kafkas(self, command: str, *words: str) -> tuple[bool, Sequence[str]]:
        """Run Kafka's tool; say whether it succeeds, and give its lines."""
        code, *lines = self._tools.run(TOOLS[command], *words)
        return code == "DONE 0", lines

    def ours(self, command: str, *words: str) -> tuple[str, Sequence[str]]:
        """Run our command; give the error that it names ("": none), and its lines."""
        printed, complaint = StringIO(), StringIO()
        with redirect_stdout(printed), redirect_stderr(complaint):
            code = main((command, "--bootstrap-server", self._bootstrap, *words))
        named = re.search(r"\(([A-Z_]+)\)$", complaint.getvalue().strip())
        assert bool(code) == bool(named), (command, words, code, complaint.getvalue())
        return named[1] if named else "", printed.getvalue().splitlines()

    def partitions(self, *words: str) -> Sequence[Row]:
        """Read topics by both: id, partition, leader, replicas, replicas in sync."""
        _, lines = self.kafkas("topics", "--describe", *words)
        text = "\n".join(lines)
        ids = dict(re.findall(r"^Topic: (\S+) TopicId: (\S+)", text, re.MULTILINE))
        row = r"^Topic: (\S+) Partition: (\d+) Leader: (\S+) Replicas: (\S+) Isr: (\S+)"
        theirs = [
            (each[0], ids[each[0]], *each[1:]) for each in re.findall(row, text, re.MULTILINE)
        ]
        _, lines = self.ours("topics", "--describe", *words)
        return _agreed(theirs, [tuple(line.split()) for line in lines[1:]])

    def configs(self, *words: str) -> Mapping[str, str]:
        """Read configs of one resource by both."""
        return dict(self.all_configs(*words))

    def all_configs(self, *words: str) -> Sequence[Row]:
        """Read names and values of configs by both, also of several resources."""
        _, lines = self.kafkas("configs", "--describe", *words)
        found = [re.match(r"(\S+?)=(.*) sensitive=false ", line) for line in lines]
        theirs = [(each[1], each[2]) for each in found if each]
        _, lines = self.ours("configs", "--describe", *words)
        cells = [re.split(" {2,}", line) for line in lines[1:]]
        ours = [(row[1], "" if row[2] == "-" else row[2]) for row in cells]
        return _agreed([(name, value.replace("null", "")) for name, value in theirs], ours)


def _agreed(theirs: Sequence[Row], ours: Sequence[Row]) -> Sequence[Row]:
    assert sorted(theirs) == sorted(ours), "Kafka's tool and ours read the same"
    return sorted(ours)


class Scene:
    """Steps that one kind of tool carries out on both servers, and what is read after each."""

    def __init__(self, both: Both, *, is_ours: bool) -> None:
        self.servers = [Server(*each) for each in both.places]
        self._is_ours = is_ours

    def does(self, *words: str, refused: str = "") -> None:
        """Change something: it succeeds, or is refused with this error and changes nothing."""
        for server in self.servers:
            if self._is_ours:
                assert server.ours(*words)[0] == refused, words
            else:
                assert server.kafkas(*words)[0] is not bool(refused), words

    def until(self, look: Callable[[Server], object], expected: object) -> None:
        """Wait until both servers show it: a broker hears of a change a moment later."""
        for server in self.servers:

            def is_shown(server: Server = server) -> bool:
                try:
                    seen = look(server)
                except AssertionError:
                    return False
                print(seen)  # noqa: T201 - the last is what is there instead
                return seen == expected

            until(is_shown, WITHIN_S, f"{expected} is shown")

    def has_partitions(self, count: int) -> None:
        """The topic has so many partitions, each led by the only node."""

        def look(server: Server) -> Sequence[Row]:
            return [row[2:] for row in server.partitions(*NAME)]

        self.until(look, [(str(number), "0", "0", "0") for number in range(count)])

    def has_configs(self, entity: Sequence[str], expected: Mapping[str, str]) -> None:
        """These are a resource's own configs."""
        self.until(lambda server: server.configs(*entity), expected)


@pytest.fixture(params=["kafkas", "ours"])
def scene(request: pytest.FixtureRequest, both: Both) -> Scene:
    return Scene(both, is_ours=request.param == "ours")


def test_topics_live_alike(scene: Scene) -> None:
    configs = ("--config", "retention.ms=5000", "--config", "cleanup.policy=compact")
    scene.does(*CREATE, *NAME, "--partitions", "2", "--replication-factor", "1", *configs)
    scene.has_partitions(2)
    scene.has_configs(TOPIC_ENTITY, {"retention.ms": "5000", "cleanup.policy": "compact"})
    scene.does(*CREATE, *NAME, refused=EXISTS)
    scene.does(*CREATE, *NAME, "--if-not-exists")
    scene.does(*CREATE, "--topic", "not a name", refused=BAD_NAME)
    scene.does(*CREATE, "--topic", "bad", "--config", "nonsense=1", refused=BAD_CONFIG)
    scene.does(*CREATE, "--topic", "bad", "--config", "retention.ms=x", refused=BAD_CONFIG)
    scene.does(*CREATE, "--topic", "bad", "--partitions", "0", refused=NOT_MORE)
    scene.does(*CREATE, "--topic", "bad", "--replication-factor", "9", refused=TOO_MANY)
    scene.does(*ALTER, *NAME, "--partitions", "3")
    scene.has_partitions(3)
    for count in ("1", "3"):
        scene.does(*ALTER, *NAME, "--partitions", count, refused=NOT_MORE)
    scene.has_partitions(3)
    for action in (("--describe",), ("--alter", "--partitions", "3"), ("--delete",)):
        scene.does("topics", *action, "--topic", "missing", refused=MISSING)
        scene.does("topics", *action, "--topic", "missing", "--if-exists")
    for words in (("--exclude-internal",), NAME, ("--topic", "missing")):
        for server in scene.servers:
            theirs, ours = (
                server.kafkas("topics", "--list", *words),
                server.ours("topics", "--list", *words),
            )
            assert theirs == (True, ours[1]), words
            assert not ours[0]
    for server in scene.servers:
        assert server.partitions("--exclude-internal")
    scene.does("topics", "--delete", *NAME)
    scene.until(lambda server: server.ours("topics", "--list", *NAME)[1], [])
    scene.does("topics", "--delete", *NAME, refused=MISSING)


def test_configs_of_topics_change_alike(scene: Scene) -> None:
    alter = ("configs", "--alter", *TOPIC_ENTITY)
    scene.does(*CREATE, *NAME, "--partitions", "1")
    scene.has_partitions(1)
    scene.has_configs(TOPIC_ENTITY, {})
    scene.does(*alter, "--add-config", "retention.ms=7000,cleanup.policy=[compact,delete]")
    both_policies = {"retention.ms": "7000", "cleanup.policy": "compact,delete"}
    scene.has_configs(TOPIC_ENTITY, both_policies)
    for bad in ("nonsense=1", "retention.ms=x"):
        scene.does(*alter, "--add-config", bad, refused=BAD_CONFIG)
    scene.does(*alter, "--delete-config", "retention.bytes")
    scene.has_configs(TOPIC_ENTITY, both_policies)
    for server in scene.servers:
        assert set(both_policies.items()) <= set(server.all_configs("--entity-type", "topics"))
    every = [server.configs(*TOPIC_ENTITY, "--all") for server in scene.servers]
    assert every[0] == every[1] | {"min.insync.replicas": every[0]["min.insync.replicas"]}
    assert len(every[0]) > len(both_policies)
    scene.does(*alter, "--delete-config", "cleanup.policy", "--add-config", "flush.ms=9")
    scene.has_configs(TOPIC_ENTITY, {"retention.ms": "7000", "flush.ms": "9"})
    scene.does(*alter, "--delete-config", "retention.ms,flush.ms")
    scene.has_configs(TOPIC_ENTITY, {})
    missing = ("--entity-type", "topics", "--entity-name", "missing")
    scene.does("configs", "--alter", *missing, "--add-config", "flush.ms=9", refused=MISSING)
    for server in scene.servers:
        assert server.kafkas("configs", "--describe", *missing)[0], "ours fails instead"
        assert server.ours("configs", "--describe", *missing) == (MISSING, [])
    scene.does("topics", "--delete", *NAME)
    scene.until(lambda server: server.ours("topics", "--list", *NAME)[1], [])


def test_configs_of_groups_and_brokers_change_alike(scene: Scene) -> None:
    alter = ("configs", "--alter", *GROUP_ENTITY)
    scene.has_configs(GROUP_ENTITY, {})
    scene.does(
        *alter,
        "--add-config",
        "consumer.heartbeat.interval.ms=6000,share.auto.offset.reset=earliest",
    )
    own = {"consumer.heartbeat.interval.ms": "6000", "share.auto.offset.reset": "earliest"}
    scene.has_configs(GROUP_ENTITY, own)
    for server in scene.servers:
        assert server.configs("--entity-type", "groups") == own
        assert own.items() <= server.configs(*GROUP_ENTITY, "--all").items()
    for bad in ("nonsense=1", "consumer.heartbeat.interval.ms=x"):
        scene.does(*alter, "--add-config", bad, refused=BAD_CONFIG)
    scene.does(*alter, "--delete-config", "streams.session.timeout.ms")
    scene.does(*alter, "--delete-config", "share.auto.offset.reset")
    del own["share.auto.offset.reset"]
    scene.has_configs(GROUP_ENTITY, own)
    scene.does(*alter, "--delete-config", "consumer.heartbeat.interval.ms")
    scene.has_configs(GROUP_ENTITY, {})
    brokers = ("configs", "--alter", *ALL_BROKERS)

    def default(server: Server) -> str | None:
        return server.configs(*ALL_BROKERS).get("max.connections")

    scene.does(*brokers, "--add-config", "max.connections=500")
    scene.until(default, "500")
    scene.has_configs(("--entity-type", "brokers", "--entity-name", "0"), {})
    scene.does(*brokers, "--delete-config", "max.connections")
    scene.until(default, None)


def test_groups_without_configs_are_shown_with_all(both: Both) -> None:
    both.commit_without_members()
    for place in both.places:
        server = Server(*place)
        assert server.configs("--entity-type", "groups") == {}
        assert server.configs("--entity-type", "groups", "--all")
        assert not server.ours("groups", "--delete", "--group", GROUP)[0]
