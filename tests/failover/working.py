"""A driver whose assignors work, a few requests, and what its memory holds beside its log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from protocol.assignors.executor import Executor
from protocol.groups.effects import CancelAssignment, Task
from protocol.wire import messages as m
from protocol.wire.embedded import encode_subscription
from storage.log import MemoryLog
from tests.failover.apis import asks
from tests.failover.hosts import Driver

SUBSCRIPTION = encode_subscription(["t"])


class Working(Driver):
    """A driver whose tasks are done, one event of the host later."""

    def submit(self, partition: int, task: Task) -> None:
        if not isinstance(task, CancelAssignment):
            self.__dict__.setdefault("submitted", []).append((partition, task))

    def work(self, most: int = 20) -> int:
        """Do what was submitted; return how many tasks there were."""
        executor, done = Executor(lambda: 0.0), 0
        while self.__dict__.get("submitted") and done < most:
            partition, task = self.__dict__["submitted"].pop(0)
            answer = executor.run(task)
            done += 1
            if answer is not None:
                self.host.computed(partition, answer, self.now)
                self.pump()
        return done


def working_driver(**arguments: Any) -> Working:
    driver = Working(MemoryLog(), **arguments)
    prepare(driver)
    return driver


def prepare(driver: Driver) -> None:
    """Load a driver's log, and have a node and a topic."""
    driver.load()
    driver.host.catalog_event(NodeChanged(Node(0, "localhost", 9092)), driver.now)
    driver.pump()
    driver.ask(19, 7, asks.create_topics("t", partitions=4))


def beat(
    group: str, member_id: str, epoch: int = 0, **more: Any
) -> m.ConsumerGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": timedelta(seconds=60) if epoch == 0 else timedelta(milliseconds=-1),
        "subscribed_topic_names": ("t",) if epoch == 0 else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": () if epoch == 0 else None,
    }
    return m.ConsumerGroupHeartbeatRequest(**{**fields, **more})


def classic_member(driver: Driver, group: str) -> tuple[str, int]:
    """Bring a group of one static member to Stable."""
    ticket = driver.give(11, 9, asks.join(group, instance="i", metadata=SUBSCRIPTION))
    driver.pump()
    driver.wait(10)
    joined = driver.replies[ticket]
    driver.ask(14, 5, asks.sync(group, joined.generation_id, joined.member_id, {}))
    return joined.member_id, joined.generation_id


def context(driver: Driver) -> Any:
    return driver.host.partitions[1].machine._context  # type: ignore[attr-defined]


def hard(driver: Driver) -> dict[str, Any]:
    """What a driver's host remembers of each group and its offsets, however it came to know it."""
    ctx = context(driver)
    shown: dict[str, Any] = {}
    for group_id, group in ctx.groups.items():
        if not hasattr(group, "members"):
            shown[group_id] = group.metadata
            continue
        shown[group_id] = (
            group.epoch,
            group.assignment_epoch,
            dict(sorted(group.targets.items())),
            {
                member_id: (member.metadata, named(ctx, member.assignment))
                for member_id, member in sorted(group.members.items())
            },
            dict(sorted(group.regexes.items())),
        )
    offsets = {
        (group_id, topic, index): value
        for group_id, topics in ctx.offsets.items()
        for topic, partitions in topics.items()
        for index, value in partitions.items()
    }
    return {"groups": shown, "offsets": offsets}


def named(ctx: Any, assignment: Any) -> Any:
    """A member's standing without the numbers that a shard has given to topics."""
    uuids = ctx.numbers.uuids
    parts = (assignment.assigned, assignment.revoking)
    owned = [sorted((uuids[each >> 32].int, each) for each in part) for part in parts]
    return assignment.epoch, assignment.previous_epoch, assignment.state, owned


def check_memory_is_the_log(driver: Driver) -> None:
    """Compare with another process, which writes to a copy of the log."""
    log = driver.log
    is_whole = isinstance(log, MemoryLog) and not log.unsynced
    again = driver.restarted(log.copied() if is_whole else None)  # type: ignore[attr-defined]
    again.load()
    mine, its = hard(driver), hard(again)
    for part in ("groups", "offsets"):
        assert mine[part].keys() == its[part].keys()
        for key in mine[part]:
            assert mine[part][key] == its[part][key], key
