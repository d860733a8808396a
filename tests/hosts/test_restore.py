"""A backup is restored on three hosts, and one is made of the cluster that runs there."""

import pytest

from actors.backup.files import verify
from actors.backup.kafka_directories import read_directories
from actors.backup.kafka_state import write_import
from bench.hosts.clusters import COMMAND_S, UP_S, HostCluster
from bench.hosts.host import DATA, TMP
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.actors.backup.test_kafka_state import KAFKA, said
from tests.hosts.conftest import NewHosts


@pytest.mark.timeout(400)
def test_a_backup_is_restored_on_three_hosts(new_hosts: NewHosts) -> None:
    hosts = new_hosts(3)
    one = hosts[0]
    ray = RayOnHosts(one, QUICK_HEALTH_CHECKS)
    ray.start(hosts)
    before = write_import(read_directories([KAFKA], said), one.disk / "backup", 3, 3)
    cluster = HostCluster(ray, ("replica.port=9192",))
    restore = ("restore", str(TMP / "backup"), "--data-dir", str(DATA))
    restored = cluster.rollcall(*restore, wait_s=UP_S)
    assert restored.returncode == 0, restored.stderr
    assert ", ".join(host.ip for host in hosts) in restored.stdout

    cluster.up()
    cluster.wait_on(hosts)
    described = one.run(
        "rollcall", "groups", "--bootstrap-server", cluster.bootstrap, "--describe", "--offsets",
        "--group", "a-simple", wait_s=COMMAND_S,
    )  # fmt: skip
    assert described.returncode == 0, described.stderr
    rows = [line.split() for line in described.stdout.splitlines()]
    offsets = {(row[1], row[2]): row[3] for row in rows if row[:1] == ["a-simple"]}
    assert offsets == {("orders", "0"): "7", ("orders", "1"): "20"}

    made = cluster.rollcall("backup", str(TMP / "again"), wait_s=UP_S)
    assert made.returncode == 0, made.stderr
    after = verify(one.disk / "again")
    assert after.cluster_id == before.cluster_id
    assert all(after.file_of(row.partition).epoch > row.epoch for row in before.files)
    refused = cluster.rollcall(*restore, wait_s=UP_S)
    assert refused.returncode == 2
    assert "belongs to a cluster" in refused.stderr
    cluster.down()
