"""A backup is restored on three hosts with IPv6 only, whose coordinators talk by TLS.

Ray and the cluster are started by the commands of the units in deploy/systemd.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.backup.files import verify
from actors.backup.kafka_directories import read_directories
from actors.backup.kafka_state import write_import
from bench.hosts.clusters import COMMAND_S, UP_S
from bench.hosts.host import DATA, TMP, NamespaceHost
from tests.actors.backup.test_kafka_state import KAFKA, said
from tests.certificates import Authority
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import Riders
from tests.hosts.units import ETC, WORKER, RayByUnits, configure, start_cluster

CONSOLE_PORT = 9292
READ = "import urllib.request as u; print(u.urlopen('{}').read().decode())"


def give_certificates(hosts: Sequence[NamespaceHost], directory: Path) -> None:
    """Give each host its key and certificate, at the same paths."""
    authority = Authority(directory)
    for host in hosts:
        keystore = authority.issue(host.name, [f"IP:{host.ip}"])
        shutil.copy(keystore, host.disk / ETC.name / "keystore.pem")
        shutil.copy(authority.certificate, host.disk / ETC.name / "truststore.pem")


@pytest.mark.timeout(400)
def test_a_backup_is_restored_on_three_hosts(new_hosts: NewHosts, tmp_path: Path) -> None:
    *hosts, client = new_hosts(4, has_ipv4=False)
    one, _, three = hosts
    ray = RayByUnits(one)
    ray.start(hosts)
    give_certificates(hosts, tmp_path)
    configure(hosts, {"group.initial.rebalance.delay.ms": "0"})
    before = write_import(read_directories([KAFKA], said), one.disk / "backup", 3, 3)
    address = ("--address", ray.address)
    restore = ("restore", str(TMP / "backup"), "--data-dir", str(DATA), *address)
    restored = one.run("rollcall", *restore, env=ray.environment, wait_s=UP_S)
    assert restored.returncode == 0, restored.stderr
    assert ", ".join(host.ip for host in hosts) in restored.stdout

    cluster = start_cluster(ray)
    cluster.wait_on(hosts)
    assert cluster.bootstrap == "[fd77::1]:9092,[fd77::2]:9092,[fd77::3]:9092"
    described = client.run(
        "rollcall", "groups", "--bootstrap-server", cluster.bootstrap, "--describe", "--offsets",
        "--group", "a-simple", wait_s=COMMAND_S,
    )  # fmt: skip
    assert described.returncode == 0, described.stderr
    rows = [line.split() for line in described.stdout.splitlines()]
    offsets = {(row[1], row[2]): row[3] for row in rows if row[:1] == ["a-simple"]}
    assert offsets == {("orders", "0"): "7", ("orders", "1"): "20"}
    riders = Riders(client, cluster.bootstrap, topic="rides")
    riders.wait_for_commits()
    riders.end()

    console = cluster.ready["console"]
    assert console in [f"http://[{host.ip}]:{CONSOLE_PORT}" for host in hosts]
    read = client.run("python", "-c", READ.format(f"{console}/status.json"))
    assert cluster.bootstrap in read.stdout, read.stderr
    for address in cluster.bootstrap.split(","):
        ready = client.run("rollcall", "status", "--ready", address, wait_s=COMMAND_S)
        assert ready.returncode == 0, ready.stderr
    for node_id, host in enumerate(hosts):
        log = (host.disk / DATA.name / "logs" / f"coordinator-{node_id}.log").read_text()
        links = [line for line in log.splitlines() if "linked to node" in line]
        assert links and all(line.endswith("by TLSv1.3") for line in links), log

    made = cluster.rollcall("backup", str(TMP / "again"), wait_s=UP_S)
    assert made.returncode == 0, made.stderr
    after = verify(one.disk / "again")
    assert after.cluster_id == before.cluster_id
    filled = [row for row in before.files if row.offset]  # an empty partition begins in epoch 1
    assert all(after.file_of(row.partition).epoch > row.epoch for row in filled)
    refused = one.run("rollcall", *restore, env=ray.environment, wait_s=UP_S)
    assert refused.returncode == 2
    assert "belongs to a cluster" in refused.stderr

    stopped = ray.run(three, WORKER, "ExecStop")
    assert stopped.process.wait(COMMAND_S) == 0, stopped.stderr.read_text()
    cluster.wait_for_leaders({0, 1})
    cluster.down()
