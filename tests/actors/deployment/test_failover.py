"""A cluster of three replicas per partition, of which coordinators die, hand over or come back."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from actors.cluster.processes import started
from bench.client.blocking_client import BlockingClient
from failover.routing import partition_for
from protocol.wire.errors import ErrorCode
from tests.conftest import NewCluster, RunningCluster, rollcall
from tests.failover.apis import asks
from tests.waiting import WITHIN_S, patient, until

pytestmark = pytest.mark.timeout(300)


def group_of(partition: int) -> str:
    """Return a group that the partition coordinates."""
    names = (f"group-{number}" for number in range(100))
    return next(name for name in names if partition_for(name, 3) == partition)


def leads(cluster: RunningCluster, partition: int) -> int:
    """Return who leads a partition, -1 when nobody does."""
    leader = cluster.status()["partitions"][partition]["leader"]
    return -1 if leader is None else int(leader)


def balanced(cluster: RunningCluster) -> bool:
    """Say whether every partition is led by whom it prefers, with all its replicas."""
    status = cluster.status()
    return not status["under_replicated"] and all(
        row["leader"] == row["partition"] for row in status["partitions"]
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One cluster whose leadership comes home soon; each test that uses it leaves it well."""
    soon = ("--set", "leader.imbalance.check.interval.seconds=1")
    made = RunningCluster(tmp_path_factory.mktemp("failover") / "data", soon)
    with ExitStack() as stack:
        stack.callback(made.close)
        yield made.start()


def await_balance(cluster: RunningCluster) -> None:
    until(
        lambda: balanced(cluster),
        patient(120),
        "everybody leads what he prefers, with all replicas",
    )


class Committer:
    """Commits one group's offsets as a client does that asks around for its coordinator."""

    def __init__(self, cluster: RunningCluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        until(self._has_topic, 30, "the topic is there")

    def commit(self, offset: int) -> None:
        until(lambda: self._commit(offset), 30, f"offset {offset} is committed")

    def committed(self) -> int:
        def asked() -> dict[Any, int] | None:
            for answer in self._answers(asks.fetch(self._group)):
                if answer.groups[0].error_code is ErrorCode.none:
                    return asks.offsets_in(answer)[self._group]
            return None

        return until(asked, 30, "somebody tells the offset")["t", 0]

    def _commit(self, offset: int) -> bool:
        return any(
            answer.topics[0].partitions[0].error_code is ErrorCode.none
            for answer in self._answers(asks.commit(self._group, offset))
        )

    def _has_topic(self) -> bool:
        made = {ErrorCode.none, ErrorCode.topic_already_exists}
        answers = self._answers(asks.create_topics("t"))
        return any(answer.topics[0].error_code in made for answer in answers)

    def _answers(self, request: Any) -> Iterator[Any]:
        for address in self._cluster.addresses:
            with suppress(OSError), BlockingClient(address, patient(5)) as connection:
                yield connection.ask(request)


def kill(pid: int) -> None:
    """End a process at once, and see it gone."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: started(pid) is None, WITHIN_S, "the process is gone")


def test_a_killed_leaders_partition_goes_on_elsewhere_and_comes_back_to_it(
    shared: RunningCluster,
) -> None:
    cluster = shared
    await_balance(cluster)
    committer = Committer(cluster, group_of(1))
    committer.commit(41)
    leader = leads(cluster, 1)
    kill(cluster.pid_of(leader))
    committer.commit(42)
    assert leads(cluster, 1) not in {leader, -1}
    assert committer.committed() == 42
    await_balance(cluster)
    assert committer.committed() == 42


def test_a_coordinator_that_lost_its_disk_is_another_replica_and_is_filled_again(
    shared: RunningCluster,
) -> None:
    cluster = shared
    await_balance(cluster)
    committer = Committer(cluster, group_of(2))
    committer.commit(7)
    directory = cluster.data_dir / "node-2"
    before = (directory / "meta.properties").read_text()
    kill(cluster.pid_of(2))
    shutil.rmtree(directory)
    await_balance(cluster)
    assert (directory / "meta.properties").read_text() != before
    kill(cluster.pid_of(0))  # so that its copy is needed for a majority
    committer.commit(8)
    assert committer.committed() == 8


def test_a_drained_coordinator_leads_nothing_until_the_drain_ends(shared: RunningCluster) -> None:
    cluster = shared
    await_balance(cluster)
    catalog = cluster.status()["catalog"]["leader"]
    drained = rollcall("drain", "0", "--data-dir", cluster.data_dir)
    assert drained.returncode == 0, drained.stderr
    said = drained.stdout.splitlines()
    moved = ["the catalogue to node "] * (catalog == 0) + [
        "partition 0 to node ",
        "share state partition 0 to node ",
    ]
    assert [line.rstrip("12") for line in said] == moved
    row = cluster.status()["coordinators"][0]
    assert (row["state"], row["leads"]) == ("Draining", [])
    assert rollcall("drain", "0", "--end", "--data-dir", cluster.data_dir).stdout == ""
    await_balance(cluster)
    refused = rollcall("drain", "3", "--data-dir", cluster.data_dir)
    assert (refused.returncode, refused.stderr) == (2, "rollcall: There is no coordinator 3.\n")


def test_a_directory_put_back_from_a_copy_is_filled_by_the_others(
    new_cluster: NewCluster,
) -> None:
    """S1: the start goes on without it; the controller has it set aside once the others lead.

    And when then too many logs are lost, the next start is refused.
    """
    cluster = new_cluster().start()
    committer = Committer(cluster, group_of(0))
    committer.commit(1)
    assert cluster.stop() == 0
    directory, copy = cluster.data_dir / "node-0", cluster.data_dir / "copy"
    shutil.copytree(directory, copy)
    cluster.start()
    committer.commit(999)
    assert cluster.stop() == 0
    shutil.rmtree(directory)
    copy.rename(directory)
    cluster.start()
    assert committer.committed() == 999
    until(lambda: not cluster.status()["under_replicated"], patient(60), "it has everything again")
    assert (cluster.data_dir / "node-0.stale-1").is_dir()
    assert committer.committed() == 999
    assert cluster.stop() == 0
    for node_id in (0, 2):
        shutil.rmtree(cluster.data_dir / f"node-{node_id}")
    done = rollcall("up", "--port", "0", "--data-dir", cluster.data_dir)
    assert done.returncode == 1
    assert "too many logs are missing (node-0, node-2)" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
