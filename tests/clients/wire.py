"""The few requests that no client library lets a test send, one blocking connection at a time.

Ours carries the frames; kio alone encodes and decodes what is in them: what these tests say of the
wire is said by somebody else.
"""

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from kio.index import load_payload_module, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from actors.client.blocking import BlockingConnection
from tests.waiting import patient, until

OFFSET_COMMIT = 8
CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE = 69, 77, 89
METADATA, OFFSET_FETCH, FIND_COORDINATOR, HEARTBEAT, DESCRIBE_GROUPS = 3, 9, 10, 12, 15
NONE, REQUEST_TIMED_OUT, ILLEGAL_GENERATION = 0, 7, 22
LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
# What a client asks again for: the group's coordinator is on its way.
NOT_NOW = {REQUEST_TIMED_OUT, LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR}
GENERATIONS_TRIED = 200
CLIENT_ID = "rollcall-tests"


def address(bootstrap: str) -> tuple[str, int]:
    """Give the first server of a bootstrap string as (host, port)."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    return host, int(port)


class Wire:
    """One connection; :meth:`call` sends one request and waits for its answer."""

    def __init__(self, bootstrap: str, timeout_s: float = patient(10)) -> None:
        self._connection = BlockingConnection(address(bootstrap), timeout_s, CLIENT_ID, {})
        self._correlation_id = 0

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._connection.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, api_key: int, version: int, build: Callable[[Any], Any]) -> Any:
        """Send what ``build`` makes of the request's module, and return the decoded answer."""
        request = build(load_payload_module(api_key, version, EntityType.request))
        kind = type(request)
        self._correlation_id += 1
        body = io.BytesIO()
        header = kind.__header_schema__(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=CLIENT_ID,
        )
        entity_writer(kind.__header_schema__)(body, header)
        entity_writer(kind)(body, request)
        frame = body.getvalue()
        answer = self._connection.ask_frame(struct.pack(">i", len(frame)) + frame)[4:]
        response = load_response_schema(api_key, version)
        read_header, size = entity_reader(response.__header_schema__)(answer, 0)
        assert read_header.correlation_id == self._correlation_id
        return entity_reader(response)(answer, size)[0]


def coordinator_of(bootstrap: str, group_id: str) -> tuple[int, str] | None:
    """Ask every listed server who coordinates the group: (node id, "host:port"), None if nobody."""
    for server in bootstrap.split(","):
        with suppress(OSError), Wire(server) as wire:
            found = wire.call(
                FIND_COORDINATOR,
                4,
                lambda m: m.FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,)),
            ).coordinators[0]
            if found.error_code == NONE:
                return found.node_id, f"{found.host}:{found.port}"
    return None


