"""A fourth host joins, and coordinators move to it with their data; clients notice nothing."""

import json
import signal
from collections.abc import Sequence
from operator import ne
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.hosts.clusters import CHANGE_S, COMMAND_S, HostCluster, hosts_in
from bench.hosts.host import DATA, NamespaceHost, Running
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import Riders
from tests.waiting import PATIENCE, patient, until

COORDINATORS = 8
CONSOLE_PORT = 9292
SETTINGS = (
    f"offsets.topic.num.partitions={COORDINATORS}",
    f"console.port={CONSOLE_PORT}",
    "group.initial.rebalance.delay.ms=0",
)
BALANCE_S = patient(180)
READ = "import urllib.request as u; print(u.urlopen('{}').read().decode())"
SLOW = str(int(20_000 / PATIENCE))
"""Bytes per second: a copy takes longer than this test needs to kill something."""

STEADY = str(int(200_000 / PATIENCE))
"""Bytes per second: a copy takes longer than this test needs to interrupt a command."""


def directories(host: NamespaceHost, pattern: str) -> list[str]:
    """Return the names of the directories of coordinators on a host."""
    return sorted(path.name for path in (host.disk / DATA.name).glob(pattern))


def begin_balance(cluster: HostCluster, *options: str) -> Running:
    """Begin to balance the cluster."""
    words = ("rollcall", "balance", "--address", cluster.ray.address, *options)
    return cluster.ray.head.popen(*words, env=cluster.ray.environment)


def moves_begun(hosts: Sequence[NamespaceHost], node_id: int) -> int:
    """Count how often a controller has begun to move a coordinator: a command says so before."""
    logs = [host.disk / DATA.name / "logs" / "controller.log" for host in hosts]
    said = [log.read_text() for log in logs if log.exists()]
    return sum(text.count(f"coordinator {node_id} moves to ") for text in said)


def interrupt_a_move(cluster: HostCluster, hosts: Sequence[NamespaceHost], node_id: int) -> None:
    """Interrupt the command while a coordinator moves."""
    begun = moves_begun(hosts, node_id)
    interrupted = begin_balance(cluster, "--throttle", STEADY)
    interrupted.says(f"coordinator {node_id} moves", BALANCE_S)
    until(lambda: moves_begun(hosts, node_id) > begun, BALANCE_S, "the move is under way")
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.process.wait(CHANGE_S) == 130, interrupted.stderr.read_text()


def wait_until_calm(cluster: HostCluster) -> list[str]:
    """Wait until all coordinators run and are in sync; return their hosts."""
    status = cluster.wait(
        lambda status: all(hosts_in(status)) and not status["under_replicated"],
        "all coordinators run, with all replicas in sync",
    )
    return hosts_in(status)


def kill_controller(cluster: HostCluster, hosts: Sequence[NamespaceHost]) -> None:
    """Kill its process and the console's; Ray starts them again."""
    assert urlsplit(cluster.ready["console"]).port == CONSOLE_PORT
    for actor in ("ray::ControllerActor", "ray::ConsoleActor"):
        codes = [host.run("pkill", "-9", "-f", actor).returncode for host in hosts]
        assert sorted(codes) == [0, *[1] * (len(hosts) - 1)], actor


