"""One conversation with a real Kafka and with Rollcall, in which Kafka's tools and ours run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO

from actors.cli import admin
from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.main import main
from actors.errors import ExitCode
from tests.clients import confluent, wire
from tests.clients.java import PROGRAMS, TOOL_MS, java, rollcall
from tests.clients.modern_members import ConsumerMember, Member, ShareMember, StreamsMember
from tests.waiting import WITHIN_S, patient, until

CONSUMER = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TIMED = frozenset({CONSUMER, SHARE, STREAMS})
"""The tools that take ``--timeout``."""

GROUP, TOPIC = "the-group", "the-topic"
PARTITIONS = 4
VIEWS: Sequence[Sequence[str]] = ((), ("--offsets",), ("--members",), ("--state",))
REMARKS = re.compile(
    r".* has no (active members|offset information)\."
    r"|Request succeeded for deleting offsets .*"
    r"|Warn: Partition .* is empty\. Falling back to latest known offset\."
)
"""Lines that Kafka's tools print beside their tables; ours go to standard error."""

REFUSAL = re.compile(r"Error: .*|Share group '.*' is not empty\.")
"""What Kafka's tools say in the place of tables."""

SETTLED_S = patient(60)


class Tools:
    """A virtual machine that runs Kafka's tools against one server."""

    def __init__(self, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            java(PROGRAMS / "KafkaTools.java", bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *words: str) -> list[str]:
        """Run a tool; give its exit code and the lines that it printed, in no order of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        tool, *flags = words
        timeout = ("--timeout", str(TOOL_MS)) if tool in TIMED else ()
        self._process.stdin.write("\t".join((tool, *timeout, *flags)) + "\n")
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
    and which of the partitions, of equally many for each, a member has: Kafka's
    assignors follow the order of random ids.
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
    is_refused = any(REFUSAL.fullmatch(line) for line in left)
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

    def __init__(
        self, bootstraps: Sequence[str], tools: Sequence[Tools], pool: ThreadPoolExecutor
    ) -> None:
        self._bootstraps = bootstraps
        self._tools = tools
        self._pool = pool
        self._members: dict[str, list[AnyMember]] = {}
        self.differences: list[str] = []

    @property
    def places(self) -> Sequence[tuple[str, Tools]]:
        """The bootstrap string of each server, and Kafka's tools for it."""
        return list(zip(self._bootstraps, self._tools, strict=True))

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
        """End the clients."""
        for members in self._members.values():
            for member in members:
                if isinstance(member, ClassicMember):
                    member.close()