def partitions(server: str, topic: str) -> int:
    """Count the partitions that one server says a topic has; none while it does not know it."""
    with Wire(server) as wire:
        answer = wire.call(
            METADATA,
            9,
            lambda m: m.MetadataRequest(
                topics=(m.MetadataRequestTopic(name=topic),),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
        )
    return len(answer.topics[0].partitions)


def describe(bootstrap: str, group_id: str) -> Any:
    """Answer of DescribeGroups v5 for one group, as soon as it has a coordinator that is loaded."""

    def ask() -> Any:
        with suppress(OSError):
            found = coordinator_of(bootstrap, group_id)
            if found is None:
                return None
            with Wire(found[1]) as wire:
                group = wire.call(
                    DESCRIBE_GROUPS,
                    5,
                    lambda m: m.DescribeGroupsRequest(
                        groups=(group_id,), include_authorized_operations=False
                    ),
                ).groups[0]
            return None if group.error_code in NOT_NOW else group
        return None

    return until(ask, patient(60), f"the coordinator of {group_id} describes it")


def describe_consumer(bootstrap: str, group_id: str) -> Any:
    """Answer of ConsumerGroupDescribe v1 for one group, as soon as it has a loaded coordinator."""
    return _described(bootstrap, group_id, CONSUMER_GROUP_DESCRIBE, 1, "Consumer")


def describe_share(bootstrap: str, group_id: str) -> Any:
    """Answer of ShareGroupDescribe v1 for one group, as soon as it has a loaded coordinator."""
    return _described(bootstrap, group_id, SHARE_GROUP_DESCRIBE, 1, "Share")


def describe_streams(bootstrap: str, group_id: str) -> Any:
    """Answer of StreamsGroupDescribe v0 for one group, as soon as it has a loaded coordinator."""
    return _described(bootstrap, group_id, STREAMS_GROUP_DESCRIBE, 0, "Streams")


def _described(bootstrap: str, group_id: str, api_key: int, version: int, kind: str) -> Any:
    def ask() -> Any:
        found = coordinator_of(bootstrap, group_id)
        if found is None:
            return None
        with suppress(OSError), Wire(found[1]) as wire:
            group = wire.call(
                api_key,
                version,
                lambda m: getattr(m, f"{kind}GroupDescribeRequest")(
                    group_ids=(group_id,), include_authorized_operations=False
                ),
            ).groups[0]
            return None if group.error_code in NOT_NOW else group
        return None

    return until(ask, patient(60), f"the coordinator of {group_id} describes it")


def share_assignments(bootstrap: str, group_id: str) -> dict[str, set[tuple[str, int]]]:
    """Give the partitions of each member of a share group, by its client id."""
    return {
        member.client_id: {
            (topic.topic_name, index)
            for topic in member.assignment.topic_partitions
            for index in topic.partitions
        }
        for member in describe_share(bootstrap, group_id).members
    }


def commit(bootstrap: str, group_id: str, member: tuple[str, int], topic: str, offset: int) -> int:
    """Commit for partition 0 as a member, (id, generation or epoch); gives the error code."""
    found = coordinator_of(bootstrap, group_id)
    assert found is not None
    with Wire(found[1]) as wire:
        answer = wire.call(
            OFFSET_COMMIT,
            9,
            lambda m: m.OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=member[1],
                member_id=member[0],
                group_instance_id=None,
                topics=(
                    m.OffsetCommitRequestTopic(
                        name=topic,
                        partitions=(
                            m.OffsetCommitRequestPartition(
                                partition_index=0, committed_offset=offset, committed_metadata=""
                            ),
                        ),
                    ),
                ),
            ),
        )
    code: int = answer.topics[0].partitions[0].error_code
    return code


Offsets = dict[tuple[str, int], int]


def offsets_once_back(bootstrap: str, group_id: str) -> Offsets:
    """All offsets of a group, as soon as there is a coordinator that says them."""

    def ask() -> list[Offsets]:
        found = offsets(bootstrap, group_id)
        return [] if found is None else [found]

    return until(ask, patient(60), f"the offsets of {group_id} are answered")[0]


def offsets(bootstrap: str, group_id: str) -> Offsets | None:
    """All offsets of a group by topic and partition; None while its coordinator cannot say."""
    found = coordinator_of(bootstrap, group_id)
    if found is None:
        return None
    with suppress(OSError), Wire(found[1]) as wire:
        answer = wire.call(
            OFFSET_FETCH,
            8,
            lambda m: m.OffsetFetchRequest(
                groups=(m.OffsetFetchRequestGroup(group_id=group_id, topics=None),),
                require_stable=True,
            ),
        ).groups[0]
        if answer.error_code == NONE:
            return {
                (topic.name, p.partition_index): p.committed_offset
                for topic in answer.topics
                for p in topic.partitions
            }
    return None


def generation_of(bootstrap: str, group_id: str) -> int:
    """Find the group's generation: the one for which a member's heartbeat is not illegal.

    DescribeGroups does not say it. A heartbeat with a live member's own ids does no harm.
    """
    members = describe(bootstrap, group_id).members
    assert members, f"{group_id} has no members"

    def heartbeat(generation: int) -> int | None:
        with suppress(OSError):
            found = coordinator_of(bootstrap, group_id)
            if found is None:
                return None
            with Wire(found[1]) as wire:
                code: int = wire.call(
                    HEARTBEAT,
                    4,
                    lambda m: m.HeartbeatRequest(
                        group_id=group_id,
                        generation_id=generation,
                        member_id=members[0].member_id,
                        group_instance_id=members[0].group_instance_id,
                    ),
                ).error_code
                return None if code in NOT_NOW else code
        return None

    for generation in range(GENERATIONS_TRIED):

        def answered(generation: int = generation) -> list[int]:
            code = heartbeat(generation)
            return [] if code is None else [code]

        if (
            until(answered, patient(60), f"the coordinator of {group_id} answers")[0]
            != ILLEGAL_GENERATION
        ):
            return generation
    raise AssertionError(f"no generation of {group_id} up to {GENERATIONS_TRIED} is legal")
