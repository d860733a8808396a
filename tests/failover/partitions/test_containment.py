"""No exception while one request, timer or result is handled ends a process.

Handlers of the real group shard are planted with failures; the group that they were about becomes
what the log says, and every other group goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from failover.catalogue import catalog
from failover.partitions import containment
from failover.partitions.containment import rows_of
from failover.partitions.loading import Loading
from protocol.groups.group_types import TABLES
from protocol.groups.offsets import expiry as offset_expiry
from protocol.groups.share import initialization
from protocol.groups.timers import TimerKind
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.streams_messages import (
    StreamsConfig,
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopicInfo,
    StreamsTopology,
)
from storage.batch import Batch
from storage.log import AppendBatch, MemoryLog
from tests.effort import examples
from tests.failover.apis import asks
from tests.failover.hosts import memory_driver
from tests.failover.working import (
    SUBSCRIPTION,
    Working,
    beat,
    check_memory_is_the_log,
    classic_member,
    context,
    working_driver,
)

UNKNOWN = ErrorCode.unknown_server_error


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Replace a handler of one table by one that raises: before or after the real one."""

    def plant(table: str, key: Any, group: str, when: str = "after") -> None:
        handlers = dict(getattr(TABLES, table))
        real = handlers[key]

        def broken(ctx: Any, event: Any, now: int) -> None:
            about = getattr(event, "group_id", None)
            if about is None:
                about = getattr(getattr(event, "message", None), "group_id", None)
            if about != group:
                real(ctx, event, now)
                return
            if when == "after":
                real(ctx, event, now)
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(TABLES, table, {**handlers, key: broken})

    yield plant


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("api_key", [8, 11, 12, 13, 14, 68])
def test_a_request_that_raises_fails_alone(
    plant: Callable[..., None], api_key: int, when: str
) -> None:
    driver = working_driver()
    innocent, generation = classic_member(driver, "innocent")
    member, own_generation = classic_member(driver, "g")
    driver.ask(68, 1, beat("modern", "m1"))
    driver.work()
    driver.ask(8, 8, asks.commit("g", 5, generation=own_generation, member_id=member, instance="i"))
    plant("handlers", api_key, "modern" if api_key == 68 else "g", when)
    requests: dict[int, Any] = {
        8: asks.commit("g", 6, generation=own_generation, member_id=member, instance="i"),
        11: asks.join("g", instance="i", metadata=SUBSCRIPTION),
        12: asks.heartbeat("g", own_generation, member, "i"),
        13: m.LeaveGroupRequest(
            group_id="g",
            members=(m.MemberIdentity(member_id=member, group_instance_id=None, reason=None),),
        ),
        14: replace(asks.sync("g", own_generation, member, {}), group_instance_id="i"),
        68: beat("modern", "m2"),
    }
    version = {8: 8, 11: 9, 12: 4, 13: 5, 14: 5, 68: 1}[api_key]
    for _ in range(20):
        answer = driver.ask(api_key, version, requests[api_key])
        code = answer.topics[0].partitions[0].error_code if api_key == 8 else answer.error_code
        assert code is UNKNOWN
        other = driver.ask(12, 4, asks.heartbeat("innocent", generation, innocent, "i"))
        assert other.error_code is ErrorCode.none
        assert driver.host.partitions[1].state == "Leader"
    assert len(driver.notes) == 20
    check_memory_is_the_log(driver)
    if api_key != 12:
        beating = driver.ask(12, 4, asks.heartbeat("g", own_generation, member, "i"))
        assert beating.error_code is ErrorCode.none
    offsets = asks.offsets_in(driver.ask(9, 8, asks.fetch("g")))
    assert offsets == {"g": {("t", 0): 5}}


