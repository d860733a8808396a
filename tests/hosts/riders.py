"""Two members of real clients on a host, which commit and tell what they are assigned."""

import subprocess

from bench.hosts.clusters import CHANGE_S, COMMAND_S
from bench.hosts.host import NamespaceHost, Running
from tests.waiting import until

TOPIC = "orders"
PARTITIONS = 6
AWAY_MS = 1_800_000
"""How long members may be without a coordinator: until all hosts have booted and Ray runs there.

No more is allowed (``group.max.session.timeout.ms``).
"""


class Riders:
    """Two static members of a group in one process of librdkafka on a host, which commit."""

    def __init__(self, client: NamespaceHost, bootstrap: str, topic: str = TOPIC) -> None:
        made = client.run(
            "rollcall", "topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic,
            "--partitions", str(PARTITIONS), wait_s=COMMAND_S,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self.running: Running = client.popen(
            "python", "-m", "tests.clients.programs.confluent_kafka_riders",
            f"bootstrap={bootstrap}", f"subscribe={topic}", "protocol=classic",
            "member=first,g,static-1", "member=second,g,static-2",
            f"session.timeout.ms={AWAY_MS}", f"max.poll.interval.ms={AWAY_MS}",
            stdin=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: self.owned() == PARTITIONS, COMMAND_S, "both members have their share")

    def events(self, *names: str) -> list[str]:
        """Return the lines about these events so far."""
        assert self.running.process.poll() is None, self.running.stderr.read_text()
        lines = [line for line in self.running.said().splitlines() if len(line.split()) > 2]
        return [line for line in lines if line.split()[2] in names]

    def owned(self) -> int:
        """Return how many partitions the last assignments have."""
        last = {line.split()[1]: line.split()[3] for line in self.events("ASSIGNED") if line}
        return sum(len(partitions.split(",")) for partitions in last.values())

    def acknowledged(self) -> dict[str, int]:
        """Return the last offset of each partition whose commit was acknowledged."""
        rows = [one for line in self.events("COMMITTED") for one in line.split()[3].split(",")]
        return {topic: int(offset) for topic, offset in (one.split("=") for one in rows)}

    def wait_for_commits(self) -> None:
        """Wait until both members have committed once more."""
        before = len(self.events("COMMITTED"))

        def have_committed() -> bool:
            said = self.events("COMMITTED")[before:]
            return {line.split()[1] for line in said} == {"first", "second"}

        until(have_committed, CHANGE_S, "both members commit")

    def end(self) -> None:
        """Close them."""
        assert self.running.process.stdin is not None
        self.running.process.stdin.close()
        assert self.running.process.wait(COMMAND_S) == 0
