"""Every check finds its planted fault and nothing else; every cost grows with its own."""

import pytest

pytest.importorskip("pyspark")

from bench.histories.checks import CHECKS, Severity
from bench.histories.costs import COSTS, by_cause
from bench.histories.episodes import EXPIRED, LEFT, TOLD_AGAIN
from bench.histories.made import GROUPS_MIN
from bench.histories.planted import FAULTS, group_of, groups_of, subject_of, unharmed
from bench.histories.prepared import PreparedHistory
from bench.histories.store import PREFIX, read_facts, read_run
from bench.histories.verdict import EXAMPLES_MAX, CostLimit, costs_by_group, judge_history

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def opened(session, runs, name):
    run = runs / f"{PREFIX}{name}"
    facts = read_facts(run)
    return PreparedHistory(read_run(session, run, facts), facts)


@pytest.fixture(scope="module")
def with_faults(session, runs):
    return opened(session, runs, "planted")


@pytest.fixture(scope="module")
def without_faults(session, runs):
    return opened(session, runs, "clean")


@pytest.fixture(scope="module")
def planted(with_faults):
    return judge_history(with_faults)


@pytest.fixture(scope="module")
def costs(with_faults):
    """Return each figure by cost and group."""
    rows = costs_by_group(with_faults).collect()
    return {(row["cost"], row["group_id"]): row["value"] for row in rows}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_finds_its_planted_fault_and_no_other(planted, name):
    (outcome,) = (each for each in planted.outcomes if each.check == name)
    assert {each.group_id for each in outcome.examples} == groups_of(name)
    assert len(outcome.examples) == min(outcome.count, EXAMPLES_MAX)
    assert f"{name}: {CHECKS[name].sentence}" in planted.text()


@pytest.mark.parametrize("name", [name for name in FAULTS if subject_of(name) in COSTS])
def test_a_cost_is_more_where_its_fault_was_planted(costs, name):
    cost = subject_of(name)
    faultless = costs.get((cost, unharmed(FAULTS[name].protocol)), 0)
    assert costs[cost, group_of(name)] > faultless


def test_planted_faults_make_the_verdict_unclean(planted):
    assert not planted.is_clean
    assert planted.text().endswith("verdict: NOT CLEAN")
    document = planted.document()
    assert {name for name, each in document["checks"].items() if each["count"]} == {*CHECKS}


def test_a_made_history_is_clean_until_a_limit_is_exceeded(without_faults):
    made = 3 * GROUPS_MIN
    limits = [CostLimit.parse(f"rebalances > {made - 1}"), CostLimit.parse("moved>100000")]
    verdict = judge_history(without_faults, limits)
    assert [each for each in verdict.outcomes if each.count] == []
    assert verdict.exceeded == (f"rebalances is {made}, and at most {made - 1} is allowed.",)
    assert not verdict.is_clean
    assert "clean" not in verdict.text().splitlines()
    assert verdict.cost("rebalances") == made
    assert verdict.cost("members") == 7 * GROUPS_MIN


def test_rebalances_have_the_causes_that_were_made(without_faults):
    rows = by_cause(without_faults).collect()
    counts = {row["cause"]: row["rebalances"] for row in rows}
    assert counts == dict.fromkeys((EXPIRED, TOLD_AGAIN, LEFT), GROUPS_MIN)


def test_what_is_suspect_does_not_fail_a_verdict():
    assert {each.severity for each in CHECKS.values()} == {*Severity}
