"""A node whose disk is full answers what needs no record, and loses nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from failover.effects import Effects
from failover.full_disk import RETRY_MS, Backlog, TurnWrites
from failover.identity import CATALOG_PARTITION
from protocol.groups.effects import ClientInfo, Request
from protocol.wire import messages as m
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from storage.batch import Batch
from storage.log import AppendBatch, FullDiskError, MemoryLog, SaveVote, Write
from storage.messages import Appended, Voted
from tests.failover.apis import asks
from tests.failover.clusters import Cluster, Member
from tests.failover.hosts import Driver
from tests.failover.test_host import with_topic


class SmallLog(MemoryLog):
    """A log in memory that can be full."""

    is_full = False

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        if self.is_full:
            raise FullDiskError("data: there is no room on the disk.")
        super().write(writes, sync)


class LogOnly:
    """A log's port of which nothing is synced."""

    def __init__(self, log: SmallLog) -> None:
        self._log = log

    def write(self, writes: Sequence[Write]) -> None:
        self._log.write(writes, sync=False)

    def sync(self) -> bool:
        return False


def append(offset: int) -> AppendBatch:
    return AppendBatch(0, Batch(offset, 1, 0, ((b"key", b"value"),)))


def request(api_key: int, message: Any) -> Request:
    return Request(
        ticket=1,
        api_key=api_key,
        api_version=0,
        client=ClientInfo("c", "/127.0.0.1"),
        message=message,
    )


@pytest.fixture
def log() -> SmallLog:
    return SmallLog()


def unit(number: int, *writes: Write, sync: bool = False) -> Effects:
    return Effects(number=number, writes=list(writes), sync=sync)


def numbers(units: Sequence[TurnWrites]) -> list[int]:
    return [each.number for each in units]


def test_what_is_written_is_reported_as_written(log: SmallLog) -> None:
    backlog = Backlog(LogOnly(log))
    assert backlog.write(Effects(), 0) == []
    assert numbers(backlog.write(unit(3, append(0), sync=True), 0)) == [3]
    assert (log.stored(0).end_offset, backlog.is_full) == (1, False)


def test_writes_wait_in_their_order_until_there_is_room(log: SmallLog) -> None:
    backlog = Backlog(LogOnly(log))
    log.is_full = True
    first = unit(1, append(0), sync=True)
    assert backlog.write(first, 1_000) == []
    assert first.notes == [
        "data: there is no room on the disk. What needs no record is answered as ever."
    ]
    second = unit(2, append(1), SaveVote(0, 2, 0, 0))
    assert backlog.write(second, 1_010) == []
    assert second.notes == [], "it is said once"
    log.is_full = False
    assert backlog.retry(1_000 + RETRY_MS - 1) == []
    assert [(each.number, each.sync) for each in backlog.retry(1_000 + RETRY_MS)] == [
        (1, True), (2, False),
    ]  # fmt: skip
    assert (log.stored(0).end_offset, log.stored(0).epoch) == (2, 2)
    assert not backlog.is_full
    assert numbers(backlog.write(unit(3, append(2)), 2_000)) == [3]
    assert log.stored(0).end_offset == 3


def test_it_is_tried_again_in_turn_while_the_disk_stays_full(log: SmallLog) -> None:
    backlog = Backlog(LogOnly(log))
    log.is_full = True
    backlog.write(unit(1, append(0)), 0)
    assert backlog.retry(RETRY_MS) == []
    assert backlog.retry_ms == 2 * RETRY_MS


def test_nothing_is_promised_to_other_nodes_that_the_disk_does_not_hold(
    disks: "SmallDisks",
) -> None:
    """A standby without room goes on answering its leader, and acknowledges none of its records."""
    leader = disks.leader()
    standby = next(each for each in disks.members if each is not leader)
    assert isinstance(standby.log, SmallLog)
    disks.fill(standby.node_id)
    has = standby.log.stored(0).end_offset
    disks.said.clear()
    commit_to(disks, "g", 1)
    disks.run(1_000)
    answers = [
        message
        for sender, messages in disks.said
        if sender == standby.node_id
        for message in messages
        if isinstance(message, Appended) and message.partition == 0
    ]
    assert answers and all(answer.end_offset <= has for answer in answers)
    assert not any(isinstance(m, Voted) and m.granted for _, said in disks.said for m in said)
    assert disks.leader() is leader


def steady(**changes: Any) -> m.ConsumerGroupHeartbeatRequest:
    unchanged = m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=3,
        rebalance_timeout=timedelta(milliseconds=-1),
        subscribed_topic_names=None,
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=None,
    )
    return replace(unchanged, **changes)


