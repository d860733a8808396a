"""Ray runs on several hosts, sees which of them live, and asks for its token."""

import json
from collections.abc import Sequence
from pathlib import Path

from bench.hosts.host import NamespaceHost
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, START_S, RayOnHosts
from tests.hosts import ray_nodes
from tests.hosts.conftest import NewHosts

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


def wait_for(
    ray: RayOnHosts, hosts: Sequence[NamespaceHost], *, seen_by: NamespaceHost | None = None
) -> None:
    """Wait until Ray has nodes on these hosts alone."""
    asked = seen_by or ray.head
    ray.admit(asked)
    addresses = sorted(host.ip for host in hosts)
    words = ["python", Path(ray_nodes.__file__), ray.address, json.dumps(addresses), START_S]
    done = asked.run(*map(str, words), env=ray.environment, wait_s=2 * START_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == addresses


def test_ray_has_a_node_on_each_host_and_notices_which_have_vanished(new_hosts: NewHosts) -> None:
    one, two, three, client = hosts = new_hosts(4)
    ray = RayOnHosts(one, QUICK_HEALTH_CHECKS)
    ray.start([one, two, three])
    wait_for(ray, [one, two, three], seen_by=client)
    done = two.run("python", "-c", WHERE, ray.address, env=ray.environment, wait_s=START_S)
    assert done.stdout.splitlines()[-1:] == ["['host1', 'host2', 'host3']"], done.stderr
    stranger = {**ray.environment, "RAY_AUTH_TOKEN_PATH": "/dev/null"}
    refused = two.run("python", "-c", WHERE, ray.address, env=stranger, wait_s=START_S)
    assert refused.returncode != 0
    hosts.vanish(three)
    wait_for(ray, [one, two])
    hosts.come_back(three, empty=False)
    ray.start([three])
    wait_for(ray, [one, two, three])
    ray.stop(two)
    wait_for(ray, [one, three])
    assert not (Path.home() / ".ray").exists()
