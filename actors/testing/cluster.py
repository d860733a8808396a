"""The cluster as a test has it: topics and groups of its own, and verbs.

The coordinators run in a process of their own, which ends when this one does. A verb blocks until
it is done; any thread may call it. In a coroutine, call it by ``asyncio.to_thread``: the clients
of the event loop need their time meanwhile.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from actors.testing.server import LOG_FILE
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

START_S: Final = 180.0
"""The first start of an installation compiles the assignors, which takes about a minute."""

CALL_S: Final = 90.0
END_S: Final = 15.0
WAIT_S: Final = 30.0
LOOK_S: Final = 0.05
LOG_LINES: Final = 20
NAME_MAX: Final = 100
"""Characters of a test's name in the names of its topics and groups."""


class RollcallError(AssertionError):
    """A verb cannot do what a test asks; ``str(error)`` is one sentence."""


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member of a group, and the partitions (topic and number) that it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    partitions: tuple[tuple[str, int], ...]


class ServerProcess:
    """The process of a cluster, and the conversation with it."""

    def __init__(self, directory: Path, configs: Mapping[str, str]) -> None:
        """Start it and wait until clients can use it. Raises RollcallError."""
        self.log = directory / LOG_FILE
        self._lock = threading.Lock()
        module = f"{__package__}.server"
        with (directory / "stderr.log").open("wb") as errors:
            self._process: subprocess.Popen[str] = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._errors = directory / "stderr.log"
        try:
            self.bootstrap = str(self._exchange(dict(configs), START_S))
        except BaseException:  # also a test's time limit, or Ctrl-C
            self._process.kill()
            self.close()
            raise

    def call(self, verb: str, **arguments: object) -> Any:
        """Call a verb and return its value. Raises RollcallError with its sentence."""
        __tracebackhide__ = True
        return self._exchange({"verb": verb, "arguments": arguments}, CALL_S)

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # it may have ended already
                pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_lines(self) -> str:
        """Return the end of what the process has logged."""
        lines = []
        for path in (self.log, self._errors):
            if path.exists():
                lines += path.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(lines)

    def _exchange(self, asked: dict[str, Any], wait_s: float) -> Any:
        __tracebackhide__ = True
        with self._lock:
            watch = threading.Timer(wait_s, self._process.kill)  # its end unblocks the read
            watch.start()
            try:
                answer = self._ask(asked)
            finally:
                watch.cancel()
        if not answer:
            raise RollcallError(f"The cluster's process has ended:\n{self.last_lines()}")
        said = json.loads(answer)
        if "error" in said:
            raise RollcallError(said["error"])
        return said["value"]

    def _ask(self, asked: dict[str, Any]) -> str:
        pipes: tuple[IO[str] | None, IO[str] | None] = (self._process.stdin, self._process.stdout)
        to, from_ = pipes
        assert to is not None
        assert from_ is not None
        try:
            to.write(json.dumps(asked) + "\n")
            to.flush()
            return from_.readline()
        except (OSError, ValueError):
            return ""