def test_a_request_that_waited_for_the_lease_and_raises_is_answered_once(
    plant: Callable[..., None],
) -> None:
    driver = working_driver()
    member, generation = classic_member(driver, "g")
    plant("handlers", 12, "g")
    partition = driver.host.partitions[1]
    lease_until_ms, partition.leadership.lease_until_ms = partition.leadership.lease_until_ms, 0
    ticket = driver.give(12, 4, asks.heartbeat("g", generation, member, "i"))
    commit = asks.commit("g", 5, generation=generation, member_id=member, instance="i")
    behind = driver.give(8, 8, commit)  # it waits in the group that fails before its turn comes
    assert [request.ticket for request, _ in partition.deferred] == [ticket, behind]
    partition.leadership.lease_until_ms = lease_until_ms
    driver.host.peer_up(1, driver.now)  # as good as any reason to look at it
    driver.pump()
    assert driver.replies[ticket].error_code is UNKNOWN
    assert driver.replies[behind].topics[0].partitions[0].error_code is ErrorCode.none
    assert not partition.replies.open


def test_a_group_is_built_again_from_what_was_committed_a_moment_ago() -> None:
    """The replica knows of the commit, and what is gathered for the state does not go so far."""
    log = MemoryLog()
    rows = [(b"g1", b"a"), (b"g2", b"b"), (b"g1", b"c")]
    for offset, row in enumerate(rows):
        log.write([AppendBatch(0, Batch(offset, 1, 0, (row,)))], sync=True)
    replica = SimpleNamespace(high_watermark=2, uncommitted=(), appended_since=lambda _: ())
    loading = Loading(0, log)
    assert loading.offset < replica.high_watermark
    found = list(rows_of(0, log, replica, loading, (b"g1",)))  # type: ignore[arg-type]
    assert found == [(b"g1", b"a"), (b"g1", b"c")]


def test_who_reads_all_groups_is_asked_again_when_one_of_them_can_not_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 100)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 100)
    driver = working_driver()
    driver.ask(8, 8, asks.commit("small", 1))
    commit, listing, described = (
        driver.give(8, 8, asks.commit("g" * 200, 1)),
        driver.give(16, 4, m.ListGroupsRequest(states_filter=(), types_filter=())),
        driver.give(15, 5, m.DescribeGroupsRequest(
            groups=("small",), include_authorized_operations=False
        )),
    )  # fmt: skip
    driver.pump()
    (refused,) = driver.replies[commit].topics[0].partitions
    assert refused.error_code is ErrorCode.invalid_commit_offset_size
    assert driver.replies[listing].error_code is ErrorCode.coordinator_not_available
    assert driver.replies[described].groups[0].error_code is ErrorCode.none
    check_memory_is_the_log(driver)
    again = driver.ask(16, 4, m.ListGroupsRequest(states_filter=(), types_filter=()))
    assert [each.group_id for each in again.groups] == ["small"]


def test_a_request_that_is_too_large_fails_alone_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 600)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 600)
    driver = working_driver()
    driver.ask(8, 8, asks.commit("g", 1))

    def committed(offset: int, partition_index: int, metadata: str = "") -> Any:
        request = asks.commit("g", offset, partition=partition_index)
        (topic,) = request.topics
        (partition,) = topic.partitions
        partition = replace(partition, committed_metadata=metadata)
        return replace(request, topics=(replace(topic, partitions=(partition,)),))

    before, large, after = (
        driver.give(8, 8, committed(2, 0)),
        driver.give(8, 8, committed(3, 1, "x" * 700)),
        driver.give(8, 8, committed(4, 0)),
    )
    driver.pump()
    codes = [
        driver.replies[ticket].topics[0].partitions[0].error_code
        for ticket in (before, large, after)
    ]
    assert codes == [ErrorCode.none, ErrorCode.invalid_commit_offset_size, ErrorCode.none]
    assert asks.offsets_in(driver.ask(9, 8, asks.fetch("g"))) == {"g": {("t", 0): 4}}
    assert len(driver.notes) == 1
    check_memory_is_the_log(driver)


def test_a_heartbeat_does_not_fail_with_a_request_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 600)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 600)
    driver = working_driver()
    driver.ask(68, 1, beat("modern", "m1"))
    driver.work()
    beats = [
        driver.give(68, 1, beat("modern", "m2")),
        driver.give(68, 1, beat("modern", "m3", instance_id="i" * 40_000)),
        driver.give(68, 1, beat("modern", "m4", rack_id="x" * 700)),
    ]
    driver.pump()
    codes = [driver.replies[ticket].error_code for ticket in beats]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request, UNKNOWN]


