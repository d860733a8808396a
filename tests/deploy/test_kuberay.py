"""The manifest for KubeRay: valid by KubeRay's schema, and consistent with itself."""

import json
from typing import Any

import jsonschema
import pytest

from failover.control.host_placement import missing
from protocol.config import read_server_configs
from protocol.listeners import listener_addresses, replica_port
from protocol.properties import parse_properties
from tests.deploy.prune import ROOT, SCHEMA, manifests

HOSTS = 3


@pytest.fixture(scope="module")
def ray() -> dict[str, Any]:
    (found,) = manifests("RayCluster")
    return found


def groups(ray: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the head's group and those of the workers."""
    return [ray["spec"]["headGroupSpec"], *ray["spec"]["workerGroupSpecs"]]


def pods(ray: dict[str, Any]) -> list[dict[str, Any]]:
    return [group["template"]["spec"] for group in groups(ray)]


def containers(ray: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for pod in pods(ray) for container in pod["containers"]]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def ports_of(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def errors(ray: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(ray)]


def test_kuberay_accepts_it(ray: dict[str, Any]) -> None:
    assert errors(ray) == [], "if it uses more of the schema than before, see schemas/README.md"


def test_what_kuberay_does_not_know_would_be_found(ray: dict[str, Any]) -> None:
    wrong = json.loads(json.dumps(ray))
    wrong["spec"]["headGroup"] = {}
    wrong["spec"]["workerGroupSpecs"][0]["replicas"] = "one"
    del wrong["spec"]["workerGroupSpecs"][1]["groupName"]
    wrong["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["environment"] = []
    said = "\n".join(errors(wrong))
    for what in ("'headGroup' was unexpected", "'one' is not of type", "'groupName' is a required"):
        assert what in said
    assert "'environment' was unexpected" in said


def test_each_host_has_a_machine_and_a_volume_of_its_own(ray: dict[str, Any]) -> None:
    assert len(pods(ray)) == HOSTS
    machines = [pod["nodeSelector"]["rollcall-host"] for pod in pods(ray)]
    assert machines == [str(number) for number in range(HOSTS)]
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods(ray)
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claims == [one["metadata"]["name"] for one in manifests("PersistentVolumeClaim")]
    assert len(set(claims)) == HOSTS
    assert all(pod["hostNetwork"] for pod in pods(ray)), "an address stays with its machine"
    replicas = [group["replicas"] for group in ray["spec"]["workerGroupSpecs"]]
    assert replicas == [1] * (HOSTS - 1)


def test_the_configuration_is_valid_and_its_ports_are_those_of_the_containers(
    ray: dict[str, Any],
) -> None:
    (config,) = manifests("ConfigMap")
    found = read_server_configs(parse_properties(config["data"]["server.properties"]))
    assert found.unused == ()
    (address,) = listener_addresses(found.configs, 0, "10.0.0.1", 0)
    assert (address.bind_host, address.advertised_host) == ("10.0.0.1", "10.0.0.1")
    wanted = {"kafka": address.bind_port, "replicas": replica_port(found.configs, 0, 0)}
    head, *others = containers(ray)
    assert ports_of(head) == {"gcs-server": 6379, **wanted}
    assert all(ports_of(other) == wanted for other in others)
    (service,) = manifests("Service")
    assert [port["port"] for port in service["spec"]["ports"]] == [wanted["kafka"]]
    assert missing([f"10.0.0.{number}" for number in range(HOSTS)], HOSTS) == ""


def test_the_service_is_headless_and_selects_the_pods(ray: dict[str, Any]) -> None:
    (service,) = manifests("Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"ray.io/cluster": ray["metadata"]["name"]}


def test_data_the_store_and_the_configuration_are_where_rollcall_up_looks(
    ray: dict[str, Any],
) -> None:
    text = (ROOT / "deploy" / "container" / "rollcall-up").read_text()
    for container in containers(ray):
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert f"{mounts['data']}/data" in text
        assert f"{mounts['config']}/server.properties" in text
        settings = environment(container)
        assert settings["RAY_gcs_storage"] == "rocksdb"
        assert settings["RAY_gcs_storage_path"].startswith(mounts["data"])
        assert settings["RAY_gcs_rpc_server_reconnect_timeout_s"] == "86400"
        assert "drain $POD_IP" in container["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert f"ROLLCALL_HOSTS:-{HOSTS}" in text


def test_only_those_with_the_token_can_use_this_ray(ray: dict[str, Any]) -> None:
    assert ray["spec"]["authOptions"] == {"mode": "token"}


def test_the_head_starts_the_cluster_and_needs_no_cluster_to_be_found(
    ray: dict[str, Any],
) -> None:
    head, *others = containers(ray)
    assert head["command"] == ["(rollcall-up &)"]
    assert "readinessProbe" not in head, (
        "KubeRay's own: pods find the head before there is a cluster"
    )
    for other in others:
        assert "command" not in other
        assert other["readinessProbe"]["tcpSocket"] == {"port": "kafka"}
        assert "livenessProbe" not in other, "KubeRay's own"
