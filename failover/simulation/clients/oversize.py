"""Requests that exceed limits: each gets Kafka's error code, and has no other effect.

A string too long for the protocol never gets here: it ends the connection earlier. The limits of
records are small here (:data:`failover.simulation.one_seed.SMALL`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from failover.simulation.checkers.any_answer import codes_of
from failover.simulation.clients.administrator import AdminCall
from failover.simulation.event_log import Violation
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from failover.simulation.clients.callers import Callers

HUGE: Final = "huge"
"""The group of the oversized requests; it is never created, or has offsets only."""

METADATA_MAX: Final = 4_096
MEMBER_BYTES: Final = 60_000
ID_LENGTH: Final = 40_000
MANY: Final = 2_000


def commit_with_long_metadata(callers: Callers) -> Entity:
    """Commit one partition with longer metadata than ``offset.metadata.max.bytes``."""
    return _commit(callers, 1, 2 * METADATA_MAX)


def commit_of_too_much(callers: Callers) -> Entity:
    """Commit partitions whose records together are larger than one batch may be."""
    return _commit(callers, callers.cluster.world.settings.topic_partitions, METADATA_MAX - 96)


def _commit(callers: Callers, partitions: int, metadata: int) -> Entity:
    rows = tuple(
        m.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=callers.cluster.values.draw(),
            committed_leader_epoch=-1,
            committed_metadata="m" * metadata,
        )
        for index in range(partitions)
    )
    name = callers.rng.choice(sorted(callers.cluster.clients.partitions_of))
    return m.OffsetCommitRequest(
        group_id=HUGE,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(m.OffsetCommitRequestTopic(topic_id=None, name=name, partitions=rows),),
        retention_time=timedelta(milliseconds=-1),
    )


def join_with_large_protocol(_callers: Callers) -> Entity:
    """Join with a protocol that is larger than a member's record may be."""
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=bytes(MEMBER_BYTES))
    return blank(
        m.JoinGroupRequest,
        group_id=HUGE,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )


def heartbeat_with_long_id(_callers: Callers) -> Entity:
    """Join a consumer group with an instance id too long for a string of older versions."""
    return blank(
        m.ConsumerGroupHeartbeatRequest,
        group_id=HUGE,
        member_id="somebody",
        member_epoch=0,
        instance_id="i" * ID_LENGTH,
        rebalance_timeout=timedelta(seconds=10),
        subscribed_topic_names=("topic",),
        topic_partitions=(),
    )


def deletion_of_many_groups(_callers: Callers) -> Entity:
    """Delete thousands of groups that never existed."""
    return m.DeleteGroupsRequest(groups_names=tuple(f"{HUGE}-{n}" for n in range(MANY)))


E = ErrorCode
TRANSIENT: Final = frozenset(
    {E.not_coordinator, E.coordinator_load_in_progress, E.coordinator_not_available}
)
"""The errors that any group's request may get while leadership moves."""

CALLS: Final[Mapping[int, tuple[tuple[Callable[[Callers], Entity], frozenset[ErrorCode]], ...]]] = {
    8: (
        (commit_with_long_metadata, frozenset({E.offset_metadata_too_large})),
        (commit_of_too_much, frozenset({E.invalid_commit_offset_size})),
    ),
    11: ((join_with_large_protocol, frozenset({E.unknown_server_error})),),
    42: ((deletion_of_many_groups, frozenset({E.group_id_not_found})),),
    68: ((heartbeat_with_long_id, frozenset({E.invalid_request})),),
}
"""By API: the requests, and the codes that they may get; the topic may also be gone."""

GONE: Final = frozenset({E.unknown_topic_or_partition})


class Oversize:
    """Sends them, and checks that each answer is Kafka's."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def call(self) -> None:
        """Send one, to a node that may lead its group."""
        callers = self._callers
        rng, cluster = callers.rng, callers.cluster
        key = rng.choice(sorted(CALLS))
        make, codes = rng.choice(CALLS[key])
        message = make(callers)
        processes = cluster.network.processes
        node_id = processes[rng.randrange(len(processes))].leader_known(HUGE)
        name = make.__name__.replace("_", " ")
        cluster.world.fault("message too large", name)

        def take(response: Any) -> None:
            if response is None or cluster.world.may_fail:
                return
            told = set(codes_of(response))
            others = told - codes - TRANSIENT - GONE
            if others and not (others == {E.none} and told & GONE):
                raise Violation(f"a {name} is told {', '.join(map(str, others))}", HUGE)

        AdminCall(cluster.world, cluster.network, node_id, take).send(message)