def take_away(cluster: HostCluster, host: NamespaceHost) -> None:
    """Take a host away, as docs/operations.md says."""
    without = ("balance", "--without", host.ip)
    planned = cluster.rollcall(*without, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert all(f" from {host.ip} to " in line for line in planned.stdout.splitlines())
    emptied = cluster.rollcall(*without, wait_s=BALANCE_S)
    free = f"The host {host.ip} holds no coordinator and can be taken away.\n"
    assert emptied.stdout == planned.stdout + free, emptied.stderr
    assert f"host {host.ip}: no coordinators\n" in cluster.rollcall("status").stdout
    cluster.ray.stop(host)


def keep_another(cluster: HostCluster, host: NamespaceHost) -> None:
    """See that a host cannot be taken away, as replicas of a partition would share another one."""
    without = ("balance", "--without", host.ip)
    crowded = cluster.rollcall(*without)
    assert crowded.returncode == 1
    assert f"There is not enough room without {host.ip}: " in crowded.stderr
    shared = cluster.rollcall(*without, "--share-hosts", "--dry-run")
    assert shared.stdout.count(f"{host.ip} is to be taken away") == 2, shared.stderr


def check_console(cluster: HostCluster, client: NamespaceHost) -> None:
    """See that the console has kept its port, on whatever host it is."""
    console = cluster.status()["console"]
    assert urlsplit(console).port == CONSOLE_PORT
    read = client.run("python", "-c", READ.format(f"{console}/status.json"))
    assert cluster.bootstrap in read.stdout, read.stderr


def check_commits(
    cluster: HostCluster, client: NamespaceHost, acknowledged: dict[str, int]
) -> None:
    """See that no acknowledged commit is lost."""
    listed = client.run(
        "rollcall", "groups", "--bootstrap-server", cluster.bootstrap, "--json",
        "--describe", "--group", "g", wait_s=COMMAND_S,
    )  # fmt: skip
    found = {f"{row['topic']}/{row['partition']}": row for row in json.loads(listed.stdout)}
    for partition, offset in acknowledged.items():
        assert int(found[partition]["current_offset"]) >= offset, "no commit is lost"


@pytest.mark.timeout(600)
def test_a_host_that_joins_gets_coordinators_and_no_member_is_rebalanced(
    new_hosts: NewHosts,
) -> None:
    hosts = new_hosts(5)
    one, two, three, joined, client = hosts
    ray = RayOnHosts(one, QUICK_HEALTH_CHECKS)
    ray.start([one, two, three])
    cluster = HostCluster(ray, SETTINGS).up()
    riders = Riders(client, cluster.bootstrap)
    riders.wait_for_commits()
    began = riders.events("REVOKED", "LOST")
    before = wait_until_calm(cluster)
    planned = cluster.rollcall("balance", "--dry-run")
    assert planned.stdout == "The cluster is balanced.\n", planned.stderr

    ray.start([joined])
    cluster.wait(lambda status: status["balance"], "it is offered coordinators")
    offered = f"Hosts without coordinators: {joined.ip}; `rollcall balance` moves 2 coordinators."
    assert offered in cluster.rollcall("status").stdout
    planned = cluster.rollcall("balance", "--dry-run")
    first, second = planned.stdout.splitlines()
    assert f" to {joined.ip}: " in first and f" to {joined.ip}: " in second
    node_id = int(first.split()[1])

    slow = begin_balance(cluster, "--throttle", SLOW)
    until(lambda: directories(joined, "node-*.incoming/*"), BALANCE_S, "a copy is under way")
    kill_controller(cluster, hosts)
    assert slow.process.wait(BALANCE_S) == 1
    assert wait_until_calm(cluster) == before, "it started where it was"
    check_console(cluster, client)
    riders.wait_for_commits()

    interrupt_a_move(cluster, hosts, node_id)
    until(lambda: directories(joined, f"node-{node_id}"), BALANCE_S, "the move is completed")
    assert wait_until_calm(cluster).count(joined.ip) == 1

    again = cluster.rollcall("balance", wait_s=BALANCE_S)
    assert again.stdout == f"{second}\nThe cluster is balanced.\n", again.stderr
    after = wait_until_calm(cluster)
    assert {after.count(host.ip) for host in (one, two, three, joined)} == {2}
    assert sum(map(ne, before, after)) == 2
    assert len(directories(joined, "node-?")) == 2
    old_home = next(host for host in hosts if host.ip == before[node_id])
    assert directories(old_home, "node-*.moved-1") == [f"node-{node_id}.moved-1"]

    take_away(cluster, joined)
    keep_another(cluster, three)
    riders.wait_for_commits()
    assert riders.events("REVOKED", "LOST") == began, "nobody was rebalanced"
    acknowledged = riders.acknowledged()
    riders.end()
    check_commits(cluster, client, acknowledged)
    cluster.down()
    assert not (Path.home() / ".ray").exists()
