"""The scenarios that come with the program: each one's figures show what it is about."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from bench.pages.document import GroupStory, RunReport
from bench.pages.page import page
from bench.pages.rebalances import NOBODY, VERBS
from bench.pages.runs import ReportedRun, report
from bench.rehearsals.comparison import Comparison
from bench.scenarios import simulated
from bench.scenarios.files import found, found_variants, names
from bench.scenarios.inference import InferredCause
from bench.scenarios.plan import expand
from bench.scenarios.record import GroupCosts, ScenarioRecord
from bench.scenarios.scenario import BASE, NO_LIMITS, GroupLimits, Scenario
from bench.scenarios.verdicts.verdict import LIMITS, ScenarioVerdict, judge
from tests.bench.rehearsals.shortened import fewer

Costs = Mapping[str, GroupCosts]

SHOWS: Final[Mapping[str, Callable[[Costs], bool]]] = {
    "assignment-interval": lambda of: of["consumer"].rebalances > 8 < of["streams"].rebalances,
    "autoscaler-flapping": lambda of: (
        of["hasty"].rebalances > 3 * of["patient"].rebalances and of["hasty"].moved > 50
    ),
    "bad-application": lambda of: of["bad"].rebalances > 20 and not of["neighbour"].rebalances,
    "churn": lambda of: (
        of["classic"].unavailable_member_ms > 10 * of["modern"].unavailable_member_ms
    ),
    "cooperative-deploy": lambda of: (
        min(of["range"].unavailable_member_ms, of["sticky"].unavailable_member_ms)
        > 5 * of["cooperative"].unavailable_member_ms
        and of["range"].moved > 2 * max(of["sticky"].moved, of["cooperative"].moved)
    ),
    "crash-restart": lambda of: (
        of["same-instance-id"].rebalances == 0
        and min(of[name].unowned_ms for name in ("new-instance-id", "no-instance-id")) > 40_000
    ),
    "deploy-by-protocol": lambda of: (
        of["classic"].unavailable_member_ms
        > 10 * max(of[name].unavailable_member_ms for name in ("modern", "shared", "streams"))
    ),
    "fifty-thousand": lambda of: not any(each.moved for each in of.values()),
    "kafka-broker-failure": lambda of: not any(each.moved for each in of.values()),
    "kafka-broker-rolling-bounce": lambda of: not any(each.moved for each in of.values()),
    "kafka-consumer-bounce": lambda of: of["classic"].rebalances == of["modern"].rebalances == 6,
    "kafka-consumer-migration": lambda of: (
        of["upgrade-static"].moved == of["downgrade-static"].moved == 0
        and min(of["upgrade"].moved, of["downgrade"].moved) > 0
    ),
    "kafka-group-consumption": lambda of: of["classic"].rebalances == of["modern"].rebalances == 4,
    "kafka-consumer-failure": lambda of: (
        of["classic"].causes == of["modern"].causes == {"expired": 1}
    ),
    "kafka-offline-migration": lambda of: (
        min(each.unowned_ms for each in of.values()) > 60_000
        and min(each.unavailable_member_ms for each in of.values()) > 20_000
    ),
    "kafka-static-bounce": lambda of: (
        of["static"].revoked == of["modern-static"].revoked == 0
        and min(of["dynamic"].revoked, of["modern-dynamic"].revoked) > 0
    ),
    "kafka-static-fencing": lambda of: (of["static"].failed, of["modern"].failed) == (1, 1),
    "kafka-static-persisted": lambda of: of["static"].moved == of["modern"].moved == 0,
    "kafka-valid-assignment": lambda of: (
        of["classic"].most == of["modern"].most == 2
        and max(each.unowned_ms for each in of.values()) < 3_000
    ),
    "leader-loss-in-deploy": lambda of: of["orders"].rebalances == 0,
    "long-pauses": lambda of: (
        of["shorter"].rebalances == 0 and min(of["longer"].moved, of["modern"].moved) > 0
    ),
    "mass-restart": lambda of: (
        of["static"].rebalances == 0 and of["dynamic"].unowned_ms > 2 * of["static"].unowned_ms
    ),
    "mass-restart-ten-thousand": lambda of: not any(each.moved for each in of.values()),
    "migration-in-deploy": lambda of: (
        of["static"].rebalances == 0
        and of["orders"].unavailable_member_ms < of["stays-classic"].unavailable_member_ms
    ),
    "node-drains": lambda of: of["one-by-one"].rebalances > of["all-at-once"].rebalances > 0,
    "pod-names-on-a-deployment": lambda of: (
        of["stateful-set"].rebalances == 0 and of["deployment"].unowned_ms > 40_000
    ),
    "poll-timeout": lambda of: of["dynamic"].rebalances == of["modern"].rebalances == 4,
    "rolling-deploy": lambda of: of["static"].moved == 0 and of["dynamic"].moved > 50,
    "scale-steps": lambda of: of["ordered"].rebalances > of["at-once"].rebalances > 0,
    "session-timeouts": lambda of: (
        of["crashes"].unowned_ms > 40_000 and of["pauses"].rebalances == 0
    ),
    "slow-revokes": lambda of: (
        of["classic"].unavailable_member_ms > 10 * of["modern"].unavailable_member_ms
        and of["classic"].unavailable_member_ms > 10 * of["quick"].unavailable_member_ms
    ),
    "steady": lambda of: not any(each.moved or each.unavailable_member_ms for each in of.values()),
    "streams-scale-out": lambda of: of["streams"].members == 12,
    "ten-thousand": lambda of: of["bad"].rebalances > 5 and not of["dynamic-0"].rebalances,
    "uneven-racks": lambda of: of["modern"].most == 8 and of["modern"].rebalances >= 2,
    "which-deploy": lambda of: of["orders"].rebalances > 0,
    "zombie": lambda of: (
        of["classic"].failed == of["modern"].failed == 1 and of["modern"].moved == 0
    ),
}


def test_each_scenario_has_a_row() -> None:
    assert set(SHOWS) == set(names())


MEMBERS_MAX: Final = 200
"""The simulator takes minutes for more."""


def text_of(verdict: ScenarioVerdict) -> str:
    return Comparison([verdict]).text()


def simulated_verdict(scenario: Scenario) -> ScenarioVerdict:
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    return judge(scenario, record, "simulated")


@pytest.mark.parametrize("name", SHOWS)
def test_a_shipped_scenario_is_clean_and_shows_what_it_is_about(name: str) -> None:
    scenario = fewer(found(name), MEMBERS_MAX)
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    verdict = judge(scenario, record, "simulated")
    assert verdict.is_clean, text_of(verdict)
    costs = {each.group.name: each.costs for each in verdict.groups}
    assert SHOWS[name](costs), text_of(verdict)
    tells_the_story(scenario, record, verdict)


def tells_the_story(scenario: Scenario, record: ScenarioRecord, verdict: ScenarioVerdict) -> None:
    """The report has what happened as marks, what each group paid, and pictures of groups."""
    run = ReportedRun(name=BASE, record=record, verdict=verdict)
    document = report(scenario.name, scenario.about, [run])
    (told,) = document.runs
    assert {each.group for each in told.costs} == {each.name for each in scenario.groups}
    assert {each.group for each in told.stories} <= {each.name for each in scenario.groups}
    assert told.stories
    tells_the_causes(told, verdict)
    marked = " ".join(mark.text for mark in told.marks)
    for fault in scenario.faults:
        assert str(type(fault).__struct_config__.tag) in marked
    for group in scenario.groups:
        for behaviour in group.behaviours:
            assert str(type(behaviour).__struct_config__.tag) in marked
    assert scenario.about in page(document)


def kind_told(cause: str) -> InferredCause:
    if cause == NOBODY:
        return InferredCause.OTHER
    first, *_ = cause.split("; ")
    (kind,) = [each for each, verb in VERBS.items() if first.endswith(verb.removeprefix("was "))]
    return kind


def causes_told(story: GroupStory) -> dict[str, int]:
    """Count a group's rebalances on the page by what is told of them first, as the verdict does."""
    later = [each for each in story.rebalances if not each.is_initial]
    counts = Counter(kind_told(each.cause) for each in later)
    return {cause.value: counts[cause] for cause in InferredCause if counts[cause]}


