"""Whatever a field of a request holds, it is answered or its connection closed; nothing ends.

Every field of every served API takes odd values in turn: the longest strings that the formats
hold, large blobs, long arrays, nulls, the ends of numbers. The request goes from its bytes to the
bytes of its answer; afterwards every partition leads, memory is what the log says, and no handler
has raised.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from protocol.groups.effects import ClientInfo, Request
from protocol.groups.limits import GROUP_BYTES_MAX, MEMBER_BYTES_MAX
from protocol.wire import messages as m
from protocol.wire.apis import API, error_response
from protocol.wire.convert import blank, unwrap
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import BadFrame, decode_request, encode_request, encode_response
from protocol.wire.readers import TEXT_BYTES_MAX
from tests.failover.apis import asks
from tests.failover.working import (
    SUBSCRIPTION,
    Working,
    beat,
    check_memory_is_the_log,
    classic_member,
    working_driver,
)

LONGEST = "x" * TEXT_BYTES_MAX
ODD_VALUES: dict[str, tuple[Any, ...]] = {
    "string": (LONGEST, "é" * (TEXT_BYTES_MAX // 2), "", "\0\n\u202e", "g"),
    "bytes": (b"", b"\0", b"\xff" * 70_000),
    "records": (b"", b"\xff" * 70_000),
    "bool": (False, True),
    "float64": (float("inf"), -0.0),
    "uuid": (None, UUID(int=1)),
    "timedelta_i32": tuple(timedelta(milliseconds=n) for n in (-(2**31), -2, 0, 2**31 - 1)),
    "timedelta_i64": tuple(timedelta(milliseconds=n) for n in (-(10**15), -2, 0, 10**15)),
    **{
        f"int{bits}": (-(2 ** (bits - 1)), -2, -1, 0, 2 ** (bits - 1) - 1)
        for bits in (8, 16, 32, 64)
    },
    "uint16": (0, 2**16 - 1),
    "error_code": (ErrorCode.none,),
}
MANY = 1_000


def base(key: int, driver: Working) -> Any:
    """A request that is right, of a member that the group knows where there is one."""
    member, generation = driver.__dict__["member"]
    own = {"group_id": "g", "generation_id": generation, "member_id": member}
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    commit = asks.commit("g", 5, generation=generation, member_id=member, instance="i")
    known: dict[int, Any] = {
        8: commit,
        9: asks.fetch("g"),
        11: replace(asks.join("g", instance="new", metadata=SUBSCRIPTION), protocols=(protocol,)),
        12: m.HeartbeatRequest(**own, group_instance_id="i"),
        13: m.LeaveGroupRequest(
            group_id="g",
            members=(m.MemberIdentity(member_id=member, group_instance_id="i", reason="done"),),
        ),
        14: replace(asks.sync("g", generation, member, {member: b"mine"}), group_instance_id="i"),
        19: asks.create_topics("u"),
        68: beat("modern", "m2", subscribed_topic_regex="t.*", topic_partitions=()),
    }
    return known[key] if key in known else blank(API[key].request)


@cache
def paths(shape: type) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    for column in fields(shape):
        kind, is_array, _ = unwrap(column)
        if is_array or not is_dataclass(kind):
            found.append((column.name,))
        if is_dataclass(kind):
            assert isinstance(kind, type)
            found += [(column.name, *below) for below in paths(kind)]
    return tuple(found)


def odd_messages(message: Any, path: tuple[str, ...]) -> list[Any]:
    """The message with each odd value at the end of the path."""
    name, *rest = path
    column = next(each for each in fields(message) if each.name == name)
    kind, is_array, nullable = unwrap(column)
    now = getattr(message, name)
    if rest:
        first = (now[0] if now else blank(kind)) if is_array else (now or blank(kind))
        inner = odd_messages(first, tuple(rest))
        return [replace(message, **{name: (each,) if is_array else each}) for each in inner]
    odd: list[Any] = [None] if nullable else []
    if is_array:
        item = now[0] if now else (blank(kind) if is_dataclass(kind) else None)
        if item is None:
            odd += [
                (each,) for each in ODD_VALUES[column.metadata["kafka_type"]] if each is not None
            ]
            item = odd[-1][0] if odd[-1] else None
        odd += [(), (item,) * 2, (item,) * MANY]
    else:
        odd += ODD_VALUES[column.metadata["kafka_type"]]
    return [replace(message, **{name: each}) for each in odd]


def ask(driver: Working, key: int, version: int, message: Any, client_id: str) -> bool:
    """Carry a request from its bytes to the bytes of its answer; False: its connection closes."""
    frame = encode_request(key, version, 7, client_id, message)[4:]
    try:
        decoded = decode_request(frame)
    except BadFrame:
        return False
    refusal = error_response(key, decoded.message, ErrorCode.unknown_server_error, "why", version)
    encode_response(key, version, 7, refusal)
    driver.tickets += 1
    ticket = driver.tickets
    driver.host.receive(
        Request(
            ticket=ticket,
            api_key=key,
            api_version=version,
            client=ClientInfo(client_id, "/127.0.0.1"),
            message=decoded.message,
        ),
        driver.now,
    )
    driver.pump()
    driver.wait(10)
    driver.work()
    if ticket in driver.replies:
        encode_response(key, version, 7, driver.replies[ticket])
    return True


def ready_driver() -> Working:
    driver = working_driver()
    driver.__dict__["member"] = classic_member(driver, "g")
    driver.ask(68, 1, beat("modern", "m1"))
    driver.work()
    return driver


def check_well(driver: Working) -> None:
    driver.wait(61_000)
    driver.work()
    assert {partition.state for partition in driver.host.partitions} == {"Leader"}
    check_memory_is_the_log(driver)


@pytest.mark.parametrize("version_of", ["newest", "oldest"])
@pytest.mark.parametrize("key", list(API), ids=lambda key: API[key].name)
def test_no_value_of_any_field_ends_anything(key: int, version_of: str) -> None:
    api = API[key]
    version = api.max_version if version_of == "newest" else api.min_version
    driver = ready_driver()
    for path in paths(api.request):
        for message in odd_messages(base(key, driver), path):
            try:
                frame = encode_request(key, version, 7, "client", message)
            except Exception:
                continue
            assert frame
            ask(driver, key, version, message, "client")
            assert driver.notes == [], path
        if key in (13, 42):
            driver.__dict__["member"] = classic_member(driver, "g")
    check_well(driver)
    assert driver.notes == []


@pytest.mark.parametrize("client_id", [LONGEST, "é" * (TEXT_BYTES_MAX // 2), "", "\0"])
@pytest.mark.parametrize("instance", [None, LONGEST])
def test_a_member_with_the_longest_names_is_a_member(client_id: str, instance: str | None) -> None:
    """A member id is made of the client's or the instance's id, and 37 characters more."""
    driver = ready_driver()
    group = LONGEST
    join = replace(
        asks.join(group, instance=instance, metadata=SUBSCRIPTION), protocol_type=LONGEST
    )
    version = 3 if instance is None else 5  # before, or static: no member id is asked for first
    assert ask(driver, 11, version, join, client_id)
    [joined] = [each for each in driver.replies.values() if isinstance(each, m.JoinGroupResponse)][
        -1:
    ]
    assert joined.error_code is ErrorCode.none
    assert len(joined.member_id.encode()) <= TEXT_BYTES_MAX
    sync = replace(
        asks.sync(group, joined.generation_id, joined.member_id, {joined.member_id: b"mine"}),
        protocol_type=None,
        protocol_name=None,
        group_instance_id=instance,
    )
    assert ask(driver, 14, 3, sync, client_id)
    assert driver.replies[driver.tickets].error_code is ErrorCode.none
    assert driver.notes == []
    check_memory_is_the_log(driver)


def test_a_member_with_too_many_bytes_is_refused_and_its_group_goes_on() -> None:
    """RECORD_TOO_LARGE is UNKNOWN_SERVER_ERROR to a member, as in Kafka."""
    driver = ready_driver()
    member, generation = driver.__dict__["member"]
    join = asks.join("g", instance="new", metadata=b"x" * (MEMBER_BYTES_MAX + 1))
    assert ask(driver, 11, 9, join, "client")
    assert driver.replies[driver.tickets].error_code is ErrorCode.unknown_server_error
    answer = driver.ask(12, 4, asks.heartbeat("g", generation, member, "i"))
    assert answer.error_code is ErrorCode.none
    check_memory_is_the_log(driver)


def test_an_assignment_with_too_many_bytes_fails_its_group_and_no_other() -> None:
    driver = ready_driver()
    member, generation = classic_member(driver, "innocent")
    ticket = driver.give(11, 9, asks.join("large", instance="i", metadata=SUBSCRIPTION))
    driver.pump()
    driver.wait(10)
    joined = driver.replies[ticket]
    large = {joined.member_id: b"x" * GROUP_BYTES_MAX}
    driver.give(14, 5, asks.sync("large", joined.generation_id, joined.member_id, large))
    sync_ticket = driver.tickets
    driver.give(8, 8, asks.commit("other", 5))
    driver.pump()
    assert driver.replies[sync_ticket].error_code is ErrorCode.unknown_server_error
    assert driver.replies[driver.tickets].topics[0].partitions[0].error_code is ErrorCode.none
    [note] = driver.notes
    assert note.startswith("SyncGroup 5 from client (/127.0.0.1) for group large failed: TooLarge")
    answer = driver.ask(12, 4, asks.heartbeat("innocent", generation, member, "i"))
    assert answer.error_code is ErrorCode.none
    check_memory_is_the_log(driver)


def test_commits_with_too_many_bytes_are_refused_by_their_size() -> None:
    driver = working_driver(configs={"offset.metadata.max.bytes": "32767"})
    create = asks.create_topics("large", partitions=GROUP_BYTES_MAX // 32_000 + 1)
    driver.ask(19, 7, create)
    partitions = tuple(
        m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata="x" * 32_767
        )
        for index in range(create.topics[0].num_partitions)
    )
    commit = asks.commit("g", 5, topic="large")
    commit = replace(commit, topics=(replace(commit.topics[0], partitions=partitions),))
    codes = {each.error_code for each in driver.ask(8, 8, commit).topics[0].partitions}
    assert codes == {ErrorCode.invalid_commit_offset_size}
    assert asks.offsets_in(driver.ask(9, 8, asks.fetch("g"))) == {"g": {}}
    check_memory_is_the_log(driver)
