"""CreateTopics, DeleteTopics and CreatePartitions, as the catalogue's leader answers them.

The topics of one request are independent: an invalid one gets an error, the others succeed.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, cast

from failover.catalogue.cluster_view import TOPIC
from failover.catalogue.config_entries import BrokerLayers, topics_entries
from failover.catalogue.configs import SUGGESTIONS_MAX, check_topic_configs
from failover.catalogue.records import config_record, deletion_record, topic_record, topic_tombstone
from failover.catalogue.topic_names import (
    CLUSTER_METADATA,
    OWN_LOGS,
    collision_key,
    why_invalid,
)
from protocol.wire.convert import once_each
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from failover.catalogue.state import CatalogState
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic
    from protocol.wire.messages import DescribeConfigsResourceResult

PARTITIONS_MAX = 100_000
"""Most partitions that one topic may have, and one request may create: a typing error must not fill
the memory. (Kafka's controller creates 10,000 at once: its partitions are files.)"""


TOPICS_MAX = 5_000
"""Most topics that one request may create; each costs a tenth of a millisecond."""

DELETIONS_KEPT = 10_000
"""Deleted topics that are remembered; each costs about 50 bytes."""


def create_topics(catalog: CatalogState, request: Request) -> None:
    """Create the topics that can be created."""
    message = cast("CreateTopicsRequest", request.message)
    _check_size(catalog, message)
    counts = Counter(topic.name for topic in message.topics)
    creation = _Creation(catalog, message)
    results = [creation.create(topic) for topic in message.topics if counts[topic.name] == 1]
    results += [
        _not_created(name, KafkaError(ErrorCode.invalid_request, "The topic is named twice."))
        for name, count in counts.items()
        if count > 1
    ]
    answer = CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))
    catalog.reply(request, answer)


def _check_size(catalog: CatalogState, message: CreateTopicsRequest) -> None:
    """Refuse a request that would create too much, with Kafka's message."""
    if len(message.topics) > TOPICS_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, "Excessively large number of topics per request."
        )
    by_default = catalog.configs.integer("num.partitions")
    counts = [
        len(topic.assignments)
        or (by_default if topic.num_partitions == -1 else topic.num_partitions)
        for topic in message.topics
    ]
    total = sum(count for count in counts if 0 < count <= PARTITIONS_MAX)  # others are refused
    if total > PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )


class _Creation:
    """State shared by the topics of one request: equal configs are described once."""

    def __init__(self, catalog: CatalogState, message: CreateTopicsRequest) -> None:
        self._catalog = catalog
        self._validate_only = message.validate_only
        self._suggests = len(message.topics) <= SUGGESTIONS_MAX
        self._entries = topics_entries(BrokerLayers(static=catalog.configs.overrides))
        self._described = once_each(_described)
        self._collisions: dict[str, str] = {}
        for name in catalog.topic_names():
            self._remember(name)

    def _remember(self, name: str) -> None:
        shared = collision_key(name)
        if shared is not None:
            self._collisions.setdefault(shared, name)

    def _check_collision(self, name: str) -> None:
        other = self._collisions.get(collision_key(name) or "")
        if other is not None:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic '{other}'.",
            )

    def create(self, topic: CreatableTopic) -> CreatableTopicResult:
        catalog = self._catalog
        try:
            _check_new_name(catalog, topic.name)
            self._check_collision(topic.name)
            configs = _requested_configs(topic)
            check_topic_configs(configs, self._suggests)
            placement = _manual_placement(catalog, topic) or _automatic_placement(catalog, topic)
        except KafkaError as error:
            return _not_created(topic.name, error)
        topic_id = catalog.new_topic_id()
        if not self._validate_only:
            catalog.emit(topic_record(topic.name, topic_id, placement))
            self._remember(topic.name)
            for name, value in configs.items():
                catalog.emit(config_record((TOPIC, topic.name), name, value))
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            num_partitions=len(placement),
            replication_factor=len(placement[0]),
            configs=tuple(map(self._described, self._entries.of(configs))),
        )


def _described(entry: DescribeConfigsResourceResult) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
    )


def _not_created(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=error.code,
        error_message=error.message,
        configs=(),
    )


def _check_new_name(catalog: CatalogState, name: str) -> None:
    if name == CLUSTER_METADATA:
        raise KafkaError(
            ErrorCode.invalid_request, f"The internal topic {name} may not be created."
        )
    if problem := why_invalid(name):
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    if catalog.topic(name) is not None:
        raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _requested_configs(topic: CreatableTopic) -> dict[str, str]:
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(
                ErrorCode.invalid_config, f"Config '{config.name}' of a topic cannot be null."
            )
        configs[config.name] = config.value
    return configs


