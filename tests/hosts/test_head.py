"""The host of Ray's head vanishes, then all hosts do; the cluster and its members go on."""

import pytest

from actors.errors import ExitCode
from bench.hosts.clusters import UP_S, HostCluster
from bench.hosts.host import DATA
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import Riders


@pytest.mark.timeout(600)
def test_without_the_head_of_ray_members_go_on_and_after_a_reboot_of_all_hosts_too(
    new_hosts: NewHosts,
) -> None:
    hosts = new_hosts(4)
    head, two, three, client = hosts
    ray = RayOnHosts(head, QUICK_HEALTH_CHECKS)
    ray.start([head, two, three])
    cluster = HostCluster(ray, ("group.initial.rebalance.delay.ms=0",)).up()
    riders = Riders(client, cluster.bootstrap)
    riders.wait_for_commits()
    began = riders.events("REVOKED", "LOST")
    before = [row["pid"] for row in cluster.status()["coordinators"]]

    hosts.vanish(head)
    for _ in range(3):
        riders.wait_for_commits()
    hosts.come_back(head, empty=False)
    ray.start([head])
    cluster.wait_on([head, two, three])
    assert [row["pid"] for row in cluster.status()["coordinators"]][1:] == before[1:]
    riders.wait_for_commits()
    assert riders.events("REVOKED", "LOST") == began, "nobody was rebalanced"

    for host in (head, two, three):
        hosts.vanish(host)
    for host in (head, two, three):
        hosts.come_back(host, empty=False)
    ray.start([head, two, three])
    again = cluster.rollcall("up", "--data-dir", str(DATA), "--detach", wait_s=UP_S)
    assert again.returncode in {ExitCode.OK, ExitCode.ALREADY_RUNNING}, again.stderr
    cluster.wait_on([head, two, three])
    riders.wait_for_commits()
    assert riders.events("REVOKED", "LOST") == began, "nobody was rebalanced"
    riders.end()
    cluster.down()