class ClusterForTests:
    """The cluster of one test; its topics, faults and dead coordinators end with the test."""

    def __init__(self, server: ServerProcess, test: str) -> None:
        self._server = server
        self._stem = re.sub(r"[^a-zA-Z0-9._-]+", "-", test)[:NAME_MAX].strip("-.") or "test"
        self._topics: list[str] = []
        self._groups: list[str] = []
        self._mark = int(server.call("mark"))

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers``."""
        return self._server.bootstrap

    # --- names of this test

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Create a topic that no other test has; return its name."""
        name = name or self._name()
        self._server.call("create_topic", name=name, partitions=partitions)
        self._topics.append(name)
        return name

    def group(self) -> str:
        """Return a group id that no other test has."""
        self._groups.append(self._name())
        return self._groups[-1]

    # --- verbs

    def await_assigned(  # noqa: PLR0913 - a test names those that it needs
        self,
        group: str,
        *,
        members: int = 1,
        partitions: int = 1,
        poll: Callable[[], object] | None = None,
        until: Callable[[], bool] | None = None,
        timeout_s: float = WAIT_S,
    ) -> list[AssignedMember]:
        """Wait until a group is stable, with at least so many members and assigned partitions.

        ``poll`` is called in between: clients such as confluent-kafka take part in a rebalance only
        while they are polled. ``until`` is what must hold besides, such as that the clients know
        their partitions. Raises RollcallError with the group's story.
        """
        state, found = "", list[AssignedMember]()

        def look() -> bool:
            nonlocal state, found
            if poll is not None:
                poll()
            state, found = self.describe(group)
            owned = sum(len(member.partitions) for member in found)
            if state != "Stable" or len(found) < members or owned < partitions:
                return False
            return until is None or until()

        if not _within(timeout_s, look):
            shown = f"is {state} with {found}" if state else "does not exist"
            besides = "" if until is None else " as `until` wants"
            raise RollcallError(
                f"Group {group} {shown}: within {timeout_s:g} s it did not have {members} members"
                f" with {partitions} partitions{besides}.\n{self.explain(group)}"
            )
        return found

    def describe(self, group: str) -> tuple[str, list[AssignedMember]]:
        """Return a group's state ("" if it does not exist) and its members."""
        told = self._server.call("describe", group=group)
        members = [
            AssignedMember(
                each["member_id"],
                each["instance_id"],
                each["client_id"],
                tuple((topic, number) for topic, number in each["partitions"]),
            )
            for each in told["members"]
        ]
        return told["state"], members

    def expire(self, member: str | AssignedMember, group: str | None = None) -> str:
        """End a member's session now, as if it had sent no heartbeat; return its member id.

        Name it by its member id or ``group.instance.id``.
        """
        name = member.member_id if isinstance(member, AssignedMember) else member
        return str(self._server.call("expire", member=name, groups=self._meant(group)))

    def fence(self, instance: str, group: str | None = None) -> str:
        """Let another member take the place of a static one, which is fenced from now on.

        Return the other's member id. It sends no heartbeats: its session ends after ten seconds
        (that of a consumer or streams group: after ``group.consumer.session.timeout.ms`` or
        ``group.streams.session.timeout.ms``). Members of share groups are never static.
        """
        return str(self._server.call("fence", instance=instance, groups=self._meant(group)))

    def force_rebalance(self, group: str) -> None:
        """Let a group rebalance: a member joins and leaves at once.

        It subscribes to none of the group's topics; of a streams group it may get tasks in between.
        """
        self._server.call("force_rebalance", group=group)

    def coordinator(self, group: str) -> int:
        """Return the node id of a group's coordinator; -1 while there is none."""
        return int(self._server.call("coordinator", group=group))

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Move a group to another coordinator, or to node ``to``; return that node id."""
        return int(self._server.call("move_coordinator", group=group, to=to))

    def kill_coordinator(self, group: str) -> int:
        """Kill a group's coordinator; return its node id once another one has the group.

        One of the three may be dead at a time. It comes back after the test, or by
        :meth:`start_coordinators`.
        """
        return int(self._server.call("kill_coordinator", group=group))

    def start_coordinators(self) -> list[int]:
        """Start the coordinators that were killed; return their node ids."""
        return list(self._server.call("start_coordinators"))

    def fault(self, api: str, error: str, count: int = 1, group: str | None = None) -> None:
        """Answer the next ``count`` requests of an API with an error, both under Kafka's names.

        For example ``fault("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 3)``. ``group``: only
        requests about that group.
        """
        self._server.call("fault", api=api, error=error, count=count, group=group)

    def faults_left(self) -> int:
        """Return how many requests are still to be answered with an error."""
        return int(self._server.call("faults_left"))

    def delay_assignor(self, seconds: float) -> None:
        """Let assignors of consumer, share and streams groups begin so much later; 0: no longer.

        The members of a classic group compute their assignment themselves.
        """
        self._server.call("delay_assignor", delay_ms=round(seconds * 1000))

    def explain(self, group: str) -> str:
        """Return why a group rebalanced: the sentences of ``rollcall explain``, a line each."""
        return "\n".join(self._server.call("explain", group=group))

    # --- the end of the test

    def stories(self) -> str:
        """Return why each group rebalanced during the test that it has or touched."""
        return "\n".join(self._server.call("stories", since=self._mark, groups=self._groups))

    def close(self) -> None:
        """Delete the test's topics, end its faults, and start what it has killed."""
        self._server.call("mend")
        if self._topics:
            self._server.call("delete_topics", names=self._topics)

    def _meant(self, group: str | None) -> list[str]:
        """Return the groups in which to look first for a member."""
        return self._groups if group is None else [group]

    def _name(self) -> str:
        return f"{self._stem}-{secrets.token_hex(4)}"


def _within(timeout_s: float, look: Callable[[], bool]) -> bool:
    return poll(look, timeout_s, every_s=LOOK_S)
