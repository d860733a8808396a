"""KIP-345's future works with real clients: they wait for each other, and one is a spare."""

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from actors.testing.cluster import ClusterForTests
from tests.actors.testing.test_verbs import PARTITIONS, Scene, scene
from tests.clients.confluent import admin
from tests.waiting import WITHIN_S

__all__ = ("scene",)

CONFIGS = {
    "group.expected.instance.ids": "w-0,w-1,w-2",
    "group.expected.instance.wait.ms": "240000",
    "group.active.members": "2",
}


def configure(cluster: ClusterForTests, group: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in CONFIGS.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    client = admin(cluster.bootstrap)
    client.incremental_alter_configs([resource])[resource].result(WITHIN_S)


@pytest.mark.parametrize(
    "settings",
    [{"partition_assignment_strategy": "cooperative-sticky"}, {"group_protocol": "consumer"}],
    ids=["cooperative", "consumer"],
)
def test_a_spare_waits_with_the_others_and_takes_over(
    scene: Scene, settings: dict[str, str]
) -> None:
    configure(scene.cluster, scene.group)
    for number in range(3):
        scene.add(**settings, group_instance_id=f"w-{number}")
    scene.settle()
    [spare] = [each for each in scene.members if not each.assigned]
    gone, stays = [each for each in scene.members if each.assigned]
    had, kept = set(gone.assigned), set(stays.assigned)
    assert len(had) == len(kept) == PARTITIONS // 2
    scene.members.remove(gone)
    _, members = scene.cluster.describe(scene.group)
    [doomed] = [each for each in members if set(each.partitions) == had]
    scene.cluster.expire(doomed)
    scene.until(lambda: set(spare.assigned) == had, "the spare takes over")
    assert set(stays.assigned) == kept
