"""OffsetCommit, one partition per request: every consumer sends it every few seconds.

1,000 members in 10 groups share 32 connections with 4 requests in flight on each; every request
commits a new offset for the member's own partition and is answered once it is in the log: of one
replica that does not wait for its disk, or of a majority of three (with ours, on their disks).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from bench.cases.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.cases.members import TOPIC, stable_groups
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import RepeatedRequest
from bench.load.offsets import groups_on
from bench.report.rounds import BenchRow, BenchSettings, Figures, run_rounds
from bench.servers.restartable_cluster import each_in_turn
from protocol.client.frames import frame_of
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import encode_response
from protocol.wire.messages import (
    NO_THROTTLE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load.joining import GroupPlan, JoiningMember
    from bench.servers.server import Server

GROUPS, MEMBERS_EACH = 10, 100
PARTITIONS: Final = 3
"""Of the offsets topic when there are three nodes; the first node leads all groups."""
WARM_UP_SECONDS: Final = 10.0
OFFSET_COMMIT, VERSION = 8, 9
OFFSET_MARK: Final = 0x0BAD_0FF5_E77E_4321
"""Placeholder in the frame for the offset of each sending."""


def bench_commits(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure commits on every server."""
    group_ids = tuple(f"commits-{number}" for number in range(GROUPS))
    requests = {server.name: _commits(server, group_ids) for server in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        return measure_closed_loop(server, requests[server.name], seconds)

    for server in servers:
        turn(server, WARM_UP_SECONDS)
    case = f"one partition each, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
    return run_rounds(case, servers, setting.rounds, turn)


def bench_replicated_commits(setting: BenchSettings, with_kafka: bool) -> list[BenchRow]:
    """Measure commits on one partition with three replicas: ours, then Kafka's three brokers."""
    rows = []
    for cluster in each_in_turn({"group.initial.rebalance.delay.ms": "0"}, with_kafka):
        group_ids = tuple(islice(groups_on(0, PARTITIONS, "commits"), GROUPS))
        with BlockingClient(cluster.bootstrap[0]) as connection:
            leader = connection.coordinator(group_ids[0])
        server = replace(cluster.server, bootstrap=(leader,))
        requests = _commits(server, group_ids)
        turn = partial(measure_closed_loop, requests=requests, seconds=setting.seconds)
        measure_closed_loop(server, requests, WARM_UP_SECONDS)
        case = f"three replicas, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
        rows += run_rounds(case, [server], setting.rounds, turn)
    return rows


def _commits(server: Server, group_ids: Sequence[str]) -> list[RepeatedRequest]:
    members = stable_groups(server, group_ids, MEMBERS_EACH)
    return [
        commit(plan, member, number % MEMBERS_EACH) for number, (plan, member) in enumerate(members)
    ]


def commit(plan: GroupPlan, member: JoiningMember, partition: int) -> RepeatedRequest:
    """Return a member's commit of one partition of the topic of :data:`TOPIC`, to be repeated."""
    wanted = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=OFFSET_MARK, committed_metadata=""
    )
    frame = frame_of(
        OffsetCommitRequest(
            group_id=plan.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=(OffsetCommitRequestTopic(name=TOPIC, topic_id=None, partitions=(wanted,)),),
        )
    )
    return RepeatedRequest(frame, _answer(partition), frame.index(OFFSET_MARK.to_bytes(8)))


def _answer(partition: int) -> bytes:
    done = OffsetCommitResponsePartition(partition_index=partition, error_code=ErrorCode.none)
    topic = OffsetCommitResponseTopic(name=TOPIC, topic_id=None, partitions=(done,))
    response = OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=(topic,))
    return encode_response(OFFSET_COMMIT, VERSION, 0, response)