def _manual_placement(catalog: CatalogState, topic: CreatableTopic) -> tuple[tuple[int, ...], ...]:
    """Return the placement that the client chose, empty when it left the choice to the server."""
    if not topic.assignments:
        return ()
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.invalid_request,
            "With a manual assignment the replication factor must be -1.",
        )
    if topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.invalid_request,
            "With a manual assignment the number of partitions must be -1.",
        )
    chosen: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in chosen:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"Partition {assignment.partition_index} is assigned twice.",
            )
        chosen[assignment.partition_index] = assignment.broker_ids
    _check_replicas(catalog, chosen.values())
    if set(chosen) != set(range(len(chosen))):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            "Partitions must be numbered from 0 without gaps.",
        )
    return tuple(chosen[index] for index in range(len(chosen)))


def _check_replicas(
    catalog: CatalogState,
    assignments: Iterable[Sequence[int]],
    replication_factor: int | None = None,
) -> None:
    known, live = set(catalog.node_ids()), set(catalog.node_ids(live_only=True))
    for nodes in assignments:
        replication_factor = len(nodes) if replication_factor is None else replication_factor
        problem = None
        if not nodes:
            problem = "A partition is assigned to no node."
        elif unknown := sorted(set(nodes) - known):
            problem = f"A partition is assigned to node {unknown[0]}, which is not registered."
        elif len(set(nodes)) != len(nodes):
            problem = f"A partition is assigned to the same node twice: {list(nodes)}."
        elif len(nodes) != replication_factor:
            problem = (
                f"A partition is assigned to {len(nodes)} node(s), "
                f"others of the topic to {replication_factor}."
            )
        elif not live.intersection(nodes):
            problem = f"All nodes a partition is assigned to are down: {list(nodes)}."
        if problem:
            raise KafkaError(ErrorCode.invalid_replica_assignment, problem)


def _automatic_placement(
    catalog: CatalogState, topic: CreatableTopic
) -> tuple[tuple[int, ...], ...]:
    replication_factor = topic.replication_factor
    if replication_factor < -1 or replication_factor == 0:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            "The replication factor must be greater than 0, or -1 for the default.",
        )
    partitions = topic.num_partitions
    if partitions < -1 or partitions == 0:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            "The number of partitions must be greater than 0, or -1 for the default.",
        )
    if partitions == -1:
        partitions = catalog.configs.integer("num.partitions")
    if replication_factor == -1:
        replication_factor = catalog.configs.integer("default.replication.factor")
    return _place(catalog, topic.name, range(partitions), replication_factor)


def _place(
    catalog: CatalogState, name: str, partitions: range, replication_factor: int
) -> tuple[tuple[int, ...], ...]:
    """Spread partitions over the nodes: round-robin, the topic's name selects the first node."""
    nodes = catalog.node_ids()
    if partitions.stop > PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.invalid_partitions, f"A topic may have {PARTITIONS_MAX} partitions at most."
        )
    if replication_factor > len(nodes):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"A replication factor of {replication_factor} cannot be reached: "
            f"{len(nodes)} node(s) are registered.",
        )
    if not catalog.node_ids(live_only=True):
        raise KafkaError(
            ErrorCode.invalid_replication_factor, "No partition can be placed: all nodes are down."
        )
    first, count = zlib.crc32(name.encode()), len(nodes)
    rounds = [
        tuple(nodes[(first + index + step) % count] for step in range(replication_factor))
        for index in range(count)
    ]
    return tuple(rounds[index % count] for index in partitions)


def delete_topics(catalog: CatalogState, request: Request) -> None:
    """Delete the topics that can be deleted, by name or by id."""
    message = cast("DeleteTopicsRequest", request.message)
    if not catalog.configs.boolean("delete.topic.enable"):
        raise KafkaError(ErrorCode.topic_deletion_disabled)
    counts = Counter(message.topics)
    doomed: dict[str, DeletableTopicResult] = {}
    failed: list[DeletableTopicResult] = []
    for state, count in counts.items():
        try:
            topic = _topic_to_delete(catalog, state, repeated=count > 1)
        except KafkaError as error:
            failed.append(_deletion(state.name, state, error))
            continue
        if topic.name in doomed:
            named_twice = KafkaError(
                ErrorCode.invalid_request, "The topic is given both by name and by id."
            )
            doomed[topic.name] = _deletion(topic.name, doomed[topic.name], named_twice)
        else:
            doomed[topic.name] = DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.none
            )
    for name, result in doomed.items():
        if result.error_code is ErrorCode.none:
            _delete(catalog, name)
    answer = DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=(*doomed.values(), *failed))
    catalog.reply(request, answer)


