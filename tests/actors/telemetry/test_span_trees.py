"""What a trace of a rebalance tells beside its cause: slow members, replication, failovers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.logs.leader_changes import ChangeReason, LeaderChange
from actors.telemetry.compute_traces import ComputeTraces
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.failover_traces import KEPT_MAX as FAILOVERS_MAX
from actors.telemetry.failover_traces import LINKS_MAX, TOLD_AFTER_MS
from actors.telemetry.run_contexts import KEPT_MAX, RunContexts, read
from actors.telemetry.traces import ROOTS_MAX, Traces
from protocol.groups.facts import RebalanceOutcome, ResultReplicated
from tests.actors.telemetry.causes import consumer, share, streams
from tests.actors.telemetry.facts import NOW, rebalance, reconciled, target_assigned
from tests.actors.telemetry.rebalances import awaited_twice, of_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from protocol.groups.facts import Fact


class Stage:
    """Traces into memory."""

    def __init__(self, partition_of: Callable[[str], int] | None = None) -> None:
        self.exporter, self.drops = InMemorySpanExporter(), TelemetryDrops()
        self.contexts = RunContexts()
        resource = {"service.instance.id": "coordinator-2"}
        self.traces = Traces(resource, self.drops, self.exporter, self.contexts, partition_of)

    def tell(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.traces.tell(fact, None)

    def spans(self, name: str) -> Sequence[ReadableSpan]:
        """Close, and return the spans of that name."""
        self.traces.close(10)
        return [each for each in self.exporter.get_finished_spans() if each.name == name]

    def roots(self, group_id: str) -> Sequence[ReadableSpan]:
        """Close, and return the root spans of a group's rebalances."""
        self.traces.close(10)
        return [
            each
            for each in self.exporter.get_finished_spans()
            if each.parent is None and said(each, "messaging.consumer.group.name") == group_id
        ]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def replicated(number: int, group_id: str = "orders") -> ResultReplicated:
    return ResultReplicated(
        group_id=group_id,
        number=number,
        partition=3,
        end_offset=9,
        appended_ms=NOW + 212,
        time_ms=NOW + 230,
    )


