"""That a rebalance's result is replicated is told once, at the commit of its records."""

from __future__ import annotations

from datetime import timedelta

from failover.partitions.results import WAITING_MAX, UnreplicatedResults
from failover.partitions.turn_output import TurnOutput
from protocol.groups.facts import (
    Fact,
    RebalanceEnded,
    RebalanceOutcome,
    ResultReplicated,
    TargetAssigned,
)
from protocol.wire.messages import ConsumerGroupHeartbeatRequest
from storage.log import MemoryLog
from tests.failover.hosts import T0, Driver
from tests.protocol.stories.facts import event, rebalance, target


def told(
    results: UnreplicatedResults, end_offset: int, now: int = 20
) -> list[tuple[str, int, int, int]]:
    found = results.committed(end_offset, now)
    return [(each.group_id, each.number, each.appended_ms, each.time_ms) for each in found]


def test_a_result_is_told_when_its_batch_is_committed() -> None:
    results = UnreplicatedResults(3)
    facts = [event(), rebalance(), target(group_id="other", epoch_after=9)]
    results.appended(facts, {"orders", "other"}, 5, 10)
    assert told(results, 4) == []
    assert told(results, 5) == [("orders", 8, 10, 20), ("other", 9, 10, 20)]
    assert told(results, 6) == []


def test_only_results_whose_records_were_appended_are_told() -> None:
    results = UnreplicatedResults(3)
    restarted = rebalance(outcome=RebalanceOutcome.RESTARTED)
    results.appended([restarted, target(group_id="later")], {"orders"}, 5, 10)
    assert told(results, 5) == []


def test_a_replica_that_ceases_to_lead_tells_nothing_more() -> None:
    results = UnreplicatedResults(3)
    results.appended([rebalance()], {"orders"}, 5, 10)
    results.clear()
    assert told(results, 5) == []


def test_results_that_wait_are_bounded() -> None:
    results = UnreplicatedResults(3)
    for number in range(WAITING_MAX + 5):
        results.appended([rebalance(group_id=f"g{number}")], {f"g{number}"}, number, 10)
    assert len(told(results, 10**6)) == WAITING_MAX


def test_a_turn_looks_at_each_fact_once() -> None:
    output = TurnOutput(3)
    output.facts += [rebalance()]
    assert len(output.take_unseen()) == 1
    assert output.take_unseen() == []
    output.facts += [target()]
    assert [type(each) for each in output.take_unseen()] == [TargetAssigned]
    output.take_back("orders")
    output.facts += [rebalance()]
    assert [type(each) for each in output.take_unseen()] == [RebalanceEnded]


class Observing(Driver):
    """A host whose facts are kept."""

    facts: list[Fact]

    def observe(self, fact: Fact) -> None:
        self.__dict__.setdefault("facts", []).append(fact)


def test_a_node_tells_it_after_the_target() -> None:
    driver = Observing(MemoryLog(), configs={"group.consumer.assignor.offload.enable": "false"})
    driver.load()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        instance_id=None,
        topic_partitions=(),
        subscribed_topic_names=("t",),
        rebalance_timeout=timedelta(seconds=60),
    )
    answer = driver.ask(request.__api_key__, 1, request)
    assert not answer.error_code, answer
    found = [each for each in driver.facts if isinstance(each, TargetAssigned | ResultReplicated)]
    made, replicated = found
    assert isinstance(made, TargetAssigned)
    assert isinstance(replicated, ResultReplicated)
    assert (replicated.group_id, replicated.number) == ("g", made.epoch_after)
    assert (replicated.partition, replicated.appended_ms) == (0, T0)
