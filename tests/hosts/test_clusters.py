"""A cluster on three hosts: clients on another one, hosts that vanish, return and are replaced."""

from functools import partial
from pathlib import Path

import pytest

from bench.hosts.clusters import CHANGE_S, COMMAND_S, HostCluster
from bench.hosts.host import DATA, NamespaceHost
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import TOPIC, Riders
from tests.waiting import until

READ = "import urllib.request as u; print(u.urlopen('{}').read().decode())"
NODE_2 = f"{DATA.name}/node-2"


def directory_id(host: NamespaceHost) -> str:
    """Return the id of node 2's directory on a host."""
    lines = (host.disk / NODE_2 / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("directory.id="))


def replaced(cluster: HostCluster) -> str:
    """Replace coordinator 2; return "" while Ray does not know that its host has vanished."""
    done = cluster.rollcall("replace", "2", wait_s=2 * COMMAND_S)
    assert done.returncode == 0 or " does not answer: " in done.stderr, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_hosts_vanish_return_and_are_replaced_and_no_member_is_rebalanced(
    new_hosts: NewHosts,
) -> None:
    hosts = new_hosts(5)
    one, two, three, spare, client = hosts
    ray = RayOnHosts(one, QUICK_HEALTH_CHECKS)
    ray.start([one, two, three])
    cluster = HostCluster(ray, ("replica.port=9192", "group.initial.rebalance.delay.ms=0")).up()
    assert cluster.bootstrap == ",".join(f"{host.ip}:9092" for host in (one, two, three))
    riders = Riders(client, cluster.bootstrap)
    riders.wait_for_commits()
    began = riders.events("REVOKED", "LOST")

    read = client.run("python", "-c", READ.format(f"{cluster.ready['console']}/status.json"))
    assert cluster.bootstrap in read.stdout, read.stderr
    assert cluster.bootstrap in cluster.rollcall("status", on=two).stdout

    before = directory_id(three)
    hosts.vanish(three)
    riders.wait_for_commits()
    cluster.wait_for_leaders({0, 1})
    hosts.come_back(three, empty=False)
    ray.start([three])
    cluster.wait_on([one, two, three])
    assert directory_id(three) == before, "it went on with its own data"

    hosts.vanish(three)
    cluster.wait_for_leaders({0, 1})
    refused = cluster.rollcall("replace", "2", "--to", three.ip)
    assert "is on 10.77.0.3 already" in refused.stderr
    ray.start([spare])
    moved = until(partial(replaced, cluster), CHANGE_S, "Ray gives up the host, and it is replaced")
    assert moved == f"coordinator 2 starts on {spare.ip}\n"
    cluster.wait_on([one, two, spare])
    assert directory_id(spare) != before

    hosts.come_back(three, empty=False)
    ray.start([three])
    riders.wait_for_commits()
    assert cluster.hosts() == [one.ip, two.ip, spare.ip], "the replaced one stays out"
    listed = client.run(
        "rollcall",
        "topics",
        "--bootstrap-server",
        cluster.bootstrap,
        "--describe",
        wait_s=COMMAND_S,
    )
    assert TOPIC in listed.stdout, listed.stderr
    assert riders.events("REVOKED", "LOST") == began, "nobody was rebalanced"
    riders.end()
    cluster.down()

    again = HostCluster(ray).up()
    assert again.bootstrap == f"{one.ip}:9092,{two.ip}:9092,{spare.ip}:9092"
    again.down()
    assert not (Path.home() / ".ray").exists()