def said(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def test_the_slowest_members_of_a_large_group_are_named_and_the_others_counted(
    stage: Stage,
) -> None:
    stage.tell(of_many(10_000))
    (reconcile,) = stage.spans("reconcile")
    assert said(reconcile, "rollcall.members.not_shown") == 9_990
    takeovers = stage.spans("take-over")
    assert len(takeovers) == 10
    assert said(takeovers[-1], "messaging.client.id") == "m-9"
    assert takeovers[-1].end_time == (NOW + 209) * 10**6


def test_a_member_that_was_awaited_when_the_next_target_came_is_named(stage: Stage) -> None:
    stage.tell(awaited_twice())
    found = {
        said(each, "messaging.client.id"): said(each, "rollcall.member.awaited")
        for each in stage.spans("take-over")
    }
    assert found == {"quick": None, "slow": "true"}


def test_that_a_result_is_replicated_is_told_also_after_its_trace_has_ended(stage: Stage) -> None:
    stage.tell([rebalance(), replicated(5)])
    (root,) = stage.roots("orders")
    (append,), (late,) = stage.spans("append"), stage.spans("replicate")
    assert append.parent == root.context
    assert (append.start_time, append.end_time) == ((NOW + 212) * 10**6, (NOW + 212) * 10**6)
    assert late.parent is not None
    assert late.parent == root.context
    assert (late.start_time, late.end_time) == ((NOW + 212) * 10**6, (NOW + 230) * 10**6)
    assert said(late, "messaging.destination.partition.id") == "3"


def test_a_result_of_a_trace_that_is_not_known_any_more_is_left_out(stage: Stage) -> None:
    stage.tell([rebalance()])
    stage.tell(rebalance(group_id=f"g{each}") for each in range(ROOTS_MAX))
    stage.tell([replicated(5), replicated(5, "never-seen"), replicated(77, "g1")])
    assert not stage.spans("replicate")
    assert not stage.spans("append")


def test_the_append_of_a_classic_group_begins_with_the_end_of_its_rebalance(stage: Stage) -> None:
    """A large result waits for the log; a rebalance that another one overtakes has no result."""
    waited = replace(replicated(5), appended_ms=NOW + 260, time_ms=NOW + 270)
    stage.tell([rebalance(), waited, waited])
    stage.tell([rebalance(outcome=RebalanceOutcome.RESTARTED, generation_after=6), replicated(6)])
    stage.tell([target_assigned(), reconciled(), replicated(5)])
    (append,) = (each for each in stage.spans("append") if each.parent == root_of(stage, 5))
    assert (append.start_time, append.end_time) == ((NOW + 212) * 10**6, (NOW + 260) * 10**6)


def root_of(stage: Stage, generation: int) -> object:
    """The context of the root of a classic group's rebalance."""
    name = "rollcall.generation.after"
    (root,) = (each for each in stage.roots("orders") if said(each, name) == generation)
    return root.context


# --- failovers


def test_a_failover_and_the_rebalances_that_it_touched_are_linked(stage: Stage) -> None:
    taken_over = NOW - 500
    stage.tell([rebalance(elected_ms=taken_over), rebalance(group_id="b", elected_ms=taken_over)])
    stage.tell([target_assigned(group_id="c", elected_ms=taken_over), reconciled(group_id="c")])
    stage.tell([rebalance(group_id="calm", elected_ms=NOW - 500_000)])
    (failover,) = stage.spans("failover")
    touched = [*stage.roots("orders"), *stage.roots("b"), *stage.roots("c")]
    assert [link.context for link in failover.links] == [each.context for each in touched]
    for each in touched:
        (link,) = each.links
        assert link.context.span_id == failover.context.span_id  # type: ignore[union-attr]
        assert link.context.trace_id == failover.context.trace_id  # type: ignore[union-attr]
    assert failover.start_time == taken_over * 10**6
    assert failover.end_time == (NOW + 250) * 10**6
    (calm,) = stage.roots("calm")
    assert not calm.links


def test_a_failover_is_told_once_and_late(stage: Stage) -> None:
    stage.tell([rebalance(elected_ms=NOW)])
    stage.traces.tell_failovers(NOW + TOLD_AFTER_MS - 1)
    stage.traces.tell_failovers(NOW + TOLD_AFTER_MS)
    stage.traces.tell_failovers(None)
    assert len(stage.spans("failover")) == 1


def test_a_group_that_is_new_was_not_touched(stage: Stage) -> None:
    stage.tell([rebalance(elected_ms=NOW, generation_before=0)])
    stage.tell([target_assigned(epoch_before=0, elected_ms=NOW), reconciled()])
    assert not stage.spans("failover")


def test_the_links_of_a_failover_are_bounded(stage: Stage) -> None:
    stage.tell(rebalance(group_id=f"g{n}", elected_ms=NOW) for n in range(LINKS_MAX + 5))
    (failover,) = stage.spans("failover")
    assert len(failover.links) == LINKS_MAX
    assert said(failover, "rollcall.failover.rebalances") == LINKS_MAX + 5


def change(partition: int = 7, **fields: Any) -> LeaderChange:
    known = {"epoch": 5, "at_ms": NOW, "reason": ChangeReason.UNREACHABLE, "node": 1}
    return LeaderChange(partition=partition, **({"begins": True} | known | fields))


def test_a_failover_that_touches_no_rebalance_is_told_too(stage: Stage) -> None:
    end = change(3, begins=False, reason=ChangeReason.DRAINED, node=-1)
    for each in (change(), end, change(-1, epoch=6, reason=ChangeReason.NO_LEADER, node=-1)):
        stage.traces.tell_leader(each)
    stage.traces.tell_failovers(NOW + TOLD_AFTER_MS - 1)
    stage.traces.tell_failovers(NOW + TOLD_AFTER_MS)
    of_groups, of_catalogue = stage.spans("failover")
    assert not of_groups.links
    assert of_groups.start_time == of_groups.end_time == NOW * 10**6
    assert dict(of_groups.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.destination.name": "__consumer_offsets",
        "messaging.destination.partition.id": "7",
        "rollcall.failover.node": "coordinator-2",
        "rollcall.failover.node.before": 1,
        "rollcall.failover.partition": "partition 7",
        "rollcall.failover.epoch": 5,
        "rollcall.failover.reason": "unreachable",
        "rollcall.failover.rebalances": 0,
    }
    assert dict(of_catalogue.attributes or {}) == {
        "messaging.system": "kafka",
        "rollcall.failover.node": "coordinator-2",
        "rollcall.failover.partition": "the catalogue",
        "rollcall.failover.epoch": 6,
        "rollcall.failover.reason": "no-leader",
        "rollcall.failover.rebalances": 0,
    }


@pytest.mark.parametrize("is_told_first", [True, False])
def test_the_rebalances_of_a_partition_are_linked_to_its_failover_alone(
    is_told_first: bool,
) -> None:
    stage = Stage(lambda group_id: int(group_id[1:]))
    changes = [change(7, at_ms=NOW + 40), change(7, epoch=6, at_ms=NOW + 90_000), change(8)]
    touched = [rebalance(group_id="g7", elected_ms=NOW), rebalance(group_id="g7", elected_ms=NOW)]
    if is_told_first:
        for each in changes:
            stage.traces.tell_leader(each)
    stage.tell(touched)
    if not is_told_first:
        for each in changes:
            stage.traces.tell_leader(each)
    found = {
        (said(each, "rollcall.failover.partition"), said(each, "rollcall.failover.epoch")): each
        for each in stage.spans("failover")
    }
    assert {key: len(each.links) for key, each in found.items()} == {
        ("partition 7", 5): 2,
        ("partition 7", 6): 0,
        ("partition 8", 5): 0,
    }
    (link,) = {each.links[0].context.span_id for each in stage.roots("g7")}
    assert found["partition 7", 5].context.span_id == link  # type: ignore[union-attr]


def test_a_rebalance_that_ends_after_its_failover_was_told_has_a_link_to_it(stage: Stage) -> None:
    stage.tell([rebalance(elected_ms=NOW)])
    stage.traces.tell_failovers(NOW + TOLD_AFTER_MS)
    stage.tell([rebalance(group_id="slow", elected_ms=NOW)])
    (failover,) = stage.spans("failover")
    (slow,) = stage.roots("slow")
    assert slow.links[0].context.span_id == failover.context.span_id  # type: ignore[union-attr]


def test_the_failovers_that_wait_to_be_told_are_bounded(stage: Stage) -> None:
    for number in range(FAILOVERS_MAX + 5):
        stage.traces.tell_leader(change(number))
    stage.traces.tell_failovers(NOW)
    assert len(stage.spans("failover")) == FAILOVERS_MAX + 5
    told = [said(each, "messaging.destination.partition.id") for each in stage.spans("failover")]
    assert told == [str(number) for number in range(FAILOVERS_MAX + 5)], "the oldest first"


# --- the run in a worker


def in_worker(traceparent: str) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    traces = ComputeTraces({}, exporter)
    traces.tell(traceparent, (NOW * 10**6, (NOW + 4) * 10**6), {"rollcall.assignor.name": "own"})
    traces.close(10)
    return list(exporter.get_finished_spans())


def test_the_span_of_a_worker_is_in_the_trace_of_the_rebalance(stage: Stage) -> None:
    (computed,) = in_worker(stage.contexts.begin("orders", 7))
    stage.tell([target_assigned(run=7), reconciled()])
    (assign,) = stage.spans("assign")
    (root,) = stage.roots("orders")
    assert computed.parent is not None
    assert assign.context is not None
    assert root.context is not None
    assert computed.parent.span_id == assign.context.span_id
    assert computed.parent.trace_id == assign.context.trace_id == root.context.trace_id
    assert not stage.spans("compute"), "the worker has told it"


def test_without_a_context_the_coordinator_tells_of_the_run(stage: Stage) -> None:
    stage.contexts.begin("orders", 6)  # another run
    stage.tell([target_assigned(run=7), reconciled()])
    assert len(stage.spans("compute")) == 1


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "00-0-0-01", f"00-{'x' * 32}-{'1' * 16}-01", f"00-{'0' * 32}-{'0' * 16}-01"],
)
def test_what_is_no_context_is_ignored(text: str) -> None:
    assert read(text) is None
    assert in_worker(text) == []


