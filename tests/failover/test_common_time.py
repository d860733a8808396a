"""S9 and S10: no wrong clock expires anything, and no lease is believed when the clocks jumped."""

from collections.abc import Mapping

import pytest

from failover.common_time import (
    AGREE_MS,
    FORGET_MS,
    IN_FLIGHT_MS,
    JUMP_MS,
    KEPT,
    LATE_MS,
    SETTLED_MS,
    TELL_MS,
    CommonTime,
)
from failover.host import Host
from protocol.records import OffsetCommitValue, decode
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


FROZEN_MS = 40_000
OFFSET_COMMIT = b"\x00\x01"
"""How the keys of records of committed offsets begin."""


def before_a_jump(own: int, others: tuple[int, ...]) -> CommonTime:
    time = CommonTime(3)
    time.read(NOW + own, NOW)
    told(time, *others)
    return time


@pytest.mark.parametrize(
    ("own", "others"),
    [(0, (0, 0)), (30 * DAYS, (0, 0)), (-30 * DAYS, (0, 0)), (0, (0, -30 * DAYS))],
    ids=["all agree", "ahead of two", "behind two", "one of the others is behind"],
)
def test_after_the_machine_froze_the_time_is_right_at_once(
    own: int, others: tuple[int, ...]
) -> None:
    """What the others showed before was told to a steady clock that stood still since."""
    time = before_a_jump(own, others)
    time.jumped(FROZEN_MS, NOW + FROZEN_MS + own, NOW)
    assert time.offset_ms == FROZEN_MS and not time.is_settled(NOW)
    time.read(NOW + 5 + FROZEN_MS + own, NOW + 5)
    assert time.offset_ms == FROZEN_MS
    told(time, *(FROZEN_MS + other for other in others), now=NOW + 10)
    assert time.offset_ms == FROZEN_MS
    assert time.is_settled(NOW + 10 + SETTLED_MS)


def test_what_waited_in_the_links_while_the_machine_froze_does_not_make_the_time_slow() -> None:
    time = before_a_jump(0, (0, 0))
    time.jumped(10 * FROZEN_MS, NOW + 10 * FROZEN_MS, NOW)
    told(time, 5_000, 5_000)
    assert time.offset_ms == 10 * FROZEN_MS and not time.is_settled(NOW)
    told(time, 15_000, 15_000, now=NOW + 100)
    assert time.offset_ms == 10 * FROZEN_MS
    told(time, 10 * FROZEN_MS, now=NOW + 200)
    assert time.offset_ms == 10 * FROZEN_MS and time.is_settled(NOW + 200 + SETTLED_MS)


def test_a_machine_that_freezes_twice_adds_both_up() -> None:
    time = before_a_jump(30 * DAYS, (0, 0))
    time.jumped(FROZEN_MS, NOW + FROZEN_MS + 30 * DAYS, NOW)
    time.jumped(FROZEN_MS, NOW + 2 * FROZEN_MS + 30 * DAYS, NOW)
    assert time.offset_ms == 2 * FROZEN_MS


def test_a_clock_that_was_set_ahead_is_ahead_until_the_others_are_heard() -> None:
    """It looks like a freeze at first: a record from the future is only kept for longer."""
    time = before_a_jump(0, (0, 0))
    time.jumped(DAYS, NOW + DAYS, NOW)
    assert time.offset_ms == DAYS and not time.is_settled(NOW), "nothing expires meanwhile"
    told(time, 0, 0)
    later = NOW + IN_FLIGHT_MS
    time.read(later + DAYS, later)
    assert time.offset_ms == DAYS
    told(time, 0, 0, now=later)
    assert time.offset_ms == 0
    time.told(1, later + FORGET_MS - 1, later + FORGET_MS - 1)
    assert time.offset_ms == 0


@pytest.mark.parametrize(("own", "offset"), [(DAYS, DAYS), (-DAYS, 0)], ids=["ahead", "behind"])
def test_a_clock_that_nobody_speaks_about_after_a_jump_is_believed_if_it_is_ahead(
    own: int, offset: int
) -> None:
    time = before_a_jump(own, (0, 0))
    time.jumped(FROZEN_MS, NOW + FROZEN_MS + own, NOW)
    later = NOW + FORGET_MS
    time.read(later + FROZEN_MS + own, later)
    assert time.offset_ms == FROZEN_MS + offset and not time.is_settled(later)