def streams_beat(group: str, subtopology: StreamsSubtopology) -> StreamsGroupHeartbeatRequest:
    return blank(
        StreamsGroupHeartbeatRequest,
        group_id=group,
        member_id="member",
        rebalance_timeout=timedelta(seconds=60),
        topology=StreamsTopology(epoch=1, subtopologies=(subtopology,)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="process",
    )


def reading(name: str, changelog: str) -> StreamsSubtopology:
    topic = blank(
        StreamsTopicInfo, name="changelog", topic_configs=(StreamsConfig(key="k", value=changelog),)
    )
    return blank(
        StreamsSubtopology,
        subtopology_id=name,
        source_topics=("t",),
        state_changelog_topics=(topic,),
    )


def test_a_topology_that_is_too_large_to_write_is_refused_as_by_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 20_000)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 20_000)
    driver = working_driver()
    beside = driver.give(88, 0, streams_beat("beside", reading("0", "small")))
    large = driver.give(88, 0, streams_beat("large", reading("0", "x" * 30_000)))
    driver.pump()
    assert driver.replies[large].error_code is UNKNOWN
    assert driver.replies[beside].error_code is ErrorCode.none
    (note,) = driver.notes
    assert "TooLarge" in str(note)
    listing = m.ListGroupsRequest(states_filter=(), types_filter=())
    assert [each.group_id for each in driver.ask(16, 4, listing).groups] == ["beside"]
    again = driver.ask(88, 0, streams_beat("large", reading("0", "small")))
    assert again.error_code is ErrorCode.none
    check_memory_is_the_log(driver)


def share_beat(group: str) -> m.ShareGroupHeartbeatRequest:
    return blank(
        m.ShareGroupHeartbeatRequest,
        group_id=group,
        member_id="member",
        member_epoch=0,
        subscribed_topic_names=("many",),
    )


def test_a_list_of_share_partitions_that_is_too_large_to_write_is_refused_as_by_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver()
    monkeypatch.setattr(initialization, "ASKED_MAX", 3_000)
    driver.ask(19, 7, asks.create_topics("many", partitions=3_000))
    monkeypatch.setattr(containment, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 10_000)
    driver.ask(8, 8, asks.commit("beside", 1))
    refused = driver.ask(76, 1, share_beat("g"))
    assert (refused.error_code, refused.member_id) == (UNKNOWN, None)
    assert len(driver.notes) == 1
    described = driver.ask(77, 1, blank(m.ShareGroupDescribeRequest, group_ids=("g",)))
    assert described.groups[0].error_code is ErrorCode.group_id_not_found
    check_memory_is_the_log(driver)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 1 << 20)
    assert driver.ask(76, 1, share_beat("g")).error_code is ErrorCode.none


