"""Makes the copy of KubeRay's schema that tests use, from its CRD and our manifests.

    python -m tests.deploy.prune ray.io_rayclusters.yaml

The schema of a RayCluster is 900 KB, as it has everything that a pod can have. Kept are the parts
that a manifest in deploy/kuberay uses; any other property is ``false``, which no value passes.
Objects that do not allow further properties say so, as the API server drops those.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "deploy" / "kuberay"
SCHEMA: Final = Path(__file__).parent / "schemas" / "ray.io_rayclusters.json"
VERSION: Final = "v1"


def manifests(kind: str) -> list[dict[str, Any]]:
    """Return the objects of this kind in all manifests."""
    texts = (path.read_text() for path in sorted(MANIFESTS.glob("*.yaml")))
    return [one for text in texts for one in yaml.safe_load_all(text) if one["kind"] == kind]


def pruned(schema: dict[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Return the parts of a schema that these values use."""
    kept = {key: value for key, value in schema.items() if key not in {"properties", "items"}}
    if "items" in schema:
        kept["items"] = pruned(
            schema["items"], [one for value in values if isinstance(value, list) for one in value]
        )
    if "properties" in schema:
        kept["properties"] = {}
        for name, part in schema["properties"].items():
            used = [value[name] for value in values if isinstance(value, dict) and name in value]
            kept["properties"][name] = pruned(part, used) if used else False
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept.setdefault("additionalProperties", False)
    return kept


def main(crd: str) -> None:
    """Write the copy."""
    versions = yaml.safe_load(Path(crd).read_text())["spec"]["versions"]
    (schema,) = (one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == VERSION)
    schema["properties"]["metadata"] = {"type": "object"}
    kept = pruned(schema, manifests("RayCluster"))
    SCHEMA.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