@pytest.mark.parametrize(
    ("api_key", "message", "needs"),
    [
        (8, asks.commit("g", 5), True),
        (11, asks.join("g"), True),
        (12, asks.heartbeat("g", 1, "m"), False),
        (14, asks.sync("g", 1, "m"), True),
        (68, steady(), False),
        (68, steady(member_epoch=0), True),
        (68, steady(member_epoch=-1), True),
        (68, steady(subscribed_topic_names=("t",)), True),
        (68, steady(topic_partitions=()), True),
    ],
    ids=[
        "commit", "join", "heartbeat", "sync", "steady", "joins", "leaves", "subscribes", "revokes",
    ],
)  # fmt: skip
def test_heartbeats_and_reads_need_no_record(api_key: int, message: object, needs: bool) -> None:
    assert API[api_key].writes(message) is needs


def test_what_needs_a_record_is_refused_while_the_disk_is_full_and_only_then(log: SmallLog) -> None:
    backlog = Backlog(LogOnly(log))
    asked = request(8, asks.commit("g", 5))
    assert backlog.refusal(asked) is None
    log.is_full = True
    backlog.write(unit(1, append(0)), 0)
    reply = backlog.refusal(asked)
    assert reply is not None and reply.ticket == 1
    assert isinstance(reply.message, m.OffsetCommitResponse)
    code = reply.message.topics[0].partitions[0].error_code
    assert code is ErrorCode.coordinator_not_available
    assert backlog.refusal(request(12, asks.heartbeat("g", 1, "m"))) is None
    log.is_full = False
    assert backlog.retry(RETRY_MS)
    assert backlog.refusal(asked) is None


def full_host() -> tuple[Driver, SmallLog]:
    """Return a host that has a topic, one commit, and then a full disk."""
    log = SmallLog()
    driver = with_topic(Driver(log).load())
    assert commit_code(driver, "g", 1) is ErrorCode.none
    log.is_full = True
    return driver, log


def commit_code(driver: Driver, group: str, offset: int) -> ErrorCode | None:
    answer = driver.ask(8, 9, asks.commit(group, offset))
    return None if answer is None else answer.topics[0].partitions[0].error_code


def offset_of(driver: Driver, group: str) -> int:
    return asks.offsets_in(driver.ask(9, 9, asks.fetch(group)))[group]["t", 0]


def test_a_request_that_needs_a_record_fails_at_once_on_a_full_disk() -> None:
    driver, log = full_host()
    assert commit_code(driver, "g", 2) is ErrorCode.coordinator_not_available
    assert driver.host.disk_is_full
    assert commit_code(driver, "g", 3) is ErrorCode.coordinator_not_available
    answer = driver.ask(9, 9, asks.fetch("g"))
    assert answer.groups[0].error_code is ErrorCode.coordinator_not_available, "3 or 1, later"
    assert driver.ask(9, 9, asks.fetch("other")).groups[0].error_code is ErrorCode.none
    log.is_full = False
    driver.now += RETRY_MS
    driver.pump()
    assert not driver.host.disk_is_full
    assert offset_of(driver, "g") == 3, "what was under way was written after all"
    assert commit_code(driver, "g", 4) is ErrorCode.none
    assert offset_of(driver.restarted(log).load(), "g") == 4


def test_members_go_on_while_the_disk_is_full() -> None:
    log = SmallLog()
    driver = with_topic(Driver(log).load())
    first = driver.ask(11, 9, asks.join("g"))
    joined = driver.ask(11, 9, asks.join("g", first.member_id))
    member, generation = joined.member_id, joined.generation_id
    driver.ask(14, 5, asks.sync("g", generation, member, {member: b"a"}))
    log.is_full = True
    assert commit_code(driver, "other", 2) is ErrorCode.coordinator_not_available
    for _ in range(10):
        beat = driver.ask(12, 4, asks.heartbeat("g", generation, member))
        assert beat.error_code is ErrorCode.none
        driver.wait(10_000)
    log.is_full = False
    driver.now += RETRY_MS
    driver.pump()
    beat = driver.ask(12, 4, asks.heartbeat("g", generation, member))
    assert beat.error_code is ErrorCode.none, "the member has its session still"


class SmallDisks(Cluster):
    """Hosts whose disks can be full."""

    def start(self, node_id: int, *, formed: bool = False) -> None:
        member = self.members[node_id]
        if not isinstance(member.log, SmallLog):
            member.log = SmallLog()
        super().start(node_id, formed=formed)

    def fill(self, *node_ids: int) -> None:
        """Leave no space on these nodes, and on no others."""
        for member in self.members:
            assert isinstance(member.log, SmallLog)
            member.log.is_full = member.node_id in node_ids


@pytest.fixture
def disks() -> SmallDisks:
    cluster = SmallDisks()
    cluster.register()
    cluster.ask(cluster.leader(CATALOG_PARTITION), 19, 7, asks.create_topics("t"))
    cluster.run(1_000)
    return cluster


def commit_to(cluster: Cluster, group: str, offset: int) -> ErrorCode:
    """Commit until it is taken, or refused for good; return the last answer."""
    answer = cluster.ask(cluster.leader(), 8, 9, asks.commit(group, offset))
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