def tells_the_causes(told: RunReport, verdict: ScenarioVerdict) -> None:
    """The page puts rebalances down to the same causes as the verdict."""
    paid = {each.group.name: each.costs for each in verdict.groups}
    for story in told.stories:
        assert causes_told(story) == paid[story.group].causes, story.rebalances


QUIET: Final[Mapping[str, str]] = {
    "steady": "nothing happens: it shows that members keep what they have",
    "fifty-thousand": "members must not notice that leaders are killed",
    "kafka-broker-failure": "members must not notice that the coordinator fails",
    "kafka-broker-rolling-bounce": "members must not notice that brokers are restarted",
}
"""Scenarios in which no group may pay anything, so that they cost the same as without faults."""

UNNOTICED: Final[Mapping[tuple[str, str], str]] = {
    ("long-pauses", "shorter"): "a pause shorter than the session costs nothing",
    ("session-timeouts", "pauses"): "with the usual session, pauses of 15 s cost nothing",
}
"""Groups that something happens to, and that must not pay for it."""


def calm(scenario: Scenario) -> Scenario:
    """Return a scenario without all that happens in it."""
    groups = tuple(replace(group, behaviours=()) for group in scenario.groups)
    return replace(scenario, groups=groups, faults=())


@pytest.mark.parametrize("name", SHOWS)
def test_each_group_of_a_shipped_scenario_has_an_expectation(name: str) -> None:
    for variant, scenario in found_variants(name).items():
        without = [group.name for group in scenario.groups if group.expect == NO_LIMITS]
        assert not without, f"{variant}: {', '.join(without)}"


