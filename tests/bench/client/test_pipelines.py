"""The generator against one coordinator: whole groups at once, closed loop, paced."""

import pytest

from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import (
    AnswerError,
    Pipeline,
    RepeatedRequest,
    all_latencies,
    closed_loop,
    paced,
)
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner, heartbeat
from protocol.client.frames import HEARTBEAT_ANSWER, frame_of
from tests.waiting import WITHIN_S, until

MEMBERS = 40
ANSWER = HEARTBEAT_ANSWER.pack(HEARTBEAT_ANSWER.size - 4, 0, 0)


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.close()


def joiner(node, reactor, is_static=False):
    instance_ids = [f"i{n:02d}" if is_static else None for n in range(MEMBERS)]
    plan = GroupPlan(group_id="g", topic="t", instance_ids=instance_ids)
    return Joiner(plan, reactor, reactor.open(node.address, MEMBERS))


def described(node):
    with BlockingClient(node.address) as connection:
        (group,) = connection.describe(("g",))
        return group


def test_a_whole_group_joins_at_once(node, reactor):
    joiner(node, reactor).join_all()
    group = described(node)
    assert (group.group_state, len(group.members)) == ("Stable", MEMBERS)


def test_newcomers_join_a_group_in_one_rebalance(node, reactor):
    joining = joiner(node, reactor)
    joining.join_first()
    before = joining.generation
    joining.join_others()
    assert joining.generation == before + 1
    assert len(described(node).members) == MEMBERS


def test_static_members_come_back_without_a_rebalance(node, reactor):
    """KIP-345."""
    first = joiner(node, reactor, is_static=True)
    first.join_all()
    again = joiner(node, reactor, is_static=True)
    again.join_all()
    assert again.generation == first.generation
    assert not {each.member_id for each in first.members} & {
        each.member_id for each in again.members
    }


def test_every_request_of_a_closed_loop_and_of_a_pace_is_answered_and_timed(node, reactor):
    joining = joiner(node, reactor)
    joining.join_all()
    requests = [RepeatedRequest(frame_of(heartbeat(member)), ANSWER) for member in joining.members]
    pipelines = [
        Pipeline(channel, requests[number::2])
        for number, channel in enumerate(reactor.open(node.address, 2))
    ]
    counts = []

    def is_more_sent_after_answers():
        counts.append(closed_loop(reactor, pipelines, 4, 0.2))
        return counts[-1] > len(pipelines) * 4

    until(is_more_sent_after_answers, WITHIN_S, "more is answered than can wait at a time")
    assert paced(reactor, pipelines, 200, 0.2) == 40
    assert len(all_latencies(pipelines)) == sum(counts) + 40
    assert min(all_latencies(pipelines)) > 0


def test_an_answer_that_is_not_the_expected_one_is_an_error(node, reactor):
    joining = joiner(node, reactor)
    joining.join_all()
    joining.members[0].kernel.generation += 1
    wrong = RepeatedRequest(frame_of(heartbeat(joining.members[0])), ANSWER)
    (channel,) = reactor.open(node.address, 1)
    with pytest.raises(AnswerError):
        paced(reactor, [Pipeline(channel, [wrong])], 10, 0.1)
