"""A scenario's run as a history: nothing is wrong, and it costs what its verdict says."""

import pytest

pytest.importorskip("pyspark")

from bench.histories.episodes import EXPIRED, JOINED, LEFT, REJOINED, rebalances
from bench.histories.prepared import PreparedHistory
from bench.histories.schema import CHANGE, FAULT, FETCHED, FINAL, GROUP, SCHEMA, STARTED
from bench.histories.store import RunFacts
from bench.histories.verdict import costs_by_group, judge_history
from bench.scenarios import simulated
from bench.scenarios.files import parse
from bench.scenarios.history import history_rows
from bench.scenarios.plan import expand
from bench.scenarios.record import costs

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

GROUPS = {
    "static": ("classic", True, '{ do = "crash", at = "20s", away = "60s" }'),
    "twins": ("classic", True, '{ do = "duplicate", at = "60s" }'),
    "flaps": ("classic", False, '{ do = "flap", at = "20s", every = "15s", topics = ["u"] }'),
    "cooperates": ("classic", False, '{ do = "rolling-deploy", at = "30s" }'),
    "sleeps": ("classic", False, '{ do = "pause", at = "30s", for = "60s" }'),
    "rolls": ("consumer", False, '{ do = "rolling-deploy", at = "30s" }'),
    "crashes": ("consumer", True, '{ do = "crash", at = "20s", away = "60s" }'),
    "shares": ("share", False, '{ do = "scale", at = "30s", replicas = 2 }'),
    "streams": ("streams", False, '{ do = "rolling-deploy", at = "30s" }'),
}
SCENARIO = """
about = "applications of every kind"
duration = "3m"
topics = { t = { partitions = 6 }, u = { partitions = 2 } }
faults = [{ do = "kill", at = "110s" }]
"""
SAME = {
    "members": "members",
    "rebalances": "rebalances",
    "unavailable-member-ms": "unavailable_member_ms",
    "moved": "moved",
    "unowned-ms": "unowned_ms",
    "failed": "failed",
    "survivor-revocations": "revoked",
}
"""Costs of a history by the fields of a scenario's costs."""


def written():
    text = SCENARIO
    for name, (protocol, is_static, behaviour) in GROUPS.items():
        text += f'[[groups]]\nname = "{name}"\ntopics = ["t"]\nprotocol = "{protocol}"\n'
        if name == "cooperates":
            text += 'assignor = "cooperative-sticky"\nrevoke_time = "1s"\n'
        text += f"static = {str(is_static).lower()}\nbehaviours = [{behaviour}]\n"
    return parse("every-kind", text)


@pytest.fixture(scope="module")
def run():
    """Return the scenario, its record and its rows."""
    scenario = written()
    plan = expand(scenario)
    record = simulated.run(scenario, plan, lambda _at_ms, _text: None)
    return scenario, record, list(history_rows(scenario, plan, record))


@pytest.fixture(scope="module")
def history(session, run):
    _, record, rows = run
    facts = RunFacts(
        run_id="a", what="a run", changed_ms=record.changed_ms, ended_ms=record.ended_ms
    )
    return PreparedHistory(session.createDataFrame(rows, SCHEMA).localCheckpoint(), facts)


def test_every_life_group_and_change_has_its_rows(run):
    scenario, record, rows = run
    kinds = [row.kind for row in rows]
    assert kinds.count(GROUP) == len(scenario.groups)
    assert [row.cause for row in rows if row.kind == FAULT] == [str(record.faults[0])]
    assert kinds.count(STARTED) == len(record.lives)
    assert kinds.count(FINAL) == sum(each.timeline.seen_ms is not None for each in record.lives)
    assert {row.group_id for row in rows if row.kind == FETCHED} == {*GROUPS} - {"shares"}
    assert kinds.count(FETCHED) > 500, "members are not alone: somebody reads all the time"


def test_what_a_behaviour_repeats_and_its_end_are_changes(run):
    _, record, rows = run
    changed = {name: [] for name in GROUPS}
    for row in rows:
        if row.kind == CHANGE:
            changed[row.group_id].append((row.time_ms - record.began_ms) // 1000)
    assert changed["sleeps"] == [30, 90]
    assert changed["twins"] == [60, 90]
    assert changed["static"] == [20, 80]
    assert {each for each in changed["flaps"] if each < 60} == {20, 35, 50}


def test_spark_finds_nothing_wrong(history):
    verdict = judge_history(history)
    assert verdict.is_clean, verdict.text()
    assert sum(each.count for each in verdict.outcomes) == 0, verdict.text()
    assert verdict.cost("commits") > 0


def test_spark_computes_the_same_costs_as_the_verdict_of_the_scenario(run, history):
    """But for moves in share groups, whose members share partitions: Spark counts none."""
    _, record, _ = run
    found = {
        (row["group_id"], row["cost"]): row["value"] for row in costs_by_group(history).collect()
    }
    for group in GROUPS:
        told = costs(record, group)
        for name, field in SAME.items():
            if (group, name) != ("shares", "moved"):
                assert found.get((group, name), 0) == getattr(told, field), f"{name} of {group}"


def test_rebalances_have_the_causes_that_the_scenario_made(history):
    causes = {}
    for row in rebalances(history).collect():
        causes.setdefault(row["group_id"], set()).add(row["cause"])
    assert EXPIRED in causes["static"]
    assert causes["flaps"] == {REJOINED}
    assert EXPIRED in causes["crashes"]
    assert causes["rolls"] <= {JOINED, LEFT}