def test_a_worker_samples_as_the_coordinator_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    sampled = 0
    for run in range(1, 41):
        stage = Stage()
        told = in_worker(stage.contexts.begin("orders", run))
        stage.tell([target_assigned(run=run), reconciled()])
        assert len(told) == len(stage.spans("assign"))
        sampled += len(told)
    assert 0 < sampled < 40


def test_contexts_are_bounded() -> None:
    contexts = RunContexts()
    for run in range(KEPT_MAX + 1):
        contexts.begin("orders", run)
    assert contexts.take("orders", 0) is None
    assert contexts.take("orders", 1) is not None
    assert contexts.take("orders", 1) is None


# --- fix-ups


@pytest.mark.parametrize("module", [consumer, share, streams], ids=lambda each: each.__name__)
def test_a_member_that_leaves_while_the_assignor_runs_is_a_fix_up(
    stage: Stage, module: Any
) -> None:
    """What the run said of it is not written."""
    talk = module.group("A", "B")
    talk.join("C")
    talk.leave("C")
    talk.work()
    stage.tell(talk.facts)
    (found,) = stage.spans("fix-up")
    assert said(found, "rollcall.assignor.fix_ups") == 1
    assert any(is_below(found, write) for write in stage.spans("write"))


def is_below(span: ReadableSpan, above: ReadableSpan) -> bool:
    assert span.parent is not None
    assert above.context is not None
    return span.parent.span_id == above.context.span_id
