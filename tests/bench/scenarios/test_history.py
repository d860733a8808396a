"""The rows of a run that are about no life: what was done to it, and which offsets were read."""

import pytest

pytest.importorskip("pyspark")

from bench.histories.schema import CHANGE, FAULT, FETCHED, GROUP
from bench.scenarios import simulated
from bench.scenarios.done_faults import DoneFault
from bench.scenarios.files import parse
from bench.scenarios.history import rows_of_run
from bench.scenarios.plan import expand
from bench.scenarios.reads import OffsetsRead
from bench.scenarios.record import ScenarioRecord

TEXT = """
about = "x"
duration = "40s"
topics.t.partitions = 2
faults = [{ do = "kill", at = "10s" }, { do = "freeze", at = "20s", for = "5s" }]
[[groups]]
name = "a"
topics = ["t"]
behaviours = [{ do = "pause", at = "20s", for = "15s" }]
"""
SCENARIO = parse("s", TEXT)
BEGAN_MS = 1_000


def rows(*, faults=(), reads=()):
    record = ScenarioRecord(
        lives=(), changed_ms=BEGAN_MS + 10_000, ended_ms=BEGAN_MS + 40_000, committed={},
        partitions=SCENARIO.partitions_by_group(), began_ms=BEGAN_MS, faults=faults, reads=reads,
    )  # fmt: skip
    return list(rows_of_run(SCENARIO, expand(SCENARIO), record))


def test_faults_that_did_not_happen_have_no_row():
    assert [row.kind for row in rows()] == [GROUP, CHANGE, CHANGE]


def test_a_fault_has_a_row_when_it_happened_and_when_it_ended():
    done = (DoneFault(10_500, "kill", 2), DoneFault(23_000, "freeze", 0, 28_000))
    found = [(row.time_ms, row.cause) for row in rows(faults=done) if row.kind == FAULT]
    assert found == [
        (11_500, "kill node 2"), (24_000, "freeze node 0"), (29_000, "end of freeze node 0"),
    ]  # fmt: skip


def test_a_change_that_lasts_has_a_row_when_it_ends():
    found = [(row.time_ms, row.cause, row.group_id) for row in rows() if row.kind == CHANGE]
    assert found[0] == (21_000, "pause", "a")
    assert found[-1] == (36_000, "pause", "a")


def test_each_read_of_offsets_has_a_row_with_both_its_times():
    read = OffsetsRead("a", 5_000, 5_007, {("t", 0): 7})
    (found,) = (row for row in rows(reads=[read]) if row.kind == FETCHED)
    assert (found.asked_ms, found.time_ms, found.group_id) == (5_000, 5_007, "a")
    assert found.offsets == {"t-0": 7}


def test_a_simulated_run_reads_beside_its_members_before_and_after_faults():
    plan = expand(SCENARIO)
    record = simulated.run(SCENARIO, plan, lambda _at_ms, _text: None)
    assert [(each.word, each.at_ms, each.ended_ms) for each in record.faults] == [
        ("kill", 10_000, None), ("freeze", 20_000, 25_000),
    ]  # fmt: skip
    asked = [each.asked_ms - record.began_ms for each in record.reads]
    assert asked == sorted(asked)
    assert {0, 9_000, 11_000, 25_000} <= {*asked}
    assert not {*range(20_000, 24_900)} & {*asked}, "while the coordinator stands still"
    assert all(0 < each.time_ms - each.asked_ms < 3_000 for each in record.reads[:-1])
    last = record.reads[-1]
    assert {("a", *name): offset for name, offset in last.offsets.items()} == record.committed
    assert last.asked_ms > record.ended_ms
