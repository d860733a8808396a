"""S9 and S10: no wrong clock expires anything, and no lease is believed when the clocks jumped."""

from collections.abc import Mapping

import pytest

from failover.common_time import (
    AGREE_MS,
    FORGET_MS,
    JUMP_MS,
    KEPT,
    LATE_MS,
    SETTLED_MS,
    TELL_MS,
    CommonTime,
)
from failover.host import Host
from protocol.wire.errors import ErrorCode
from storage.messages import Append
from tests.failover.clusters import Cluster, Member
from tests.failover.test_failover import HEARTBEAT, a_cluster, beat, commit, committed, static_group

DAYS = 86_400_000
MINUTE = 60_000
NOW = 1_000_000


def told(time: CommonTime, *offsets: int | None, now: int = NOW) -> None:
    for node_id, offset_ms in enumerate(offsets, start=1):
        if offset_ms is not None:
            time.told(node_id, now + offset_ms, now)


@pytest.mark.parametrize(
    ("own", "others", "offset", "agreed"),
    [
        (0, (None, None), 0, False),
        (0, (100, None), 0, True),
        (0, (AGREE_MS, -AGREE_MS), 0, True),
        (30 * DAYS, (5, None), 30 * DAYS, False),
        (30 * DAYS, (5, 9), 9, True),
        (-30 * DAYS, (5, 9), 9, True),
        (7, (30 * DAYS, 5), 7, True),
        (7, (30 * DAYS, -30 * DAYS), 30 * DAYS, False),
        (-30 * DAYS, (5, None), 5, False),
    ],
    ids=[
        "nobody else", "one agrees", "both nearly", "one against one", "ahead of two",
        "behind two", "one is ahead", "all differ",
        "one against one, behind",
    ],
)  # fmt: skip
def test_the_time_is_what_a_majority_of_the_clocks_says(
    own: int, others: tuple[int | None, ...], offset: int, agreed: bool
) -> None:
    time = CommonTime(3)
    time.read(NOW + own, NOW)
    told(time, *others)
    told(time, *others)
    is_new = offset != own
    assert time.offset_ms == offset
    assert time.is_settled(NOW + (SETTLED_MS if is_new else 0)) is agreed
    assert not (is_new and time.is_settled(NOW)), "it was set just now"


def test_a_node_that_is_alone_believes_its_clock_until_that_is_set() -> None:
    time = CommonTime(1)
    time.read(NOW + 30 * DAYS, NOW)
    assert (time.offset_ms, time.is_settled(NOW)) == (30 * DAYS, True)
    time.read(NOW + 5, NOW)
    assert (time.offset_ms, time.is_settled(NOW)) == (5, False)
    assert not time.is_settled(NOW + SETTLED_MS - 1) and time.is_settled(NOW + SETTLED_MS)
    time.read(NOW + SETTLED_MS + JUMP_MS, NOW + SETTLED_MS)
    assert time.is_settled(NOW + SETTLED_MS), "it was slewed"


def test_a_late_message_does_not_make_a_clock_slow() -> None:
    time = CommonTime(3)
    time.read(NOW, NOW)
    told(time, 0, 0)
    told(time, -40_000, -40_000)
    assert time.offset_ms == 0 and time.is_settled(NOW)
    for _ in range(KEPT):
        told(time, -40_000, -40_000)
    assert time.offset_ms == -40_000, "but both do show that"


def test_a_node_that_is_silent_is_forgotten() -> None:
    time = CommonTime(3)
    time.read(NOW, NOW)
    told(time, 0)
    later = NOW + FORGET_MS
    time.read(later, later)
    assert not time.is_settled(later)


def test_a_clock_that_is_suddenly_ahead_says_that_ours_may_have_stood_still() -> None:
    time = CommonTime(3)
    time.read(NOW, NOW)
    assert not time.told(1, NOW + 5_000, NOW)
    assert not time.told(1, NOW + 5_000 + LATE_MS, NOW)
    assert not time.told(1, NOW, NOW)
    assert time.told(1, NOW + 32_000, NOW)


def test_the_others_are_told_now_and_then_and_at_once_after_a_jump() -> None:
    time = CommonTime(3)
    time.read(NOW, NOW)
    assert time.is_to_be_told(NOW) and not time.is_to_be_told(NOW + TELL_MS - 1)
    time.read(NOW + DAYS, NOW)
    assert time.is_to_be_told(NOW)


# --- in a cluster

EXPIRY = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


