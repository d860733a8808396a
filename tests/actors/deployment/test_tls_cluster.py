"""A cluster whose coordinators talk by TLS: it starts, and a killed leader disturbs no member."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.errors import ExitCode
from failover.routing import partition_for
from tests.certificates import Authority, tls_configs
from tests.conftest import NewCluster, RunningCluster, rollcall
from tests.program import Program
from tests.waiting import LONG_SESSION_MS, patient, until

TOPIC = "orders"
GROUP = "g"
MEMBERS = ("first", "second")


@pytest.fixture
def cluster(new_cluster: NewCluster, tmp_path: Path) -> RunningCluster:
    authority = Authority(tmp_path)
    settings = tls_configs(authority, authority.issue("coordinator"))
    return new_cluster(settings={**settings, "group.initial.rebalance.delay.ms": "0"}).start()


@pytest.fixture
def riders(cluster: RunningCluster) -> Iterator[Program]:
    made = rollcall(
        "topics", "--bootstrap-server", cluster.bootstrap, "--create", "--topic", TOPIC,
        "--partitions", str(len(MEMBERS)),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    program = Program(
        [
            sys.executable, "-m", "tests.clients.programs.confluent_kafka_riders",
            f"bootstrap={cluster.bootstrap}", f"subscribe={TOPIC}", "protocol=classic",
            f"session.timeout.ms={LONG_SESSION_MS}",
            *(f"member={name},{GROUP},static-{name}" for name in MEMBERS),
        ]
    )  # fmt: skip
    until(
        lambda: shares(program) == dict.fromkeys(MEMBERS, 1), patient(90), "each has its partition"
    )
    yield program
    program.kill()


def told(riders: Program, *events: str) -> list[list[str]]:
    """Return the words of each line about these events: time, member, event, ..."""
    lines = [line.split() for line in riders.lines]
    return [words for words in lines if len(words) > 2 and words[2] in events]


def shares(riders: Program) -> dict[str, int]:
    """Return how many partitions each member got last."""
    return {
        words[1]: len(words[3:]) and len(words[3].split(",")) for words in told(riders, "ASSIGNED")
    }


def wait_for_commits(riders: Program) -> None:
    """Wait until the members have committed once more."""
    before = len(told(riders, "COMMITTED"))
    until(lambda: len(told(riders, "COMMITTED")) > before + 2, patient(90), "members commit")


@pytest.mark.timeout(300)
def test_a_killed_leader_of_a_cluster_with_tls_disturbs_no_member(
    cluster: RunningCluster, riders: Program
) -> None:
    wait_for_commits(riders)
    began = told(riders, "REVOKED", "LOST")
    partition = partition_for(GROUP, 3)
    leader = int(cluster.status()["partitions"][partition]["leader"])
    os.kill(cluster.pid_of(leader), signal.SIGKILL)
    wait_for_commits(riders)
    assert told(riders, "REVOKED", "LOST") == began, "nobody was rebalanced"

    def is_well() -> bool:
        return rollcall("status", "--data-dir", cluster.data_dir).returncode == ExitCode.OK

    until(is_well, patient(90), "all is well again")
    for node_id in range(3):
        links = [
            line for line in cluster.log_lines(f"coordinator-{node_id}").splitlines()
            if "linked to node" in line
        ]  # fmt: skip
        assert links and all(line.endswith("by TLSv1.3") for line in links)
    cluster.stop()
    gone = rollcall("status", "--data-dir", cluster.data_dir)
    assert gone.returncode == ExitCode.NO_CLUSTER
