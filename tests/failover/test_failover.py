"""Three hosts, one of which dies, freezes, is cut off or loses its disk: what clients see."""

from typing import Any

import pytest

from failover.identity import CATALOG_PARTITION
from protocol.groups.topics import Topics
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import FindCoordinatorRequest
from storage import snapshot, tail
from storage.log import NOBODY
from tests.failover.apis import asks
from tests.failover.clusters import Cluster, Member

COMMIT, FETCH_OFFSETS, FIND, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
CREATE_TOPICS, DELETE_TOPICS = 19, 20


def a_cluster(**more: Any) -> Cluster:
    """Three hosts that know each other, and a topic."""
    cluster = Cluster(**more)
    cluster.register()
    created = cluster.ask(
        cluster.leader(CATALOG_PARTITION), CREATE_TOPICS, 7, asks.create_topics("t", partitions=4)
    )
    assert created.topics[0].error_code == ErrorCode.none
    cluster.run(100)
    return cluster


@pytest.fixture
def cluster() -> Cluster:
    return a_cluster()


def static_group(cluster: Cluster, leader: Member, group: str = "g") -> tuple[str, int]:
    """Form a group of one static member; return its member id and generation."""
    joined = cluster.ask(leader, JOIN, 9, asks.join(group, instance="i"))
    assert joined.error_code == ErrorCode.none
    member, generation = joined.member_id, joined.generation_id
    shares = {member: b"mine"}
    synced = cluster.ask(leader, SYNC, 5, asks.sync(group, generation, member, shares))
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    return member, generation


def commit(cluster: Cluster, leader: Member, offset: int, group: str = "g") -> ErrorCode:
    answer = cluster.ask(leader, COMMIT, 9, asks.commit(group, offset))
    return answer.topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def committed(cluster: Cluster, leader: Member, group: str = "g") -> int:
    answer = cluster.ask(leader, FETCH_OFFSETS, 9, asks.fetch(group))
    return asks.offsets_in(answer)[group].get(("t", 0), -1)


def new_leader(cluster: Cluster, old: Member, partition: int = 0) -> Member:
    """Wait until another host than ``old`` leads."""
    cluster.until(
        lambda: any(member is not old for member in cluster.leaders(partition)), "new leader"
    )
    return next(member for member in cluster.leaders(partition) if member is not old)


def beat(generation: int, member: str) -> Any:
    return asks.heartbeat("g", generation, member, "i")