def pass_time(cluster: Cluster, ms: int, walls: Mapping[int, int]) -> None:
    """Let time pass; ``walls`` is how far a node's wall clock is ahead, in ms."""
    for _ in range(ms // 500):
        for member in cluster.members:
            if member.is_up:
                shown = cluster.now + walls.get(member.node_id, 0)
                member.host.clock_read(shown, cluster.now)
                cluster.pump(member)
        cluster.run(500)


def another(cluster: Cluster, member: Member) -> Member:
    return next(each for each in cluster.members if each is not member)


def test_a_leader_whose_clock_is_ahead_expires_nothing_early() -> None:
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    walls = {leader.node_id: 30 * DAYS}
    pass_time(cluster, 2_000, walls)
    assert commit(cluster, leader, 7) is ErrorCode.none
    pass_time(cluster, 10_000, walls)
    assert cluster.leader() is leader
    assert committed(cluster, leader) == 7


def test_a_leader_whose_clock_is_behind_writes_no_old_records() -> None:
    """They would be expired at once when another leads, or when the clock is set right."""
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    pass_time(cluster, 2_000, {leader.node_id: -30 * DAYS})
    assert commit(cluster, leader, 7) is ErrorCode.none
    pass_time(cluster, 10_000, {})
    assert committed(cluster, leader) == 7


def test_offsets_expire_while_the_clocks_agree_and_not_while_they_do_not() -> None:
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    pass_time(cluster, 2_000, {})
    assert commit(cluster, leader, 7) is ErrorCode.none
    walls = {each.node_id: number * DAYS for number, each in enumerate(cluster.members)}
    pass_time(cluster, 30_000, walls)
    pass_time(cluster, 2 * MINUTE, walls)
    assert committed(cluster, leader) == 7, "three clocks, three times"


def test_offsets_expire_in_time_when_all_is_well() -> None:
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    pass_time(cluster, 2_000, {})
    assert commit(cluster, leader, 7) is ErrorCode.none
    pass_time(cluster, 50_000, {})
    assert committed(cluster, leader) == 7
    pass_time(cluster, 15_000, {})
    assert committed(cluster, leader) == -1


def test_setting_a_clock_moves_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster()
    leader = cluster.leader()
    pass_time(cluster, 1_000, {})
    member, generation = static_group(cluster, leader)
    pass_time(cluster, 5_000, {each.node_id: 30 * DAYS for each in cluster.members})
    answer = cluster.ask(leader, HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code is ErrorCode.none


@pytest.mark.parametrize("how", ["the driver saw its clocks jump", "a peer's clock is far ahead"])
def test_nothing_is_answered_under_a_lease_from_before_a_jump(how: str) -> None:
    """Its clocks stood still with the machine: the lease only seems to last."""
    cluster = a_cluster()
    leader = cluster.leader()
    pass_time(cluster, 1_000, {})
    member, generation = static_group(cluster, leader)
    assert cluster.ask(leader, HEARTBEAT, 4, beat(generation, member)).error_code is ErrorCode.none
    jumped_at = cluster.now
    _jump(cluster, leader, how)
    ticket = cluster.send(leader, HEARTBEAT, 4, beat(generation, member))
    assert ticket not in leader.replies, "a majority has to be asked first"
    cluster.until(lambda: ticket in leader.replies, "the answer")
    assert leader.replies[ticket].error_code is ErrorCode.none
    sent = [
        message
        for node_id, messages in cluster.said
        if node_id == leader.node_id
        for message in messages
        if isinstance(message, Append) and message.partition == 0 and message.sent_ms > jumped_at
    ]
    assert sent and cluster.now - jumped_at < 10, "it asks at once"
    assert cluster.leader() is leader


def _jump(cluster: Cluster, leader: Member, how: str) -> None:
    host: Host = leader.host
    if how.startswith("the driver"):
        host.doubt(cluster.now)
        return
    other = another(cluster, leader)
    other.host.clock_read(cluster.now + 32_000, cluster.now)
    cluster.pump(other)
    cluster.run(2)


def test_a_leader_that_no_majority_answers_after_a_jump_steps_down() -> None:
    cluster = a_cluster()
    leader = cluster.leader()
    member, generation = static_group(cluster, leader)
    cluster.cut(leader.node_id)
    leader.host.doubt(cluster.now)
    ticket = cluster.send(leader, HEARTBEAT, 4, beat(generation, member))
    cluster.until(lambda: ticket in leader.replies, "an answer")
    assert leader.replies[ticket].error_code is ErrorCode.not_coordinator
    assert cluster.row(leader).state == "Follower"
