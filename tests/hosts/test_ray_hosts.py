"""Ray runs on several hosts, sees which of them live, and asks for its token."""

from pathlib import Path

from tests.hosts.conftest import NewHosts
from tests.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayHosts

WHERE = """
import ray, sys
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=0)
def where():
    import socket
    return socket.gethostname()

nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
print(sorted(ray.get([where.options(scheduling_strategy=On(n, False)).remote() for n in nodes])))
"""


def test_ray_has_a_node_on_each_host_and_notices_which_have_vanished(new_hosts: NewHosts) -> None:
    one, two, three, client = hosts = new_hosts(4)
    ray = RayHosts(one, QUICK_HEALTH_CHECKS)
    ray.start([one, two, three])
    ray.wait_for([one, two, three], seen_by=client)
    done = two.run("python", "-c", WHERE, ray.address, env=ray.environment, wait_s=60)
    assert done.stdout.splitlines()[-1:] == ["['host1', 'host2', 'host3']"], done.stderr
    stranger = {**ray.environment, "RAY_AUTH_TOKEN_PATH": "/dev/null"}
    refused = two.run("python", "-c", WHERE, ray.address, env=stranger, wait_s=60)
    assert refused.returncode != 0
    hosts.vanish(three)
    ray.wait_for([one, two])
    hosts.come_back(three, empty=False)
    ray.start([three])
    ray.wait_for([one, two, three])
    ray.stop(two)
    ray.wait_for([one, three])
    assert not (Path.home() / ".ray").exists()