@pytest.mark.parametrize("others", [(None, None), (0, None)], ids=["of nobody", "of one"])
def test_a_clock_that_is_set_back_is_followed_once_a_majority_is_heard(
    others: tuple[int | None, ...],
) -> None:
    """Records of this node would look old to the next leader, which would expire them at once."""
    time = CommonTime(3)
    time.read(NOW, NOW)
    told(time, *others)
    later = NOW + FORGET_MS
    time.jumped(-DAYS, later - DAYS, later)
    time.read(later - DAYS, later)
    assert time.offset_ms == 0 and not time.is_settled(later)
    told(time, -DAYS, now=later)
    assert time.offset_ms == -DAYS and not time.is_settled(later), "it was set just now"


def test_a_clock_that_is_slewed_is_followed() -> None:
    time = CommonTime(3)
    time.read(NOW, NOW)
    for seconds in range(1, 61):
        time.read(NOW - seconds * JUMP_MS // 20, NOW)
    assert time.offset_ms == -3 * JUMP_MS


@pytest.mark.parametrize(
    ("own", "moved"),
    [(-DAYS, DAYS), (DAYS, -DAYS), (0, -DAYS), (0, LATE_MS), (0, 20)],
    ids=["set right", "set right, back", "set back", "a moment", "less"],
)
def test_a_clock_that_did_not_freeze_leaves_the_time_to_the_others(own: int, moved: int) -> None:
    time = before_a_jump(own, (0, 0))
    time.jumped(moved, NOW + own + moved, NOW)
    assert abs(time.offset_ms) <= LATE_MS
    assert time.is_settled(NOW + SETTLED_MS - 1) is (own == 0)


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


def test_a_node_that_starts_with_a_wrong_clock_is_told_the_time_as_soon_as_it_is_linked() -> None:
    """It may lead before the others' next word, and expire nothing, but write old records."""
    cluster = a_cluster()
    pass_time(cluster, 2_000, {})
    cluster.kill(0)
    cluster.start(0)
    host = cluster.members[0].host
    host.clock_read(cluster.now - 30 * DAYS, cluster.now)
    assert host.wall.offset_ms == -30 * DAYS
    cluster.run(TELL_MS // 4)
    assert abs(host.wall.offset_ms) <= TELL_MS // 4


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
        host.jumped(50, cluster.now + 50, cluster.now)
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
    leader.host.jumped(FROZEN_MS, cluster.now + FROZEN_MS, cluster.now)
    ticket = cluster.send(leader, HEARTBEAT, 4, beat(generation, member))
    cluster.until(lambda: ticket in leader.replies, "an answer")
    assert leader.replies[ticket].error_code is ErrorCode.not_coordinator
    assert cluster.row(leader).state == "Follower"


def test_a_leader_that_has_heard_of_no_clock_writes_no_old_records() -> None:
    """Seed 302508: the words of one were lost, and the other had just started."""
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    leader.host.clock_read(cluster.now, cluster.now)
    leader.host.jumped(-30 * DAYS, cluster.now - 30 * DAYS, cluster.now)
    began = cluster.now
    assert commit(cluster, leader, 7) is ErrorCode.none
    assert 0 <= commit_timestamp(leader) - began <= 1_000


@pytest.mark.parametrize("error_ms", [0, 30 * DAYS, -30 * DAYS], ids=["right", "ahead", "behind"])
def test_a_leader_that_froze_writes_no_old_records(error_ms: int) -> None:
    """The next leader would expire them by as much too early as the machine stood still."""
    cluster = a_cluster(configs=EXPIRY)
    leader = cluster.leader()
    pass_time(cluster, 2_000, {leader.node_id: error_ms})
    leader.host.jumped(FROZEN_MS, cluster.now + FROZEN_MS + error_ms, cluster.now)
    began = cluster.now
    assert commit(cluster, leader, 7) is ErrorCode.none
    assert FROZEN_MS <= commit_timestamp(leader) - began <= FROZEN_MS + 1_000


def commit_timestamp(leader: Member) -> int:
    """Return when the only commit of partition 0 was made, as its record says."""
    records = [row for batch in leader.log.batches(0, 0) for row in batch.records]
    [value] = [decode(*row).value for row in records if row[0].startswith(OFFSET_COMMIT)]
    assert isinstance(value, OffsetCommitValue)
    return value.commit_timestamp
