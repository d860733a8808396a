"""Streams groups through a whole host: internal topics that the catalogue refuses to create."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from protocol.wire import streams_messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import MetadataRequest, MetadataRequestTopic
from tests.failover.working import Working, working_driver

METADATA, HEARTBEAT = 3, 88
MISSING_INTERNAL_TOPICS = 3
CHANGELOG = "app-store-changelog"


def topology(replication_factor: int, **configs: str) -> m.StreamsTopology:
    """Make a subtopology that reads ``t`` and keeps a store."""
    changelog = m.StreamsTopicInfo(
        name=CHANGELOG,
        partitions=0,
        replication_factor=replication_factor,
        topic_configs=tuple(
            m.StreamsConfig(key=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ),
    )
    subtopology = m.StreamsSubtopology(
        subtopology_id="0",
        source_topics=("t",),
        state_changelog_topics=(changelog,),
        repartition_sink_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    return m.StreamsTopology(epoch=1, subtopologies=(subtopology,))


def beat(driver: Working, epoch: int, joined: m.StreamsTopology | None = None) -> Any:
    tasks = None if joined is None else ()
    message = blank(
        m.StreamsGroupHeartbeatRequest,
        group_id="app",
        member_id="a",
        member_epoch=epoch,
        process_id="p",
        rebalance_timeout=timedelta(seconds=60),
        topology=joined,
        active_tasks=tasks,
        standby_tasks=tasks,
        warmup_tasks=tasks,
    )
    answer = driver.ask(HEARTBEAT, 0, message)
    assert answer.error_code is ErrorCode.none, answer
    return answer


def statuses(answer: Any) -> dict[int, str]:
    return {each.status_code: each.status_detail for each in answer.status or ()}


def partitions(driver: Working, topic: str) -> int:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (found,) = driver.ask(METADATA, 12, request).topics
    return len(found.partitions)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (topology(5), "replication factor"),
        (topology(1, cleanup_policy="shrink"), "cleanup.policy"),
    ],
    ids=["replication factor", "config"],
)
def test_the_reason_why_an_internal_topic_is_not_created_is_told(
    asked: m.StreamsTopology, reason: str
) -> None:
    """KIP-1071: MISSING_INTERNAL_TOPICS, with the reason for two heartbeat intervals."""
    driver = working_driver()
    joined = beat(driver, 0, asked)
    assert set(statuses(joined)) >= {MISSING_INTERNAL_TOPICS}
    driver.wait(5_000)
    told = statuses(beat(driver, joined.member_epoch))[MISSING_INTERNAL_TOPICS]
    assert f"; Creation failed: {CHANGELOG} (" in told
    assert reason in told
    assert partitions(driver, CHANGELOG) == 0


def test_an_internal_topic_that_can_be_created_is_there_at_the_next_heartbeat() -> None:
    driver = working_driver()
    joined = beat(driver, 0, topology(1, cleanup_policy="compact"))
    assert partitions(driver, CHANGELOG) == 4
    driver.wait(5_000)
    assert MISSING_INTERNAL_TOPICS not in statuses(beat(driver, joined.member_epoch))