def static_member(cluster: Cluster) -> m.HeartbeatRequest:
    leader = cluster.leader()
    joined = cluster.ask(leader, 11, 9, asks.join("g", instance="i"))
    shares = {joined.member_id: b"mine"}
    sync = asks.sync("g", joined.generation_id, joined.member_id, shares)
    assert cluster.ask(leader, 14, 5, sync).error_code is ErrorCode.none
    return asks.heartbeat("g", joined.generation_id, joined.member_id, "i")


def test_heartbeats_go_on_under_the_same_leader_while_every_disk_is_full(disks: SmallDisks) -> None:
    beat = static_member(disks)
    leader = disks.leader()
    disks.fill(0, 1, 2)
    assert commit_to(disks, "other", 1) is ErrorCode.coordinator_not_available
    for _ in range(40):
        disks.run(200)
        ticket = disks.send(leader, 12, 4, beat)
        disks.run(60)
        assert leader.replies[ticket].error_code is ErrorCode.none
    assert disks.leaders(0) == [leader]
    disks.fill()
    disks.run(1_000)
    assert commit_to(disks, "other", 2) is ErrorCode.none
    assert disks.leaders(0) == [leader]


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_full_leader_hands_over_to_a_replica_that_has_shown_that_it_has_room(
    disks: SmallDisks, is_asked: bool
) -> None:
    beat = static_member(disks)
    old = disks.leader()
    disks.fill(old.node_id)
    if is_asked:
        assert commit_to(disks, "other", 1) is ErrorCode.coordinator_not_available
    else:  # what could not be written is no record: nobody shows room by acknowledging it
        vote = SaveVote(0, disks.row(old).epoch, old.node_id, 0)
        old.host._state.effects.writes.append(vote)
        disks.pump(old)
    took = disks.until(lambda: disks.leaders(0) not in ([], [old]), "another leader")
    assert took <= 600
    assert commit_to(disks, "other", 2) is ErrorCode.none
    assert disks.ask(disks.leader(), 12, 4, beat).error_code is ErrorCode.none


def test_a_full_leader_stays_when_too_few_have_room_to_elect_another(disks: SmallDisks) -> None:
    beat = static_member(disks)
    leader = disks.leader()
    other = next(each for each in disks.members if each is not leader)
    disks.fill(leader.node_id, other.node_id)
    assert commit_to(disks, "other", 1) is ErrorCode.coordinator_not_available
    for _ in range(20):
        disks.run(200)
        ticket = disks.send(leader, 12, 4, beat)
        disks.run(60)
        assert leader.replies[ticket].error_code is ErrorCode.none
    disks.fill(leader.node_id)
    disks.until(lambda: disks.leaders(0) not in ([], [leader]), "another leader")


def commit_in(cluster: Cluster, group: str) -> int | None:
    """Return the offset that the leader knows of a group, None when it knows none."""
    fetched = asks.offsets_in(cluster.ask(cluster.leader(), 9, 9, asks.fetch(group)))
    return fetched[group].get(("t", 0))


def lead(cluster: Cluster, member: Member) -> None:
    """Have a host lead partition 0."""

    def leads() -> bool:
        leader = cluster.leader()
        if leader is not member:
            leader.host.transfer(0, member.node_id, cluster.now)
            cluster.pump(leader)
        return cluster.leaders(0) == [member]

    cluster.until(leads, "the leader that is wanted")


def test_what_waits_to_be_truncated_on_a_full_disk_is_not_loaded(disks: SmallDisks) -> None:
    """A deposed leader is read again only when its log is what its replica takes it for."""
    assert commit_to(disks, "kept", 1) is ErrorCode.none
    old = disks.leader()
    disks.cut(old.node_id)
    for number in range(6):
        disks.send(old, 8, 9, asks.commit(f"lost-{number}", 99))
    disks.until(lambda: disks.leaders(0) not in ([], [old]), "another leader")
    for number in range(3):
        assert commit_to(disks, f"new-{number}", 2) is ErrorCode.none
    disks.fill(old.node_id)
    disks.mend()
    disks.run(2_000)
    assert old.host.disk_is_full
    disks.fill()
    disks.until(lambda: disks.row(old).state == "Follower", "the log is read")
    lead(disks, old)
    expected: dict[str, int | None] = {"kept": 1, **{f"new-{n}": 2 for n in range(3)}}
    expected |= {f"lost-{n}": None for n in range(6)}
    assert {group: commit_in(disks, group) for group in expected} == expected


def test_a_checkpoint_does_not_overtake_what_waits_for_room(disks: SmallDisks) -> None:
    """The state would stand where the log does not reach, or lack what waits before it."""
    standby = next(each for each in disks.members if each is not disks.leader())
    disks.fill(standby.node_id)
    for offset in range(3):
        assert commit_to(disks, "g", offset) is ErrorCode.none
    disks.run(1_000)
    disks.fill()
    standby.log.write(standby.host.checkpoint().writes, sync=True)
    stored = standby.log.stored(0)
    assert stored.applied_offset <= stored.end_offset
    disks.kill(standby.node_id)
    disks.start(standby.node_id)
    disks.run(1_000)
    lead(disks, standby)
    assert commit_in(disks, "g") == 2