def test_a_share_group_whose_later_list_is_too_large_keeps_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list is written by timers, too: then nobody is refused, and it is tried again later."""
    driver = working_driver()
    monkeypatch.setattr(initialization, "ASKED_MAX", 3_000)
    driver.ask(19, 7, asks.create_topics("many", partitions=3_000))
    real = initialization.initialized

    def with_less_room(*arguments: Any) -> None:
        monkeypatch.setattr(containment, "BATCH_BYTES", 10_000)
        monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 10_000)
        real(*arguments)

    monkeypatch.setattr(initialization, "initialized", with_less_room)
    assert driver.ask(76, 1, share_beat("g")).error_code is ErrorCode.none
    driver.wait(1)
    assert driver.notes
    assert not context(driver).groups["g"].state_topics.initialized
    (topic,) = driver.ask(8, 8, asks.commit("beside", 1)).topics
    assert topic.partitions[0].error_code is ErrorCode.none
    check_memory_is_the_log(driver)
    monkeypatch.setattr(initialization, "initialized", real)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 1 << 20)
    assert driver.ask(76, 1, share_beat("g")).error_code is ErrorCode.none
    driver.wait(35_000)  # the retry interval is 30 s
    state = context(driver).groups["g"].state_topics
    assert not state.initializing
    assert [len(each.partitions) for each in state.initialized.values()] == [3_000]
    check_memory_is_the_log(driver)


def test_an_assignment_that_is_too_large_fails_with_the_members_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver()
    asked = [
        driver.give(11, 9, asks.join("g", instance=f"i{n}", metadata=SUBSCRIPTION))
        for n in range(2)
    ]
    driver.pump()
    driver.wait(0)
    joined = [driver.replies[ticket] for ticket in asked]
    leader = next(each for each in joined if each.leader == each.member_id)
    other = next(each for each in joined if each.leader != each.member_id)
    monkeypatch.setattr(containment, "BATCH_BYTES", 2_000)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 2_000)
    shares = {leader.member_id: b"x" * 5_000}
    tickets = [
        driver.give(14, 5, asks.sync("g", leader.generation_id, other.member_id, {})),
        driver.give(14, 5, asks.sync("g", leader.generation_id, leader.member_id, shares)),
    ]
    driver.pump()
    assert [driver.replies[ticket].error_code for ticket in tickets] == [UNKNOWN, UNKNOWN]
    assert len(driver.notes) == 2


def test_requests_that_are_handled_again_are_refused_while_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 20_000)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 20_000)
    driver = working_driver()
    driver.host.partitions[1].stuck = ErrorCode.coordinator_not_available
    commits = {driver.give(8, 8, asks.commit("o" * 12_000, 5, partition=n)) for n in (0, 1)}
    effects = driver.host.drain(driver.now)
    assert effects is not None
    assert {reply.ticket for reply in effects.replies} == commits


def test_a_refusal_after_a_change_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = working_driver()
    member, generation = classic_member(driver, "g")
    real = TABLES.handlers[8]

    def late(ctx: Any, request: Any, now: int) -> None:
        real(ctx, request, now)
        raise KafkaError(ErrorCode.illegal_generation)

    monkeypatch.setattr(TABLES, "handlers", {**TABLES.handlers, 8: late})
    commit = asks.commit("g", 6, generation=generation, member_id=member, instance="i")
    assert driver.ask(8, 8, commit).topics[0].partitions[0].error_code is UNKNOWN
    assert context(driver).offsets == {}


def test_a_timer_that_raises_neither_kills_nor_spins(plant: Callable[..., None]) -> None:
    driver = working_driver()
    classic_member(driver, "g")
    classic_member(driver, "innocent")
    plant("timeouts", TimerKind.SESSION, "g")
    driver.wait(300_000)
    assert context(driver).groups["innocent"].metadata.members == ()
    assert len(context(driver).groups["g"].metadata.members) == 1
    assert 1 <= len(driver.notes) <= 10
    check_memory_is_the_log(driver)


@pytest.mark.parametrize("kind", [TimerKind.REFRESH, TimerKind.ASSIGNMENT, TimerKind.TARGET])
def test_a_timer_of_a_consumer_group_that_raises_does_not_spin(
    plant: Callable[..., None], kind: TimerKind
) -> None:
    driver = working_driver()
    plant("timeouts", kind, "modern", "before")
    epochs = {}
    for name in ("m1", "m2"):
        epochs[name] = driver.ask(68, 1, beat("modern", name)).member_epoch
        driver.work()
        driver.wait(1_500)
    for _ in range(10):
        driver.wait(1_000)
        driver.work()
    assert len(driver.notes) <= 30
    assert driver.host.partitions[1].state == "Leader"
    check_memory_is_the_log(driver)


def test_a_result_of_an_assignor_that_raises_fails_its_group_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver()
    driver.ask(68, 1, beat("innocent", "m1"))
    driver.work()
    events = dict(TABLES.events)
    kind = next(each for each in events if each.__name__ == "AssignmentComputed")
    real = events[kind]

    def broken(ctx: Any, event: Any, now: int) -> None:
        real(ctx, event, now)
        if event.group_id == "g":
            raise ZeroDivisionError("a bug")

    monkeypatch.setattr(TABLES, "events", {**events, kind: broken})
    driver.ask(68, 1, beat("g", "m1"))
    driver.work()
    assert [note.split(" failed")[0] for note in driver.notes] == ["AssignmentComputed for group g"]
    assert driver.ask(68, 1, beat("innocent", "m1", 1)).error_code is ErrorCode.none
    check_memory_is_the_log(driver)


def test_a_group_whose_offsets_can_not_be_looked_at_does_not_keep_the_others_from_expiring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver()
    for group in ("a", "g", "z"):
        driver.ask(8, 8, asks.commit(group, 5))
    real = offset_expiry._expire_group

    def broken(ctx: Any, group_id: str, now: int) -> None:
        real(ctx, group_id, now)
        if group_id == "g":
            raise ZeroDivisionError("a bug")

    monkeypatch.setattr(offset_expiry, "_expire_group", broken)
    driver.wait(8 * 24 * 3600 * 1000)
    assert set(context(driver).offsets) == {"g"}
    check_memory_is_the_log(driver)
    monkeypatch.undo()
    driver.wait(3600 * 1000)
    assert not context(driver).offsets


def test_a_change_of_the_catalogue_that_raises_half_way_leaves_it_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = working_driver()
    real = catalog.HANDLERS[19]

    def broken(*arguments: Any) -> None:
        real(*arguments)
        raise ZeroDivisionError("a bug")

    create = asks.create_topics("u")
    monkeypatch.setattr(catalog, "HANDLERS", {**catalog.HANDLERS, 19: broken})
    answer = driver.ask(19, 7, create)
    assert [each.error_code for each in answer.topics] == [UNKNOWN]
    assert driver.host.view.catalog.topics.by_name("u") is None
    assert driver.host.view.catalog.topics.by_name("t") is not None
    monkeypatch.undo()
    assert [each.error_code for each in driver.ask(19, 7, create).topics] == [ErrorCode.none]


@pytest.mark.parametrize("seed", range(examples(25)))
def test_memory_is_what_the_log_says_whatever_raises(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers, timers and results raise at random, before or after they have done their work."""
    rng = random.Random(seed)
    driver = working_driver()
    for table in ("handlers", "timeouts", "events"):
        planted = {
            key: handler
            if getattr(key, "__name__", "") in ("Elected", "Resigned", "TimersDue")
            else sometimes(rng, handler)
            for key, handler in getattr(TABLES, table).items()
        }
        monkeypatch.setattr(TABLES, table, planted)
    talk_at_random(driver, rng)
    driver.pump()
    assert driver.notes
    assert {partition.state for partition in driver.host.partitions} == {"Leader"}
    monkeypatch.undo()
    check_memory_is_the_log(driver)
    driver.wait(120_000)
    driver.work()
    assert driver.ask(8, 8, asks.commit("c", 1)).topics[0].partitions[0].error_code == 0


