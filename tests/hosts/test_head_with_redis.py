"""Ray's fault tolerance with a real Redis: the head returns without a disk and finds the actors."""

import shutil

import pytest

from bench.hosts.clusters import HostCluster
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, STORE, RayOnHosts
from tests.hosts.conftest import NewHosts
from tests.hosts.riders import Riders

REDIS = "redis-server"
PORT = 6390


@pytest.mark.skipif(shutil.which(REDIS) is None, reason="redis-server is not installed")
@pytest.mark.timeout(400)
def test_with_redis_the_head_of_ray_needs_no_disk_to_find_the_actors(new_hosts: NewHosts) -> None:
    hosts = new_hosts(4)
    head, two, three, other = hosts
    redis = other.popen(
        REDIS, "--port", str(PORT), "--bind", other.ip, "--protected-mode", "no", "--save", ""
    )
    redis.says("Ready to accept connections")
    ray = RayOnHosts(
        head,
        {**QUICK_HEALTH_CHECKS, "RAY_gcs_storage": "redis"},
        {"RAY_REDIS_ADDRESS": f"{other.ip}:{PORT}"},
    )
    ray.start([head, two, three])
    cluster = HostCluster(ray, ("group.initial.rebalance.delay.ms=0",)).up()
    assert not (head.disk / STORE.name).exists(), "Redis has what the head must know"
    riders = Riders(other, cluster.bootstrap)
    riders.wait_for_commits()
    began = riders.events("REVOKED", "LOST")
    before = [row["pid"] for row in cluster.status()["coordinators"]]

    hosts.vanish(head)
    riders.wait_for_commits()
    hosts.come_back(head, empty=True)
    ray.start([head])
    cluster.wait_on([head, two, three])
    assert [row["pid"] for row in cluster.status()["coordinators"]][1:] == before[1:]
    riders.wait_for_commits()
    assert riders.events("REVOKED", "LOST") == began, "nobody was rebalanced"
    riders.end()
    cluster.down()
