"""OffsetCommit, one partition per request: what every consumer does every few seconds.

1,000 members in 10 groups share 32 connections with 4 requests in flight on each; every request
commits a new offset for the member's own partition and is answered once that is in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.frames import frame_of
from bench.looping import Request
from bench.members import TOPIC, stable_groups
from bench.rounds import Figures, Row, Setting, play
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

    from bench.joining import Joining, Plan
    from bench.server import Server

GROUPS, MEMBERS_EACH = 10, 100
WARM_UP_SECONDS: Final = 10.0
OFFSET_COMMIT, VERSION = 8, 9
OFFSET_MARK: Final = 0x0BAD_0FF5_E77E_4321
"""Stands in the frame where the offset of each sending goes."""


def bench_commits(servers: Sequence[Server], setting: Setting) -> list[Row]:
    """Measure commits on every server."""
    requests = {server.name: _commits(server) for server in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        return measure_closed_loop(server, requests[server.name], seconds)

    for server in servers:
        turn(server, WARM_UP_SECONDS)
    case = f"one partition each, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
    return play(case, servers, setting.rounds, turn)


def _commits(server: Server) -> list[Request]:
    members = stable_groups(server, "commits", GROUPS, MEMBERS_EACH)
    return [
        _commit(plan, member, number % MEMBERS_EACH)
        for number, (plan, member) in enumerate(members)
    ]


def _commit(plan: Plan, member: Joining, partition: int) -> Request:
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
    return Request(frame, _answer(partition), frame.index(OFFSET_MARK.to_bytes(8)))


def _answer(partition: int) -> bytes:
    done = OffsetCommitResponsePartition(partition_index=partition, error_code=ErrorCode.none)
    topic = OffsetCommitResponseTopic(name=TOPIC, topic_id=None, partitions=(done,))
    response = OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=(topic,))
    return encode_response(OFFSET_COMMIT, VERSION, 0, response)
