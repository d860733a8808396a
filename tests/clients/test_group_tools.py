"""Kafka's tools for groups print here what they print on Kafka, and ours prints it on both.

The same conversations are held with a real Kafka 4.3.1 and with Rollcall: members of given ids
join and leave, and between their steps the tools run: kafka-consumer-groups, kafka-share-groups,
kafka-streams-groups and `rollcall groups`. What they print must be the same, but for the
coordinator's address.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from actors.cli import admin
from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.main import main
from actors.errors import ExitCode
from tests.clients import confluent, servers, wire
from tests.clients.confluent import create_topics
from tests.clients.java import PROGRAMS, TOOL_MS, java, rollcall
from tests.clients.modern_members import ConsumerMember, Member, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, patient, until

CONSUMER = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUP, TOPIC = "the-group", "the-topic"
PARTITIONS = 4
VIEWS: Sequence[Sequence[str]] = ((), ("--offsets",), ("--members",), ("--state",))
REMARKS = re.compile(
    r".* has no (active members|offset information)\."
    r"|Request succeeded for deleting offsets .*"
    r"|Warn: Partition .* is empty\. Falling back to latest known offset\."
)
"""Lines that Kafka's tools print beside their tables; ours go to standard error."""

SETTLED_S = patient(60)
SESSION_MS = "3600000"

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.max.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.share.max.session.timeout.ms": SESSION_MS,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.streams.max.session.timeout.ms": SESSION_MS,
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""Sessions outlast the conversation; each change has its own assignment, as in Kafka 4.3.1."""

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]


class Tools:
    """A virtual machine that runs Kafka's tools against one server."""

    def __init__(self, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            java(PROGRAMS / "GroupTools.java", bootstrap, TOOL_MS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *words: str) -> list[str]:
        """Run a tool; give its exit code and the lines that it printed, in no order of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.startswith("DONE "):
                return [line.strip(), *sorted(filter(None, map(plain, lines)))]
            lines.append(line)
        raise AssertionError(f"{words}: the virtual machine ended after {lines}")

    def close(self) -> None:
        """End the virtual machine."""
        self._process.kill()
        self._process.wait(WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def plain(line: str) -> str:
    """Leave out what differs from run to run of Kafka itself.

    That is addresses, widths of columns, stack traces, the random end of a classic member's id,
    and which of the partitions, of equally many for each, a member has: Kafka's assignors follow
    the order of random ids.
    """
    if line.startswith(("\tat ", "\t...", "[")):
        return ""
    line = re.sub(r"\S+:\d+ +\(\d+\)", "COORDINATOR", line)
    line = re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-UUID", line)
    line = re.sub(r":\[?(\d+(,\d+)*)\]?(?=[;\s]|$)", _counted, line)
    return " ".join(line.split())


def _counted(found: re.Match[str]) -> str:
    return f":{len(found[1].split(','))} partitions"


def run_ours(bootstrap: str, *words: str, command: str = "groups") -> list[str]:
    """Run our command; give its exit code and what it prints, as :meth:`Tools.run` does.

    It runs in this process: a hundred processes would take minutes.
    """
    printed = StringIO()
    with redirect_stdout(printed):
        code = main((command, "--bootstrap-server", bootstrap, *words))
    return [f"DONE {code}", *sorted(filter(None, map(plain, printed.getvalue().splitlines())))]


def tables(lines: Sequence[str]) -> Sequence[str]:
    """Leave out what Kafka's tool prints beside tables.

    It says a refusal in its tables' place, and ends with any code; ours prints nothing there, and
    fails.
    """
    left = [line for line in lines if not REMARKS.fullmatch(line)]
    is_refused = any(line.startswith("Error: ") for line in left)
    return [f"DONE {ExitCode.FAILURE}"] if is_refused else left


class ClassicMember:
    """A member of a classic group; ``static...`` has its id as its instance id."""

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
        self._place = bootstrap, group_id
        static = {"group_instance_id": member_id} if member_id.startswith("static") else {}
        self._instance_ids = static.values()
        self._member = confluent.Member(
            bootstrap, group_id, [topic], client_id=member_id, session_timeout_ms=300_000, **static
        )

    @property
    def assigned(self) -> set[confluent.Partition]:
        """What it was given."""
        return self._member.assigned

    def beat(self) -> None:
        """Take part in the group for a moment."""
        self._member.poll()

    def is_settled(self) -> bool:
        """Whether no rebalance is under way."""
        return bool(wire.describe(*self._place).group_state == "Stable")

    def commit(self, offset: int) -> None:
        """Commit an offset for each of its partitions."""
        offsets = [confluent.TopicPartition(*each, offset) for each in sorted(self.assigned)]
        self._member.consumer.commit(offsets=offsets, asynchronous=False)

    def close(self) -> None:
        """End it: it leaves, unless it is static."""
        self._member.close()

    def leave(self) -> None:
        """Leave the group; of a static member, our command removes it."""
        self.close()
        bootstrap, group_id = self._place
        for each in self._instance_ids:
            remove = ("members", "--remove", "--group", group_id, "--instance-id", each)
            rollcall(*remove, "--bootstrap-server", bootstrap)


AnyMember = ClassicMember | Member


class Both:
    """The same conversation with Kafka and with us, step by step."""

    def __init__(self, bootstraps: Sequence[str], pool: ThreadPoolExecutor) -> None:
        self._bootstraps = bootstraps
        self._tools = [Tools(bootstrap) for bootstrap in bootstraps]
        self._pool = pool
        self._members: dict[str, list[AnyMember]] = {}
        self.differences: list[str] = []

    def join(
        self,
        kind: type[ClassicMember | ConsumerMember | ShareMember | StreamsMember],
        member_id: str,
    ) -> None:
        """Let a member join, and wait until nothing changes any more."""
        self._members[member_id] = [
            kind(bootstrap, GROUP, member_id, TOPIC) for bootstrap in self._bootstraps
        ]
        self.settle()

    def leave(self, member_id: str) -> None:
        """Let a member leave, and wait until nothing changes any more."""
        for member in self._members.pop(member_id):
            member.leave()
        self.settle()

    def commit(self, offset: int) -> None:
        """Let each member of a classic group commit an offset for what it has."""
        for members in self._members.values():
            for member in members:
                assert isinstance(member, ClassicMember)
                member.commit(offset)

    def commit_without_members(self) -> None:
        """Commit an offset of each partition for a group that has no members."""
        offsets = dict.fromkeys(((TOPIC, number) for number in range(PARTITIONS)), 0)
        for bootstrap in self._bootstraps:
            with AdminClient(parse_bootstrap(bootstrap)) as client:
                admin.commit_offsets(client, GROUP, offsets)

    def settle(self) -> None:
        """Heartbeat until all members have the newest target assignment."""
        for number in range(len(self._bootstraps)):
            members = [both[number] for both in self._members.values()]

            def is_settled(members: Sequence[AnyMember] = members) -> bool:
                for member in members:
                    member.beat()
                return members[0].is_settled() and all(each.assigned for each in members)

            if members:
                until(is_settled, SETTLED_S, "the group is settled")

    def describe(self, tool: str, *, ours: bool = False) -> None:
        """Let a tool, and maybe our command too, describe the group in all its views."""
        for view in VIEWS:
            for more in ((), ("--verbose",)):
                self.run(tool, "--describe", "--group", GROUP, *view, *more, ours=ours)

    def run(
        self,
        tool: str,
        *words: str,
        ours: bool = False,
        again: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a tool on both servers, and note it if they do not print the same.

        ``ours``: ``rollcall groups`` must print the same tables on both servers, or fail where the
        tool says an error, after ``again`` has prepared once more what the tool has taken away.
        """
        on_kafka, here = self._pool.map(lambda each: each.run(tool, *words), self._tools)
        print(" ".join(words), *on_kafka, sep="\n  ")  # noqa: T201 - what Kafka prints
        self._compare(words, {"Kafka": on_kafka, "Rollcall": here})
        if ours:
            again()
            for bootstrap, theirs in zip(self._bootstraps, (on_kafka, here), strict=True):
                printed = run_ours(bootstrap, *words)
                said = {f"Kafka's tool at {bootstrap}": tables(theirs), "Ours": printed}
                self._compare(words, said)

    def run_ours(self, *words: str, command: str = "groups") -> Sequence[str]:
        """Run only our command: it must print and end the same on both servers."""
        on_kafka, here = (
            run_ours(bootstrap, *words, command=command) for bootstrap in self._bootstraps
        )
        self._compare(words, {"Ours on Kafka": on_kafka, "Ours on Rollcall": here})
        return here

    def remove_all(self) -> None:
        """Let our command remove all members at once, who do not know of it."""
        gone = [member for members in self._members.values() for member in members]
        self._members.clear()
        said = self.run_ours("--remove", "--group", GROUP, "--all", command="members")
        assert len(said) == 1 + len(gone) // len(self._bootstraps), said
        for member in gone:
            if isinstance(member, ClassicMember):
                member.close()

    def delete(self, tool: str, again: Callable[[], None]) -> None:
        """Delete the group by a tool, then once more by our command, on both servers.

        Both say it in a sentence of their own; the group must be gone after either.
        """
        both_ways = (lambda *words: self.run(tool, *words)), self.run_ours
        for number, way in enumerate(both_ways):
            if number:
                again()
            self.run(tool, "--list", ours=True)
            way("--delete", "--group", GROUP)
            self.run(tool, "--list", ours=True)

    def _compare(self, words: Sequence[str], printed: Mapping[str, Sequence[str]]) -> None:
        one, other = printed.values()
        if one != other:
            said = [line for who, lines in printed.items() for line in (f"{who}:", *lines)]
            self.differences.append("\n".join((" ".join(words), *said, "")))

    def close(self) -> None:
        """End the virtual machines, and clients."""
        for each in self._tools:
            each.close()
        for members in self._members.values():
            for member in members:
                if isinstance(member, ClassicMember):
                    member.close()


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Start a Kafka and a cluster of ours."""
    java()
    with ExitStack() as stack:
        found = []
        for kind in (servers.KafkaServer, servers.RollcallServer):
            directory = tmp_path_factory.mktemp(kind.__name__)
            server = kind(directory, {**servers.COMMON, **SETTINGS}, 1)
            stack.callback(server.close)
            server.start()
            create_topics(server.bootstrap, [TOPIC], PARTITIONS)
            found.append(server.bootstrap)
        yield found[0], found[1]


@pytest.fixture
def both(bootstraps: tuple[str, str]) -> Iterator[Both]:
    """Hold one conversation with each."""
    with ThreadPoolExecutor(2) as pool:
        made = Both(bootstraps, pool)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.parametrize(
    ("kind", "member_ids"),
    [(ClassicMember, ("dynamic", "static")), (ConsumerMember, ("member-1", "member-2"))],
    ids=["classic", "consumer"],
)
def test_kafka_consumer_groups_prints_what_it_prints_on_kafka(
    both: Both,
    kind: type[ClassicMember | ConsumerMember],
    member_ids: Sequence[str],
    tmp_path: Path,
) -> None:
    def described(*, ours: bool = True) -> None:
        both.describe(CONSUMER, ours=ours)

    def reset(*words: str) -> None:
        both.run(CONSUMER, "--reset-offsets", "--group", GROUP, *words, ours=True)

    def commit() -> None:
        words = ("--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
        both.run(CONSUMER, "--reset-offsets", *words)

    described(ours=False)
    both.join(kind, member_ids[0])
    described()
    if kind is ClassicMember:
        both.commit(3)
    both.join(kind, member_ids[1])
    described()
    for words in ((), ("--state",), ("--type",), ("--state", "stable"), ("--state", "empty")):
        both.run(CONSUMER, "--list", *words, ours=True)
    both.run(CONSUMER, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.remove_all()
    described()
    reset("--topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--topic", TOPIC, "--to-latest", "--execute")
    described()
    reset("--topic", f"{TOPIC}:0,2", "--to-offset", "0", "--execute")
    reset("--topic", TOPIC, "--shift-by", "-1", "--dry-run")
    reset("--topic", TOPIC, "--by-duration", "PT1H", "--execute")
    reset("--topic", TOPIC, "--to-datetime", "2026-01-01T00:00:00.000", "--execute")
    reset("--all-topics", "--to-current", "--execute")
    reset("--all-topics", "--to-current", "--export", "--dry-run")
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f"{TOPIC},{number},0\n" for number in range(PARTITIONS)))
    reset("--from-file", str(plan), "--export", "--dry-run")
    reset("--from-file", str(plan), "--execute")
    words = ("--reset-offsets", "--all-groups", "--topic", TOPIC, "--to-latest")
    both.run(CONSUMER, *words, "--dry-run", ours=True)
    both.run(CONSUMER, *words, "--execute", ours=True)
    described()
    for topic in (f"{TOPIC}:1", TOPIC):
        words = ("--delete-offsets", "--group", GROUP, "--topic", topic)
        both.run(CONSUMER, *words, ours=True, again=commit)
        described()
    both.delete(CONSUMER, again=commit)
    assert not both.differences, "\n".join(both.differences)


def test_kafka_share_groups_prints_what_it_prints_on_kafka(both: Both) -> None:
    def described(*, ours: bool = False) -> None:
        both.describe(SHARE, ours=ours)

    def reset(*words: str, ours: bool = True) -> None:
        both.run(SHARE, "--reset-offsets", "--group", GROUP, *words, ours=ours)

    def come_and_go() -> None:
        both.join(ShareMember, "member-1")
        both.leave("member-1")

    def start() -> None:
        reset("--topic", TOPIC, "--to-earliest", "--execute", ours=False)

    described()
    both.join(ShareMember, "member-1")
    described(ours=True)
    both.join(ShareMember, "member-2")
    described(ours=True)
    both.run(SHARE, "--list", ours=True)
    both.run(SHARE, "--list", "--state", ours=True)
    both.run(SHARE, "--list", "--state", "stable,empty", ours=True)
    both.run(SHARE, "--list", "--state", "empty", ours=True)
    both.run(SHARE, "--describe", "--all-groups", "--state")
    reset("--topic", TOPIC, "--to-earliest", "--execute")
    both.run(SHARE, "--delete-offsets", "--group", GROUP, "--topic", TOPIC)
    both.run(SHARE, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.leave("member-1")
    described()
    both.leave("member-2")
    described(ours=True)
    both.run(SHARE, "--list", "--state", ours=True)
    reset("--topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--topic", TOPIC, "--to-latest", "--execute")
    described()
    reset("--topic", f"{TOPIC}:0,2", "--to-earliest", "--execute")
    reset("--topic", f"{TOPIC}:9", "--to-earliest", "--execute")
    reset("--topic", "missing", "--to-earliest", "--execute")
    reset("--all-topics", "--to-datetime", "2026-01-01T00:00:00.000", "--execute")
    reset("--all-topics", "--to-earliest", "--execute")
    described()
    both.run(SHARE, "--delete-offsets", "--group", GROUP, "--topic", "missing")
    both.run(SHARE, "--delete-offsets", "--group", "no-group", "--topic", TOPIC)
    words = ("--delete-offsets", "--group", GROUP, "--topic", TOPIC)
    both.run(SHARE, *words, ours=True, again=start)
    described(ours=True)
    both.run(SHARE, "--delete", "--group", "no-group")
    both.delete(SHARE, again=come_and_go)
    described()
    assert not both.differences, "\n".join(both.differences)


def test_kafka_streams_groups_prints_what_it_prints_on_kafka(both: Both) -> None:
    def described(*, ours: bool = False) -> None:
        both.describe(STREAMS, ours=ours)

    def reset(*words: str, ours: bool = True) -> None:
        both.run(STREAMS, "--reset-offsets", "--group", GROUP, *words, ours=ours)

    def come_and_go() -> None:
        both.join(StreamsMember, "member-1")
        both.leave("member-1")

    described()
    both.join(StreamsMember, "member-1")
    described(ours=True)
    both.join(StreamsMember, "member-2")
    described(ours=True)
    both.run(STREAMS, "--list", ours=True)
    both.run(STREAMS, "--list", "--state", ours=True)
    both.run(STREAMS, "--list", "--state", "stable,empty", ours=True)
    both.run(STREAMS, "--list", "--state", "empty", ours=True)
    both.run(STREAMS, "--describe", "--all-groups", "--state")
    reset("--input-topic", TOPIC, "--to-earliest", "--execute")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", TOPIC)
    both.run(STREAMS, "--delete", "--group", GROUP)
    both.run_ours("--delete", "--group", GROUP)
    both.leave("member-1")
    described()
    both.leave("member-2")
    described(ours=True)
    reset("--input-topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--input-topic", TOPIC, "--to-earliest", "--execute")
    described()
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", f"{TOPIC}:1")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--input-topic", "missing")
    both.run(STREAMS, "--delete-offsets", "--group", "no-group", "--input-topic", TOPIC)
    reset("--input-topic", f"{TOPIC}:0,2", "--to-latest", "--execute")
    reset("--input-topic", f"{TOPIC}:9", "--to-earliest", "--execute")
    reset("--all-input-topics", "--to-current", "--execute", "--export")
    reset("--all-input-topics", "--to-earliest", "--execute", "--delete-all-internal-topics")
    both.run(STREAMS, "--delete-offsets", "--group", GROUP, "--all-input-topics", ours=True)
    both.commit_without_members()
    reset("--input-topic", TOPIC, "--to-earliest", "--dry-run")
    reset("--input-topic", f"{TOPIC}:0,2", "--to-latest", "--execute")
    reset("--all-input-topics", "--to-current", "--execute", "--export")
    reset("--all-input-topics", "--to-earliest", "--execute")
    for selected in (("--input-topic", f"{TOPIC}:1"), ("--all-input-topics",)):
        words = ("--delete-offsets", "--group", GROUP, *selected)
        both.commit_without_members()
        both.run(STREAMS, *words, ours=True, again=both.commit_without_members)
    described(ours=True)
    both.run(STREAMS, "--delete", "--group", "no-group")
    both.delete(STREAMS, again=come_and_go)
    described()
    assert not both.differences, "\n".join(both.differences)