def talk_at_random(driver: Working, rng: random.Random) -> None:
    known: dict[tuple[str, str], int] = {}

    def heartbeat(group: str, member: str) -> None:
        answer = driver.ask(68, 1, beat(group, member, known.get((group, member), 0)))
        if answer is not None:
            known[group, member] = max(answer.member_epoch, 0)

    kinds: tuple[Callable[[str, str], Any], ...] = (
        heartbeat,
        heartbeat,
        heartbeat,
        lambda group, member: driver.give(
            11, 9, asks.join(group, instance=member, metadata=SUBSCRIPTION)
        ),
        lambda group, _: driver.ask(8, 8, asks.commit(group, rng.randrange(100))),
        lambda *_: driver.ask(42, 2, m.DeleteGroupsRequest(groups_names=("a", "b"))),
        lambda *_: driver.wait(rng.choice((0, 100, 5_000, 50_000))),
        lambda *_: driver.work(rng.randrange(4)),
    )
    for _ in range(120):
        rng.choice(kinds)(rng.choice(("a", "b")), rng.choice(("m1", "m2")))
        if rng.random() < 0.5:
            driver.pump()


def sometimes(rng: random.Random, real: Callable[..., None]) -> Callable[..., None]:
    def broken(*arguments: Any) -> None:
        draw = rng.random()
        if draw < 0.1:
            raise ZeroDivisionError("a bug before")
        real(*arguments)
        if draw > 0.85:
            raise ZeroDivisionError("a bug after")

    return broken


def test_a_driver_without_failures_notes_nothing() -> None:
    driver = memory_driver()
    driver.ask(8, 8, asks.commit("g", 5))
    assert driver.notes == []
