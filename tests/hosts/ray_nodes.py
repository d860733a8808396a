"""A program that waits until the nodes of a Ray cluster that live have the addresses given.

``ADDRESS JSON-LIST SECONDS``; it prints the addresses of those that live. It asks Ray's control
store and needs no Ray on its own host.
"""

import json
import sys

from ray._raylet import GcsClient  # type: ignore[attr-defined]  # Ray's own commands use it
from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]  # generated

from actors.waiting import poll


def main(address: str, wanted: str, within_s: str) -> None:
    """Wait."""
    client = GcsClient(address=address)

    def living() -> list[str]:
        nodes = client.get_all_node_info().values()
        return sorted(n.node_manager_address for n in nodes if n.state == GcsNodeInfo.ALIVE)

    found = poll(living, float(within_s), is_done=lambda seen: seen == json.loads(wanted))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
