"""Outputs of a rehearsal with very many groups can be read, and fit where they are written to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from bench.pages.markdown import markdown
from bench.pages.runs import ReportedRun, report
from bench.rehearsals.comparison import ROWS_MAX, Comparison
from bench.rehearsals.copies import in_first_copies
from bench.report.sentences import CHARACTERS_MAX, fitting
from bench.scenarios.files import found, parse
from bench.scenarios.record import GroupCosts, ScenarioRecord
from bench.scenarios.scenario import Scenario
from bench.scenarios.verdicts.applications import GroupVerdict
from bench.scenarios.verdicts.conditions import FailOn
from bench.scenarios.verdicts.verdict import ScenarioVerdict
from tests.bench.pages.histories import A, H, J, R, event, life

LARGE: Final = found("fifty-thousand")
PAID: Final = GroupCosts(
    members=100, generation=7, rebalances=2, causes={"joined": 1, "left": 1},
    unavailable_member_ms=1_500, moved=30, unowned_ms=2_500, failed=0, revoked=4, most=3,
)  # fmt: skip
FREE: Final = replace(
    PAID, rebalances=0, causes={}, unavailable_member_ms=0, moved=0, unowned_ms=0, revoked=0
)
OVER: Final = (
    "2 rebalances, and at most 0 were expected.",
    "3 failed members, and at most 0 were expected.",
)


def verdict(
    scenario: Scenario, how: str = "real", paid: GroupCosts = PAID, exceeded: Sequence[str] = ()
) -> ScenarioVerdict:
    """Return a verdict in which every group has paid the same."""
    return ScenarioVerdict(
        scenario=scenario.name,
        how=how,
        groups=tuple(
            GroupVerdict(group=each, costs=paid, exceeded=tuple(exceeded))
            for each in scenario.groups
        ),
        found={},
        notes=tuple(f"Group {each.name} ended too early." for each in scenario.groups),
        faults=((480_000, "kill node 1"), (720_000, "kill node 4")),
    )


def costing(told: ScenarioVerdict, costs: dict[str, GroupCosts]) -> ScenarioVerdict:
    """Return the verdict with other costs of some groups."""
    groups = [replace(each, costs=costs.get(each.group.name, each.costs)) for each in told.groups]
    return replace(told, groups=tuple(groups))


def record(scenario: Scenario, rebalances: int) -> ScenarioRecord:
    """Return what was recorded if one member of each group is there, which rebalances so often."""
    lives = []
    for group in scenario.groups:
        partition = (group.topics[0], 0)
        events = [event(90, J), event(100, A, 1, partition)]
        for number in range(rebalances):
            at_ms = 1_500 + 300 * number
            events += [event(at_ms, R, number + 1), event(at_ms + 200, A, number + 2, partition)]
        events.append(event(99_000, H, rebalances + 1, partition))
        lives.append(life("x" * 90, 1, *events, group=group.name, seen_ms=100_000))
    return ScenarioRecord(
        lives=lives, changed_ms=1_000, ended_ms=100_000, committed={},
        partitions={group.name: [(group.topics[0], 0)] for group in scenario.groups},
        marks=[(1_000 + n, f"{each.name}: restart") for n, each in enumerate(scenario.groups)],
    )  # fmt: skip


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the rows of a Markdown table by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row for row in rows}


@pytest.mark.parametrize("places", [["real"], ["real", "kafka"]])
@pytest.mark.parametrize("exceeded", [(), OVER], ids=["clean", "exceeded"])
def test_fifty_thousand_members_can_be_read_in_a_terminal_and_in_a_pull_request(
    places: list[str], exceeded: Sequence[str]
) -> None:
    verdicts = [verdict(LARGE, how, exceeded=exceeded) for how in places]
    conditions = [*map(FailOn.parse, ("rebalances>0", "partitions_moved>=1"))] if exceeded else []
    told = Comparison(verdicts, conditions)
    assert len(told.text().splitlines()) < 60 * len(places)
    assert len(told.markdown()) < 12_000 * len(places)
    ran = record(LARGE, 3)
    runs = [ReportedRun(name=each.how, record=ran, verdict=each) for each in verdicts]
    assert len(markdown(report("s", "x", runs, told.failures()))) < CHARACTERS_MAX


def test_very_many_rebalances_of_very_many_groups_still_fit_in_a_pull_request() -> None:
    ran = record(LARGE, 60)
    runs = [
        ReportedRun(name=f"{number}-{'v' * 90}", record=ran, verdict=verdict(LARGE))
        for number in range(20)
    ]
    assert len(markdown(report("s", "x", runs))) < CHARACTERS_MAX


@pytest.mark.parametrize("length", [30, 300, 3_000])
def test_a_text_that_is_too_long_ends_after_a_whole_line_and_counts_the_others(length: int) -> None:
    lines = [f"{number} {'x' * length}" for number in range(1_000)]
    text = fitting(lines, 20_000)
    assert 20_000 - length - 200 < len(text) < 20_000
    *kept, empty, last = text.splitlines()
    assert (kept, empty) == (lines[: len(kept)], "")
    assert last == f"{1_000 - len(kept)} more lines are left out: there is no room for them."
    assert fitting(lines[:3], 20_000) == "\n".join(lines[:3]) + "\n"


def test_an_application_is_one_row_with_its_copies_added_up_and_the_worst_one_named() -> None:
    worst = replace(
        PAID, rebalances=5, unavailable_member_ms=9_000, unowned_ms=4_000, most=9, generation=11
    )
    told = costing(verdict(LARGE, paid=FREE), {"classic-dynamic-7": worst})
    rows = rows_of(Comparison([told]).markdown())
    head = rows["group"]
    assert head[:5] == ["group", "copies", "worst copy", "members", "protocol"]
    cells = dict(zip(head, rows["classic-dynamic"], strict=True))
    assert (cells["copies"], cells["worst copy"]) == ("125", "classic-dynamic-7")
    assert (cells["members"], cells["rebalances"], cells["by cause"]) == (
        "12500", "5", "1 joined, 1 left",
    )  # fmt: skip
    assert (cells["unavailable member-s"], cells["longest unowned s"]) == ("9.0", "4.0")
    assert (cells["generation"], cells["most partitions"]) == ("11", "9")
    free = dict(zip(head, rows["consumer-static"], strict=True))
    assert free["worst copy"] == "-", "no copy has paid anything"
    assert len(rows) == 2 + 4, "the head and its line, and four applications"


def test_the_worst_copy_is_one_that_exceeds_a_limit() -> None:
    told = costing(verdict(LARGE, paid=FREE), {"classic-dynamic-7": PAID})
    groups = [
        replace(each, exceeded=OVER) if each.group.name == "classic-dynamic-9" else each
        for each in told.groups
    ]
    text = Comparison([replace(told, groups=tuple(groups))]).markdown()
    assert rows_of(text)["classic-dynamic"][2] == "classic-dynamic-9"


def test_limits_that_many_copies_exceed_are_told_of_the_worst_one_and_counted() -> None:
    told = costing(verdict(LARGE, exceeded=OVER), {"classic-static-3": replace(PAID, moved=99)})
    worst = costing(told, {"classic-static-3": replace(PAID, unavailable_member_ms=9_000)}).remarks(
        3
    )
    assert [line for line in worst if line.startswith("classic-static")] == [
        *(f"classic-static-3: {sentence}" for sentence in OVER),
        "classic-static: 124 more of its 125 copies exceed a limit.",
    ]


def test_a_condition_that_holds_for_many_groups_is_told_of_the_worst_ones_and_counted() -> None:
    worst = replace(PAID, rebalances=8)
    told = Comparison(
        [costing(verdict(LARGE), {"consumer-static-90": worst})], [FailOn.parse("rebalances>0")]
    )
    assert not told.is_clean
    lines = [line for line in told.text().splitlines() if "rebalances>0" in line]
    assert lines[0] == ("real, base, consumer-static-90: 8 rebalances: fails on rebalances>0.")
    assert lines[-1] == "real, base: 497 more groups: fails on rebalances>0."
    assert len(lines) == 4
    assert len(told.document()["fail_on"]) == 500, "tools get them all"


def test_of_very_many_applications_those_that_cost_most_have_rows() -> None:
    groups = "".join(
        f'[[groups]]\nname = "g-{number}"\ntopics = ["t"]\n' for number in range(ROWS_MAX + 50)
    )
    scenario = parse("many", f'about = "x"\nduration = "1m"\ntopics.t.partitions = 3\n{groups}')
    last = f"g-{ROWS_MAX + 49}"
    told = costing(verdict(scenario, paid=FREE), {last: PAID})
    rows = rows_of(Comparison([told]).markdown())
    assert len(rows) == 2 + ROWS_MAX
    assert last in rows
    assert rows["51 other groups"][1] == "5100", "their members together"
    assert "worst copy" not in rows["group"], "no group has copies"


def test_of_the_copies_of_an_application_only_the_first_one_is_told() -> None:
    is_told = in_first_copies(LARGE)
    assert is_told("classic-static-0: restart")
    assert not is_told("classic-static-12: restart")
    assert is_told("kill node 1")
    alone = parse(
        "s",
        'about = "x"\nduration = "1m"\ntopics.t.partitions = 3\n'
        '[[groups]]\nname = "a-1"\ntopics = ["t"]\n',
    )
    assert in_first_copies(alone)("a-1: scale"), "a name may end so without copies"
