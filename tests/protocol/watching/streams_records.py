"""Records of streams groups as Kafka's coordinators write them, for what watches them.

A task is its role ("active", "standby" or "warmup"), its subtopology and its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups.streams.records import key_values
from protocol.records import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    StreamsSubtopology,
    StreamsTopicInfo,
    TargetTaskIds,
)
from tests.protocol.watching.records import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Task = tuple[str, str, int]

ROLES = ("active", "standby", "warmup")
REBALANCE_MS = 60_000


def joined(name: str, **fields: Any) -> list[tuple[Any, Any]]:
    given: dict[str, Any] = {
        "instance_id": None,
        "rack_id": None,
        "client_id": name,
        "client_host": "/10.0.0.4",
        "rebalance_timeout_ms": REBALANCE_MS,
        "topology_epoch": 0,
        "process_id": f"process-of-{name}",
        "user_endpoint": None,
        "client_tags": (),
    }
    value = StreamsGroupMemberMetadataValue(**{**given, **fields})
    return [(StreamsGroupMemberMetadataKey("g", f"id-of-{name}"), value)]


def topology(number: int = 0) -> list[tuple[Any, Any]]:
    """Return a topology of two subtopologies, the second with a topic of its own in between."""

    def info(name: str) -> StreamsTopicInfo:
        return StreamsTopicInfo(name=name, partitions=0, replication_factor=0, topic_configs=())

    common: dict[str, Any] = {
        "source_topic_regex": (),
        "repartition_sink_topics": (),
        "copartition_groups": (),
    }
    first = StreamsSubtopology(
        subtopology_id="0",
        source_topics=("s",),
        state_changelog_topics=(info("c"),),
        repartition_source_topics=(),
        **common,
    )
    second = StreamsSubtopology(
        subtopology_id="1",
        source_topics=(),
        state_changelog_topics=(),
        repartition_source_topics=(info("r"),),
        **common,
    )
    value = StreamsGroupTopologyValue(epoch=number, subtopologies=(first, second))
    return [(StreamsGroupTopologyKey("g"), value)]


def epoch(
    number: int,
    topics_hash: int = 1,
    validated: int = 0,
    configs: Mapping[str, str] | None = None,
) -> list[tuple[Any, Any]]:
    value = StreamsGroupMetadataValue(
        epoch=number,
        metadata_hash=topics_hash,
        validated_topology_epoch=validated,
        last_assignment_configs=key_values(configs or {}),
    )
    return [(StreamsGroupMetadataKey("g"), value)]


def targets(number: int, parts: Mapping[str, Iterable[Task]]) -> list[tuple[Any, Any]]:
    """Return the targets of members, and the assignment epoch."""
    rows: list[tuple[Any, Any]] = []
    for name, tasks in parts.items():
        fields = {
            f"{role}_tasks": tuple(
                TargetTaskIds(subtopology_id=each, partitions=those)
                for each, those in _by_subtopology(tasks, role)
            )
            for role in ROLES
        }
        key = StreamsGroupTargetAssignmentMemberKey("g", f"id-of-{name}")
        rows.append((key, StreamsGroupTargetAssignmentMemberValue(**fields)))
    done = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=number, assignment_timestamp=NOW
    )
    return [*rows, (StreamsGroupTargetAssignmentMetadataKey("g"), done)]


def current(
    name: str,
    number: int,
    tasks: Iterable[Task],
    state: int = 0,
    revoking: Iterable[Task] = (),
) -> list[tuple[Any, Any]]:
    """Return what a member has, and is to give up."""
    fields: dict[str, Any] = {}
    for end, those in (("", tasks), ("_pending_revocation", revoking)):
        for role in ROLES:
            fields[f"{role}_tasks{end}"] = tuple(
                CurrentTaskIds(
                    subtopology_id=each,
                    partitions=partitions,
                    assignment_epochs=(1,) * len(partitions) if role == "active" else None,
                )
                for each, partitions in _by_subtopology(those, role)
            )
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=number,
        previous_member_epoch=max(number - 1, 0),
        state=state + 1,  # Kafka's numbers of a streams group's member begin with 1
        **fields,
    )
    return [(StreamsGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), value)]


def gone(name: str) -> list[tuple[Any, Any]]:
    """Return the tombstones of a member, in Kafka's order."""
    return [
        (StreamsGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), None),
        (StreamsGroupTargetAssignmentMemberKey("g", f"id-of-{name}"), None),
        (StreamsGroupMemberMetadataKey("g", f"id-of-{name}"), None),
    ]


def removed() -> list[tuple[Any, Any]]:
    """Return the tombstones of a group without members, in Kafka's order."""
    return [
        (StreamsGroupTargetAssignmentMetadataKey("g"), None),
        (StreamsGroupMetadataKey("g"), None),
        (StreamsGroupTopologyKey("g"), None),
    ]


def _by_subtopology(tasks: Iterable[Task], role: str) -> list[tuple[str, tuple[int, ...]]]:
    found: dict[str, list[int]] = {}
    for its_role, subtopology, partition in sorted(tasks):
        if its_role == role:
            found.setdefault(subtopology, []).append(partition)
    return [(each, tuple(those)) for each, those in sorted(found.items())]