@pytest.mark.parametrize("name", SHOWS)
def test_what_a_shipped_scenario_must_see_is_missed_where_nothing_happens(name: str) -> None:
    """Of each group with behaviours, in each variant; what cannot be missed is listed."""
    for variant, whole in found_variants(name).items():
        scenario = fewer(whole, MEMBERS_MAX)
        happens = {group.name for group in scenario.groups if group.behaviours}
        assert bool(happens) == (name not in QUIET)
        if not happens:
            continue
        verdict = simulated_verdict(calm(scenario))
        missed = {each.group.name for each in verdict.groups if each.exceeded}
        silent = {each for each in happens if (name, each) in UNNOTICED}
        if variant == BASE:
            assert missed == happens - silent, text_of(verdict)
        else:
            assert happens - silent <= missed <= happens, f"{variant}: {text_of(verdict)}"


def test_what_need_not_be_missed_is_listed_for_scenarios_that_are_there() -> None:
    shipped = {(name, group.name) for name in SHOWS for group in found(name).groups}
    assert set(UNNOTICED) <= shipped
    assert set(QUIET) <= set(SHOWS)


COMPARED: Final = ("assignment-interval", "kafka-static-bounce", "session-timeouts")
"""Scenarios of which all variants are run below."""


@pytest.mark.parametrize(
    "name", [each for each in SHOWS if found(each).variants and each not in COMPARED]
)
def test_each_variant_of_a_shipped_scenario_is_clean(name: str) -> None:
    variants = found_variants(name)
    del variants[BASE]  # which is tested above
    for variant, scenario in variants.items():
        record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
        verdict = judge(scenario, record, "simulated")
        assert verdict.is_clean, f"{variant}: {text_of(verdict)}"
        run = ReportedRun(name=variant, record=record, verdict=verdict)
        (told,) = report(scenario.name, scenario.about, [run]).runs
        tells_the_causes(told, verdict)


