"""KIP-345's future works with real clients.

They wait for each other, one is a spare, and one gets back what it had after its session is over.
"""

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from actors.testing.cluster import ClusterForTests
from tests.actors.testing.test_verbs import PARTITIONS, Scene, scene
from tests.clients.confluent import Partition, admin
from tests.waiting import WITHIN_S

__all__ = ("scene",)

SPARE = {
    "group.expected.instance.ids": "w-0,w-1,w-2",
    "group.expected.instance.wait.ms": "240000",
    "group.active.members": "2",
}

RETENTION = "group.instance.assignment.retention.ms"
INSTANCES = ("w-0", "w-1")
CONSUMER = {"group_protocol": "consumer"}


def configure(cluster: ClusterForTests, group: str, configs: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
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
    configure(scene.cluster, scene.group, SPARE)
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


def test_an_instance_gets_back_what_it_had_before_its_session_was_over(scene: Scene) -> None:
    """Without retention the assignor gives back the same partitions, whoever has lost which."""
    scenes = {True: scene, False: scene.another()}
    for is_kept, each in scenes.items():
        configure(each.cluster, each.group, {RETENTION: "600000" if is_kept else "0"})
        for instance_id in INSTANCES:
            each.add(**CONSUMER, group_instance_id=instance_id)
    got_it: dict[bool, list[bool]] = {True: [], False: []}
    for instance_id in INSTANCES:
        for each in scenes.values():
            each.settle()
        had = {is_kept: goes_for_long(each, instance_id) for is_kept, each in scenes.items()}
        for each in scenes.values():
            each.until(lambda each=each: has_it_all(each), "the other has it all")
            each.add(**CONSUMER, group_instance_id=instance_id)
        for is_kept, each in scenes.items():
            each.settle()
            got_it[is_kept].append(each.members[-1].assigned == had[is_kept])
    assert got_it[True] == [True, True]
    assert not all(got_it[False])


def goes_for_long(scene: Scene, instance_id: str) -> set[Partition]:
    """Stop the member that is first; its session ends. Return what it had."""
    member = scene.members.pop(0)
    had = set(member.assigned)
    assert len(had) == PARTITIONS // 2
    member.close()
    scene.cluster.expire(instance_id, scene.group)
    return had


def has_it_all(scene: Scene) -> bool:
    return [len(each.assigned) for each in scene.members] == [PARTITIONS]
