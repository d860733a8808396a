"""A large record waits for the other requests that rewrite it; requests that need it do not."""

import pytest

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.partitions import containment
from failover.partitions.coalescing import PARTS_PER_REWRITE, RUN_MS, Runs
from protocol.groups.effects import Request
from protocol.wire.messages import DescribeGroupsRequest
from storage.log import AppendBatch, MemoryLog
from tests.failover.apis import asks
from tests.failover.hosts import CLIENT, Driver

MEMBERS = 4 * PARTS_PER_REWRITE
COMMIT, JOIN, SYNC, DESCRIBE, CREATE_TOPICS = 8, 11, 14, 15, 19

DESCRIBED = DescribeGroupsRequest(groups=("g",), include_authorized_operations=False)


@pytest.mark.parametrize(
    ("served", "waits"),
    [
        ([(64, 9)], True),
        ([(64, 0)], False),  # nobody follows
        ([(31, 9)], False),  # a small record
        ([(0, 9)], False),  # nothing is rewritten
        ([(64, 9), (64, 8), (64, 7)], True),
        ([(64, 9), (64, 8), (64, 7), (64, 6)], False),  # one for each 16 parts
        ([(64, 9), (0, 8), (0, 7), (0, 6), (0, 5)], True),  # others of the group in between
        ([(64, 9), (0, 0)], False),  # the last one
    ],
)
def test_a_record_waits_for_as_many_rewrites_as_make_it_worth_it(
    served: list[tuple[int, int]], waits: bool
) -> None:
    runs = Runs()
    for parts, following in served:
        runs.served("g", parts, following, now=0)
    runs.settle(now=0)
    assert bool(runs) is waits
    assert runs.next_deadline() == (RUN_MS if waits else None)


@pytest.fixture
def driver() -> Driver:
    """Give a host with a stable group of static members."""
    driver = Driver(MemoryLog()).load()
    driver.host.catalog_event(NodeChanged(Node(0, "host0", 9092, up=True)), driver.now)
    driver.pump()
    created = asks.create_topics("t", partitions=2)
    driver.ask(CREATE_TOPICS, 7, created)
    tickets = [give(driver, JOIN, asks.join("g", instance=f"i{n}")) for n in range(MEMBERS)]
    driver.pump()
    driver.wait(0)
    answers = [driver.replies[ticket] for ticket in tickets]
    leader = next(one for one in answers if one.leader == one.member_id)
    shares = {one.member_id: b"share" for one in answers}
    driver.ask(SYNC, 5, asks.sync("g", leader.generation_id, leader.member_id, shares))
    driver.written.clear()
    return driver


def give(driver: Driver, api_key: int, message: object, following: int = 0) -> int:
    driver.tickets += 1
    request = Request(
        ticket=driver.tickets,
        api_key=api_key,
        api_version={JOIN: 9, COMMIT: 8}[api_key],
        client=CLIENT,
        message=message,  # type: ignore[arg-type]
        following=following,
    )
    driver.host.receive(request, driver.now)
    return driver.tickets


def come_back(driver: Driver, number: int, following: int) -> int:
    ticket = give(driver, JOIN, asks.join("g", instance=f"i{number}"), following)
    driver.pump()
    return ticket


def group_records(driver: Driver) -> int:
    batches = [w.batch for unit in driver.written for w in unit if isinstance(w, AppendBatch)]
    return sum(key[:2] == b"\0\2" for batch in batches for key, _ in batch.records)


def test_a_run_that_is_long_enough_ends_with_the_turn_for_any_request() -> None:
    runs = Runs()
    for following in range(20, 10, -1):
        runs.served("g", 64, following, now=0)
    runs.settle(now=0)
    assert not runs


def test_members_that_return_together_are_answered_when_their_record_is_written(
    driver: Driver,
) -> None:
    tickets = [come_back(driver, number, 9) for number in range(3)]
    assert not driver.replies.keys() & {*tickets}
    assert group_records(driver) == 0
    tickets.append(come_back(driver, 3, 9))
    assert driver.replies.keys() >= {*tickets}
    assert group_records(driver) == 1


def test_another_group_does_not_wait_meanwhile(driver: Driver) -> None:
    waiting = come_back(driver, 0, 9)
    answer = driver.ask(COMMIT, 8, asks.commit("other", 5))
    assert answer.topics[0].partitions[0].error_code == 0
    assert waiting not in driver.replies


def test_the_record_is_written_when_those_who_should_follow_do_not_come(driver: Driver) -> None:
    waiting = come_back(driver, 0, 9)
    assert driver.host.next_deadline() == driver.now + RUN_MS
    driver.wait(RUN_MS)
    assert waiting in driver.replies
    assert group_records(driver) == 1


def test_a_commit_of_the_group_is_written_and_answered_with_it(driver: Driver) -> None:
    come_back(driver, 0, 9)
    commit = give(driver, COMMIT, asks.commit("g", 5), following=8)
    driver.pump()
    assert commit not in driver.replies
    last = come_back(driver, 1, 0)
    assert {commit, last} <= driver.replies.keys()


def test_a_request_for_the_group_sees_what_is_written(driver: Driver) -> None:
    waiting = come_back(driver, 0, 9)
    described = driver.ask(DESCRIBE, 5, DESCRIBED).groups[0]
    assert driver.replies[waiting].member_id in {each.member_id for each in described.members}
    assert group_records(driver) == 1


def test_what_was_not_answered_may_be_lost_and_nothing_else(driver: Driver) -> None:
    member_id = driver.replies[come_back(driver, 0, 0)].member_id
    come_back(driver, 0, 9)
    assert isinstance(driver.log, MemoryLog)
    again = Driver(driver.log.crash()).load()
    described = again.ask(DESCRIBE, 5, DESCRIBED).groups[0]
    assert member_id in {each.member_id for each in described.members}


def test_members_wait_for_their_record_while_another_groups_requests_are_handled_again(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "BATCH_BYTES", 20_000)
    monkeypatch.setattr(containment, "GROUP_BYTES_MAX", 20_000)
    large = "o" * 12_000
    commits = [give(driver, COMMIT, asks.commit(large, 5, partition=n)) for n in (0, 1)]
    member = give(driver, JOIN, asks.join("g", instance="i0"), 9)
    effects = driver.host.drain(driver.now)
    assert effects is not None
    assert not {reply.ticket for reply in effects.replies} & {member, *commits}
    driver.turn._carry_out(effects, driver.now)
    driver.pump()
    driver.wait(RUN_MS)
    assert driver.replies.keys() >= {member, *commits}
    for ticket in commits:
        (committed,) = driver.replies[ticket].topics[0].partitions
        assert committed.error_code == 0
