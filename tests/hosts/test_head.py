"""The host of Ray's head vanishes with a coordinator: the others go on, and it comes back."""

import pytest

from bench.hosts.clusters import HostCluster
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import Riders


@pytest.mark.timeout(600)
def test_without_the_head_of_ray_members_go_on_and_it_finds_the_cluster_when_it_is_back(
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
    riders.end()
    cluster.down()