def _topic_to_delete(catalog: CatalogState, state: DeleteTopicState, repeated: bool) -> Topic:
    if state.name is None and state.topic_id is None:
        raise KafkaError(ErrorCode.invalid_request, "Neither topic name nor topic id is given.")
    if state.name is not None and state.topic_id is not None:
        raise KafkaError(ErrorCode.invalid_request, "Give a topic's name or its id, not both.")
    if repeated:
        raise KafkaError(ErrorCode.invalid_request, "The topic is named twice.")
    if state.name is not None:
        topic = catalog.topic(state.name)
        unknown = ErrorCode.unknown_topic_or_partition
    else:
        assert state.topic_id is not None
        topic = catalog.topics().by_id(state.topic_id)
        unknown = ErrorCode.unknown_topic_id
    if topic is None:
        raise KafkaError(unknown)
    if topic.name in OWN_LOGS:
        raise KafkaError(ErrorCode.invalid_request, f"{topic.name} is the coordinators' own log.")
    return topic


def _deletion(
    name: str | None, asked: DeleteTopicState | DeletableTopicResult, error: KafkaError
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=asked.topic_id, error_code=error.code, error_message=error.message
    )


def _delete(catalog: CatalogState, name: str) -> None:
    for config in catalog.overrides_of((TOPIC, name)):
        catalog.emit(config_record((TOPIC, name), config, None))
    topic = catalog.topic(name)
    assert topic is not None
    catalog.emit(topic_tombstone(name))
    for forgotten in catalog.deletions_beyond(DELETIONS_KEPT - 1):
        catalog.emit(deletion_record(forgotten, None))
    catalog.emit(deletion_record(topic.topic_id, name))


def create_partitions(catalog: CatalogState, request: Request) -> None:
    """Add partitions to the topics that allow it."""
    message = cast("CreatePartitionsRequest", request.message)
    counts = Counter(topic.name for topic in message.topics)
    _check_growth(catalog, message)
    results = []
    for topic in {topic.name: topic for topic in message.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.invalid_request, "The topic is named twice.")
            known = _topic_to_grow(catalog, topic)
            placement = known.replicas + _added_placement(catalog, known, topic)
            if not message.validate_only:
                catalog.emit(topic_record(known.name, known.topic_id, placement))
            code, sentence = ErrorCode.none, None
        except KafkaError as error:
            code, sentence = error.code, error.message
        results.append(
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=sentence)
        )
    answer = CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))
    catalog.reply(request, answer)


def _check_growth(catalog: CatalogState, message: CreatePartitionsRequest) -> None:
    """Refuse a request about too many partitions: each topic's record is written as a whole."""
    known = [each for each in message.topics if catalog.topic(each.name) is not None]
    if sum(each.count for each in known if 0 < each.count <= PARTITIONS_MAX) > PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )


def _topic_to_grow(catalog: CatalogState, topic: CreatePartitionsTopic) -> Topic:
    known = catalog.topic(topic.name)
    if known is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if known.name in OWN_LOGS:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"The number of {known.name} partitions is fixed when a cluster first starts.",
        )
    if topic.count <= known.partitions:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"Topic '{known.name}' has {known.partitions} partition(s) already, "
            f"{topic.count} would not be more.",
        )
    return known


def _added_placement(
    catalog: CatalogState, known: Topic, topic: CreatePartitionsTopic
) -> tuple[tuple[int, ...], ...]:
    replication_factor = len(known.replicas[0])
    added = range(known.partitions, topic.count)
    if topic.assignments is None:
        return _place(catalog, known.name, added, replication_factor)
    if len(topic.assignments) != len(added):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"{len(added)} partition(s) are added but {len(topic.assignments)} are assigned.",
        )
    chosen = tuple(assignment.broker_ids for assignment in topic.assignments)
    _check_replicas(catalog, chosen, replication_factor)
    return chosen


HANDLERS: Mapping[int, Callable[[CatalogState, Request], None]] = {
    19: create_topics,
    20: delete_topics,
    37: create_partitions,
}