def test_a_standby_promoted_after_the_leaders_death_answers_a_heartbeat_of_the_same_generation(
    cluster: Cluster,
) -> None:
    old = cluster.leader()
    member, generation = static_group(cluster, old)
    cluster.kill(old.node_id)
    died = cluster.now
    leader = new_leader(cluster, old)
    answer = cluster.ask(leader, HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code == ErrorCode.none
    assert cluster.now - died <= 300
    synced = cluster.ask(leader, SYNC, 5, asks.sync("g", generation, member))
    assert synced.assignment == b"mine"


def test_a_member_has_its_whole_session_from_the_promotion_on(cluster: Cluster) -> None:
    old = cluster.leader()
    member, generation = static_group(cluster, old)
    cluster.run(29_000)
    cluster.kill(old.node_id)
    leader = new_leader(cluster, old)
    cluster.run(29_000)
    answer = cluster.ask(leader, HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code == ErrorCode.none


def test_an_offset_commit_acknowledged_before_the_death_is_there_after_it(
    cluster: Cluster,
) -> None:
    old = cluster.leader()
    for offset in range(20):
        assert commit(cluster, old, offset) == ErrorCode.none
    cluster.kill(old.node_id)
    assert committed(cluster, new_leader(cluster, old)) == 19


def test_a_leader_without_a_majority_answers_nothing_ok_after_its_lease(cluster: Cluster) -> None:
    old = cluster.leader()
    member, generation = static_group(cluster, old)
    cluster.cut(old.node_id)
    cut = cluster.now
    tickets = []
    for _ in range(40):
        tickets.append(cluster.send(old, HEARTBEAT, 4, beat(generation, member)))
        tickets.append(cluster.send(old, COMMIT, 9, asks.commit("g", 77)))
        cluster.run(50)
    for told_at, answer in old.answers:
        code = getattr(answer, "error_code", None)
        if told_at > cut + 150:
            assert code in (ErrorCode.not_coordinator, None)
            if code is None:
                assert answer.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    assert set(tickets) <= old.replies.keys()
    leader = new_leader(cluster, old)
    assert committed(cluster, leader) == -1


def test_requests_parked_on_a_resigned_leader_get_not_coordinator(cluster: Cluster) -> None:
    old = cluster.leader()
    static_group(cluster, old)
    joining = cluster.send(old, JOIN, 9, asks.join("g", instance="other"))
    cluster.run(10)
    assert joining not in old.replies
    cluster.cut(old.node_id)
    cluster.until(lambda: joining in old.replies, "an answer")
    assert old.replies[joining].error_code == ErrorCode.not_coordinator


def test_a_dirty_machine_is_rebuilt_from_the_log(cluster: Cluster) -> None:
    old = cluster.leader()
    assert commit(cluster, old, 1) == ErrorCode.none
    cluster.cut(old.node_id)
    lost = cluster.send(old, COMMIT, 9, asks.commit("g", 666))
    cluster.send(old, COMMIT, 9, asks.commit("ghost", 666))
    leader = new_leader(cluster, old)
    assert commit(cluster, leader, 2) == ErrorCode.none
    cluster.mend()
    cluster.run(2_000)
    assert old.replies[lost].topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    assert cluster.row(old).state == "Follower"
    assert cluster.row(old).end_offset == cluster.row(leader).end_offset
    cluster.kill(leader.node_id)
    cluster.leader().host.transfer(0, old.node_id, cluster.now)
    cluster.until(lambda: cluster.leaders(0) == [old], "the old leader leads again")
    assert committed(cluster, old) == 2
    assert committed(cluster, old, "ghost") == -1


def test_a_clean_machine_is_kept_when_its_leader_hands_over(cluster: Cluster) -> None:
    old = cluster.leader()
    member, generation = static_group(cluster, old)
    machine = old.host._state.groups[0].machine
    to = (old.node_id + 1) % 3
    old.host.transfer(0, to, cluster.now)
    cluster.pump(old)
    tickets = [cluster.send(old, COMMIT, 9, asks.commit("g", 5)) for _ in range(3)]
    took = cluster.until(lambda: cluster.leaders(0) == [cluster.members[to]], "the other leads")
    assert took <= 20
    cluster.run(100)
    assert old.host._state.groups[0].machine is machine
    assert set(tickets) <= old.replies.keys()
    answer = cluster.ask(cluster.members[to], HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code == ErrorCode.none


def test_a_heartbeat_to_a_standby_is_not_coordinator(cluster: Cluster) -> None:
    leader = cluster.leader()
    member, generation = static_group(cluster, leader)
    for standby in cluster.members:
        if standby is not leader:
            answer = cluster.ask(standby, HEARTBEAT, 4, beat(generation, member))
            assert answer.error_code == ErrorCode.not_coordinator


def test_every_node_names_the_new_leader_as_soon_as_it_is_known() -> None:
    cluster = a_cluster(count=4, partitions=4)
    group = cluster.group_in(3)
    old = cluster.leader(3)
    cluster.kill(old.node_id)
    leader = new_leader(cluster, old, 3)
    cluster.run(5)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    for member in cluster.members:
        if member.is_up:
            [found] = cluster.ask(member, FIND, 6, request).coordinators
            assert found.node_id == leader.node_id
    outsider = next(n for n in range(4) if n not in cluster.placement[3])
    assert cluster.members[outsider].is_up


def seek(cluster: Cluster, member: Member, group: str = "g") -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    return cluster.send(member, FIND, 6, request)


def test_who_asks_for_a_leader_that_just_died_hears_of_the_next_one_as_soon_as_there_is_one(
    cluster: Cluster,
) -> None:
    old = cluster.leader()
    cluster.run(1_000)
    cluster.kill(old.node_id)
    asked = [(each, seek(cluster, each)) for each in cluster.members if each.is_up]
    leader = new_leader(cluster, old)
    cluster.run(5)
    for member, ticket in asked:
        [found] = member.replies[ticket].coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.none, leader.node_id)


def test_who_asks_for_a_lost_leader_waits_half_a_second_and_not_at_all_when_it_is_long_gone(
    cluster: Cluster,
) -> None:
    leader = cluster.leader()
    cluster.run(1_000)
    last = next(each for each in cluster.members if each is not leader)
    for member in cluster.members:
        if member is not last:
            cluster.kill(member.node_id)
    for _ in range(2):
        cluster.run(200)
        asked = cluster.now
        ticket = seek(cluster, last)
        assert ticket not in last.replies
        cluster.until(lambda ticket=ticket: ticket in last.replies, "an answer")  # type: ignore[misc]
        assert cluster.now - asked == 500
    cluster.run(5_000)
    assert seek(cluster, last) in last.replies


def test_a_client_that_went_away_gets_no_answer_when_the_leader_is_found(cluster: Cluster) -> None:
    old = cluster.leader()
    cluster.run(1_000)
    cluster.kill(old.node_id)
    other = next(each for each in cluster.members if each.is_up)
    ticket = seek(cluster, other)
    other.host.abandon(ticket)
    cluster.run(2_000)
    assert ticket not in other.replies


def test_a_leader_whose_link_broke_only_for_a_moment_is_named_at_once(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run(1_000)
    other = next(each for each in cluster.members if each is not leader)
    other.host.peer_down(leader.node_id, cluster.now)
    ticket = seek(cluster, other)
    assert ticket not in other.replies
    other.host.peer_up(leader.node_id, cluster.now)
    cluster.pump(other)
    assert other.replies[ticket].coordinators[0].node_id == leader.node_id


def test_a_node_that_missed_an_election_is_told_who_leads_with_the_time(cluster: Cluster) -> None:
    """A node without a replica of the partition hears of its leader by this message only."""
    leader = cluster.leader()
    other = next(each for each in cluster.members if each is not leader)
    other.host._state.leaders._known.clear()
    assert other.host.leader_of(0) == NOBODY
    leader.host.clock_read(cluster.now, cluster.now)
    told = leader.host._state.effects.messages[other.node_id]
    other.host.receive_peer(leader.node_id, told, cluster.now)
    assert other.host.leader_of(0) == leader.node_id


def test_a_frozen_leader_that_thaws_lies_to_nobody(cluster: Cluster) -> None:
    old = cluster.leader()
    member, generation = static_group(cluster, old)
    old.is_frozen = True
    leader = new_leader(cluster, old)
    cluster.run(3_000)
    old.is_frozen = False
    ticket = cluster.send(old, HEARTBEAT, 4, beat(generation, member))
    old.host.tick(cluster.now, 3_000)
    cluster.pump(old)
    cluster.until(lambda: ticket in old.replies, "an answer")
    assert old.replies[ticket].error_code == ErrorCode.not_coordinator
    cluster.run(500)
    assert cluster.leaders(0) == [leader]


def test_a_host_that_lost_its_disk_joins_again_and_may_lead(cluster: Cluster) -> None:
    lost = next(member for member in cluster.members if member is not cluster.leader())
    for offset in range(10):
        commit(cluster, cluster.leader(), offset)
    cluster.kill(lost.node_id)
    cluster.lose_disk(lost.node_id)
    cluster.run(500)
    cluster.start(lost.node_id)
    leader = cluster.leader()
    for partition in (0, CATALOG_PARTITION):
        cluster.until(
            lambda p=partition: lost.node_id in cluster.row(cluster.leader(p), p).in_sync,  # type: ignore[misc]
            "the lost one is in sync",
        )
    cluster.run(1_000)
    assert len(cluster.row(leader).voters) == 3
    leader.host.transfer(0, lost.node_id, cluster.now)
    cluster.until(lambda: cluster.leaders(0) == [lost], "the lost one leads")
    assert committed(cluster, lost) == 9
    assert lost.host.view.catalog.topics.names() == leader.host.view.catalog.topics.names()


def test_a_host_without_a_catalogue_does_not_lead_groups_until_it_has_one() -> None:
    """It would take the partitions of topics that it does not know from all members."""
    cluster = a_cluster(count=5, partitions=5)  # partition 3: on nodes 3, 4, 0
    assert cluster.row(cluster.leader(3), 3).voters == (3, 4, 0)
    for node_id in (1, 2, 4):
        cluster.kill(node_id)
    cluster.run(3_000)
    cluster.lose_disk(4)
    cluster.start(4)
    lost = cluster.members[4]
    cluster.until(
        lambda: 4 in cluster.row(cluster.leader(3), 3).in_sync, "the lost one has the groups' log"
    )
    cluster.run(1_000)
    assert "t" not in lost.host.view.catalog.topics.names()
    cluster.leader(3).host.transfer(3, 4, cluster.now)
    cluster.run(5_000)
    assert cluster.leader(3) is not lost
    cluster.kill(3)
    cluster.until(lambda: cluster.leaders(3) == [cluster.members[0]], "the one that knows leads")
    cluster.start(1)
    cluster.until(lambda: "t" in lost.host.view.catalog.topics.names(), "it has the catalogue")
    cluster.leader(3).host.transfer(3, 4, cluster.now)
    cluster.until(lambda: cluster.leaders(3) == [lost], "the lost one leads")


def test_groups_are_led_by_hosts_that_knew_the_catalogue_while_nobody_leads_it() -> None:
    cluster = a_cluster(count=5, partitions=5)
    for node_id in (1, 2, 3, 4):
        cluster.kill(node_id)
    cluster.run(3_000)
    for node_id in (3, 4):
        cluster.start(node_id)
    cluster.until(lambda: bool(cluster.leaders(3)), "groups have a leader")
    assert not cluster.leaders(CATALOG_PARTITION)
    assert "t" in cluster.leader(3).host.view.catalog.topics.names()


@pytest.mark.parametrize(
    ("commits", "share"), [(450, 10), pytest.param(4_500, 1, marks=pytest.mark.thorough)]
)
def test_a_standby_far_behind_is_sent_the_state_and_serves_it(
    commits: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is dropped behind the state sooner where the test is to be quick."""
    kept = ((snapshot, "STEP_RECORDS"), (snapshot, "KEPT_BATCHES"), (tail, "KEPT_BATCHES"))
    for module, name in kept:
        monkeypatch.setattr(module, name, getattr(module, name) // share)
    cluster = a_cluster()
    leader = cluster.leader()
    late = next(member for member in cluster.members if member is not leader)
    cluster.kill(late.node_id)
    for offset in range(commits):
        cluster.send(leader, COMMIT, 9, asks.commit("g", offset))
        if offset % 2 == 0:
            cluster.run(2)
    cluster.run(100)
    assert cluster.row(leader).log_start_offset > 0
    cluster.start(late.node_id)
    cluster.until(
        lambda: cluster.row(late).end_offset == cluster.row(leader).end_offset, "caught up"
    )
    cluster.run(1_000)
    assert cluster.row(late).state == "Follower"
    leader.host.transfer(0, late.node_id, cluster.now)
    cluster.until(lambda: cluster.leaders(0) == [late], "it leads")
    assert committed(cluster, late) == commits - 1


def test_a_draining_host_hands_over_everything_it_leads() -> None:
    cluster = a_cluster(partitions=3)
    cluster.run(1_000)
    node = cluster.leader(0)
    node.host.draining = True
    cluster.until(
        lambda: all(node not in cluster.leaders(number) for number in (-1, 0, 1, 2)),
        "the drained host leads nothing",
    )
    cluster.run(3_000)
    assert all(cluster.leaders(number) not in ([], [node]) for number in (-1, 0, 1, 2))


def test_the_catalogue_goes_on_when_its_leader_dies(cluster: Cluster) -> None:
    old = cluster.leader(CATALOG_PARTITION)
    cluster.kill(old.node_id)
    other = next(member for member in cluster.members if member is not old)
    created = cluster.ask(other, CREATE_TOPICS, 7, asks.create_topics("new"))
    assert created.topics[0].error_code == ErrorCode.none
    cluster.run(100)
    for member in cluster.members:
        if member is not old:
            assert "new" in member.host.view.catalog.topics.names()
    cluster.start(old.node_id)
    cluster.run(1_000)
    assert "new" in old.host.view.catalog.topics.names()


def test_a_node_that_does_not_vote_about_the_catalogue_follows_it() -> None:
    cluster = a_cluster(count=5, partitions=5)
    last = cluster.members[4]
    assert "t" in last.host.view.catalog.topics.names()
    assert cluster.row(last, CATALOG_PARTITION).voters == (0, 1, 2)
    created = cluster.ask(last, CREATE_TOPICS, 7, asks.create_topics("more"))
    assert created.topics[0].error_code == ErrorCode.none
    cluster.run(2_000)
    assert cluster.row(last, CATALOG_PARTITION).voters == (0, 1, 2)
    assert "more" in last.host.view.catalog.topics.names()


def test_a_cluster_that_was_killed_whole_comes_back_with_everything(cluster: Cluster) -> None:
    member, generation = static_group(cluster, cluster.leader())
    assert commit(cluster, cluster.leader(), 42, "other") == ErrorCode.none
    for node_id in range(3):
        cluster.kill(node_id)
    for node_id in range(3):
        cluster.start(node_id)
    leader = cluster.leader()
    answer = cluster.ask(leader, HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code == ErrorCode.none
    assert committed(cluster, leader, "other") == 42


def test_two_of_three_dead_means_nobody_is_answered_until_one_is_back(cluster: Cluster) -> None:
    leader = cluster.leader()
    member, generation = static_group(cluster, leader)
    others = [each.node_id for each in cluster.members if each is not leader]
    for node_id in others:
        cluster.kill(node_id)
    cluster.run(3_000)
    refused = cluster.ask(leader, HEARTBEAT, 4, beat(generation, member))
    assert refused.error_code == ErrorCode.not_coordinator
    cluster.start(others[0])
    again = cluster.leader()
    answer = cluster.ask(again, HEARTBEAT, 4, beat(generation, member))
    assert answer.error_code == ErrorCode.none


def test_a_replication_factor_of_one_needs_nobody_else() -> None:
    cluster = a_cluster(partitions=3, replicas=1)
    for number in range(3):
        assert cluster.leader(number) is cluster.members[number]
    group = cluster.group_in(2)
    cluster.kill(0)
    cluster.kill(1)
    assert commit(cluster, cluster.members[2], 7, group) == ErrorCode.none
    assert cluster.members[2].host.view.catalog.topics.names() == (
        "__consumer_offsets",
        "__share_group_state",
        "t",
    )


def test_a_tasks_result_is_dropped_where_it_is_no_longer_led(cluster: Cluster) -> None:
    leader = cluster.leader()
    standby = next(member for member in cluster.members if member is not leader)
    standby.host.computed(0, object(), cluster.now)  # type: ignore[arg-type]
    standby.host.computed(7, object(), cluster.now)  # type: ignore[arg-type]
    cluster.pump(standby)
    assert cluster.leaders(0) == [leader]


def test_offsets_of_a_topic_deleted_while_nobody_led_the_partition_go_with_the_election() -> None:
    cluster = a_cluster(partitions=2, replicas=1)
    group = cluster.group_in(1)
    assert commit(cluster, cluster.leader(1), 5, group) == ErrorCode.none
    cluster.kill(1)
    deleted = cluster.ask(cluster.members[0], DELETE_TOPICS, 6, asks.delete_topics("t"))
    assert deleted.responses[0].error_code == ErrorCode.none
    cluster.run(200)
    cluster.start(1)
    cluster.run(1_000)
    assert committed(cluster, cluster.leader(1), group) == -1


def test_an_offset_of_a_topic_that_this_node_has_not_heard_of_yet_is_kept(
    cluster: Cluster,
) -> None:
    old = cluster.leader()
    assert commit(cluster, old, 5) == ErrorCode.none
    cluster.kill(old.node_id)
    leader = new_leader(cluster, old)
    shard: Any = leader.host._state.groups[0].machine
    shard.topics = Topics()
    cluster.run(1_000)
    assert ("t", 0) in {
        (topic, index) for topic, rows in shard._context.offsets["g"].items() for index in rows
    }


def test_a_leader_whose_answers_have_had_no_lease_for_an_election_timeout_hands_over(
    cluster: Cluster,
) -> None:
    """It hears its peers, each time too late for its lease: by itself it would never step down."""
    old = cluster.leader()
    cluster.slow_ms[old.node_id] = 100
    ticket = cluster.send(old, COMMIT, 9, asks.commit("g", 7))
    cluster.run(900)
    assert ticket not in old.replies and cluster.leaders(0) == [old]
    [row] = [row for row in old.host.status(cluster.now) if row.partition == 0]
    assert row.lease_ms == 0 and row.waiting_ms > 500
    took = cluster.until(lambda: cluster.leaders(0) not in ([], [old]), "another leads")
    assert took < 1_500
    assert any("has had no lease" in note for note in old.notes)
    new = cluster.leader()
    assert commit(cluster, new, 8) == ErrorCode.none
    cluster.run(500)
    assert ticket in old.replies, "its client is told to ask elsewhere"


def test_a_silent_leader_says_so_when_nobody_can_take_over(cluster: Cluster) -> None:
    old = cluster.leader()
    cluster.slow_ms.update(dict.fromkeys((0, 1, 2), 100))
    ticket = cluster.send(old, COMMIT, 9, asks.commit("g", 7))
    cluster.run(20_000)
    told = [note for member in cluster.members for note in member.notes if "no lease" in note]
    assert 1 <= len(told) <= 3, "once a minute of each node"
    cluster.slow_ms.clear()
    cluster.run(5_000)
    assert ticket in old.replies
    assert commit(cluster, cluster.leader(), 8) == ErrorCode.none