def variants_of(name: str) -> dict[str, Costs]:
    """Return what each variant costs each group; all must be clean."""
    found = {}
    for variant, scenario in found_variants(name).items():
        verdict = simulated_verdict(scenario)
        assert verdict.is_clean, f"{variant}: {text_of(verdict)}"
        found[variant] = {each.group.name: each.costs for each in verdict.groups}
    return found


def test_a_static_member_that_crashed_is_refused_in_a_consumer_group_only() -> None:
    """KIP-848: UNRELEASED_INSTANCE_ID; in a classic group the new one takes over at once."""
    costs = variants_of("kafka-static-bounce")
    for hard in ("rolling-hard", "all-hard"):
        assert (costs[hard]["modern-static"].failed, costs[hard]["static"].failed) == (2, 0)
        assert costs[hard]["modern-static"].causes.keys() == {"expired"}
    for clean in (BASE, "all-clean"):
        assert not any(each.failed for each in costs[clean].values())


def test_a_shorter_session_finds_crashes_sooner_and_takes_a_pause_for_one() -> None:
    costs = variants_of("session-timeouts")
    in_order = [costs[variant] for variant in ("10s", "20s", BASE, "2m")]
    unowned = [of["crashes"].unowned_ms for of in in_order]
    assert unowned == sorted(unowned)
    assert unowned[-1] > 10 * unowned[0]
    assert [of["pauses"].rebalances for of in in_order] == [4, 0, 0, 0]


def test_a_longer_assignment_interval_makes_fewer_rebalances_of_many_joins() -> None:
    """KIP-1263: members that join within an interval are assigned to at once."""
    costs = variants_of("assignment-interval")
    for group in ("consumer", "streams"):
        at_once, later = costs["at-once"][group], costs["15s"][group]
        assert at_once.rebalances == 12
        assert later.rebalances <= 6
        assert later.members == at_once.members == 16


@pytest.mark.parametrize("without", ["nodes", "pods", "awareness"])
def test_without_racks_the_lonely_pod_of_uneven_racks_has_no_more_than_others(without: str) -> None:
    scenario = found("uneven-racks")
    (group,) = scenario.groups
    changed = {
        "nodes": replace(scenario, racks=()),
        "pods": replace(scenario, groups=(replace(group, racks=(), behaviours=()),)),
        "awareness": replace(scenario, configs={}),
    }[without]
    verdict = simulated_verdict(changed)
    (judged,) = verdict.groups
    assert judged.costs.most == 3
    assert "3 partitions of the member that has most in the end" in text_of(verdict)


def is_within(limits: GroupLimits, paid: GroupCosts) -> bool:
    wanted = {name: getattr(limits, name) for name in LIMITS}
    return all(
        wanted[name] is None or bound.keeps(measure.value(paid), wanted[name])
        for name, (measure, bound) in LIMITS.items()
    )


def test_what_kafka_cannot_do_is_not_expected_of_it() -> None:
    """Its assignors ignore racks: it does what we do without awareness of them."""
    variants = found_variants("uneven-racks")
    verdict = simulated_verdict(variants["not-aware"])
    for name, scenario in variants.items():
        judged = scenario.on_kafka()
        (group,) = judged.groups
        (paid,) = verdict.groups
        assert is_within(group.expect, paid.costs), name
    assert not is_within(variants[BASE].groups[0].expect, verdict.groups[0].costs)


def test_each_group_among_ten_thousand_members_has_a_limit_on_what_it_may_notice() -> None:
    for group in found("ten-thousand").groups:
        assert group.expect.members_min == group.replicas, group.name
        assert group.expect.unavailable_member_seconds_max, group.name
