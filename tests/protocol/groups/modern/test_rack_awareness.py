"""Rack awareness: off by default; on, partitions go to members near a replica (KIP-881's aim)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.effects import ComputeAssignment
from protocol.groups.topics import Topic, Topics
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, topic_id

if TYPE_CHECKING:
    from collections.abc import Mapping

RACKS = {0: "x", 1: "y", 2: "z"}
SWITCH = "consumer.assignor.rack.aware.enable"
ON = {f"group.{SWITCH}": "true"}
REPLICAS = ((0,), (0,), (1,), (1,))


def set_racks(talk: ConsumerTalk, racks: Mapping[int, str]) -> None:
    talk.shard.topics = Topics([Topic(topic_id("a"), "a", 4, REPLICAS)], racks)
    talk.settle()


def two_members(overrides: Mapping[str, str]) -> ConsumerTalk:
    """Two members on racks; the partitions that they get without racks are the other's."""
    talk = ConsumerTalk(overrides=overrides, in_place=False, topics={"a": 4})
    set_racks(talk, RACKS)
    talk.join("A", rack_id="y")
    talk.join("B", rack_id="x")
    talk.converge("A", "B")
    return talk


def near(talk: ConsumerTalk) -> bool:
    owned = {name: {index for _, index in talk.client(name).owned} for name in "AB"}
    return owned == {"A": {2, 3}, "B": {0, 1}}


def test_partitions_go_to_members_on_the_rack_of_a_replica() -> None:
    assert near(two_members(ON))


def test_without_the_switch_racks_are_not_even_told() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    set_racks(talk, RACKS)
    talk.join("A", rack_id="y")
    [task] = talk.tasks
    assert isinstance(task, ComputeAssignment)
    assert [topic.racks for topic in task.changes.topics or ()] == [()]
    talk.converge("A")
    epoch = talk.group.epoch
    set_racks(talk, {0: "elsewhere"})
    assert talk.group.epoch == epoch
    assert not talk.tasks


def test_a_node_that_moves_to_another_rack_moves_the_group_epoch() -> None:
    talk = two_members(ON)
    epoch = talk.group.epoch
    set_racks(talk, {0: "y", 1: "x"})
    assert talk.group.epoch == epoch + 1
    talk.converge("A", "B")
    owned = {name: {index for _, index in talk.client(name).owned} for name in "AB"}
    assert owned == {"A": {0, 1}, "B": {2, 3}}


def test_a_new_image_of_the_topics_with_the_same_racks_changes_nothing() -> None:
    talk = two_members(ON)
    epoch = talk.group.epoch
    set_racks(talk, dict(RACKS))
    assert talk.group.epoch == epoch


def test_a_group_may_switch_it_on_for_itself_at_any_time() -> None:
    talk = two_members({})
    talk.leave("B")
    talk.converge("A")
    talk.join("B", rack_id="x")
    talk.converge("A", "B")
    epoch = talk.group.epoch
    talk.shard.group_configs = {GROUP: {SWITCH: "true"}}
    talk.settle()
    assert talk.group.epoch == epoch + 1
    talk.converge("A", "B")
    assert near(talk)
    talk.shard.group_configs = {}
    talk.settle()
    assert talk.group.epoch == epoch + 2


def test_where_no_node_has_a_rack_the_switch_means_nothing() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    talk.join("A", rack_id="y")
    talk.converge("A")
    epoch = talk.group.epoch
    talk.shard.group_configs = {GROUP: {SWITCH: "true"}}
    talk.settle()
    assert talk.group.epoch == epoch
