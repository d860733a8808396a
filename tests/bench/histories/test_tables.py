"""The tables of histories are whole, and docs/history.md says what they say."""

import re
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from bench.histories.checks import CHECKS
from bench.histories.costs import COSTS
from bench.histories.episodes import RANKS
from bench.histories.made import GROUPS_MIN, PROTOCOLS
from bench.histories.planted import FAULTS, group_of, number_of, subject_of
from bench.histories.schema import COLUMNS, KINDS, HistoryRow
from bench.histories.store import RunFacts
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind
from protocol.stories.causes import Cause

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text()


def table(head: str) -> list[list[str]]:
    """Return the cells of the table of the page whose first column has this title."""
    lines = PAGE[PAGE.index(f"| {head} |") :].splitlines()
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows][2:]


def test_every_event_of_a_member_has_its_kind_of_row():
    assert {*map(str, MemberHistoryKind)} <= {*KINDS}


def test_a_row_has_the_columns_in_their_order():
    assert HistoryRow._fields == (*COLUMNS,)


def test_a_row_can_hold_all_that_an_event_has():
    renamed = {"partitions": "owned"}
    names = {renamed.get(each.name, each.name) for each in fields(MemberHistoryEvent)}
    assert names <= {*COLUMNS}


def test_every_check_and_every_cost_has_a_planted_fault():
    assert not {*CHECKS} & {*COSTS}
    assert {subject_of(name) for name in FAULTS} == {*CHECKS, *COSTS}
    assert {*CHECKS, *COSTS} <= {*FAULTS}, "the first fault of each has its name"
    assert {name for fault in FAULTS.values() for name in fault.also} <= {*CHECKS}


def test_every_fault_has_a_group_of_its_own_and_its_protocol():
    assert len({group_of(name) for name in FAULTS}) == len(FAULTS)
    for name, fault in FAULTS.items():
        assert PROTOCOLS[number_of(name) % len(PROTOCOLS)] == fault.protocol
    last = GROUPS_MIN - len(PROTOCOLS)
    assert all(number_of(name) < last for name in FAULTS), "a group of each protocol has none"


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_told_in_one_sentence(name):
    sentence = CHECKS[name].sentence
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert sentence.count(".") == 1
    assert CHECKS[name].source


@pytest.mark.parametrize("name", COSTS)
def test_a_cost_adds_up_in_a_way_that_there_is(name):
    assert COSTS[name].total in ("sum", "max")


def test_the_page_has_every_column():
    assert table("Column") == [
        [f"`{name}`", each.type, each.says] for name, each in COLUMNS.items()
    ]


def test_the_page_has_every_kind():
    assert table("Kind") == [[f"`{name}`", says] for name, says in KINDS.items()]


def test_the_page_has_every_check():
    assert table("Check") == [
        [f"`{name}`", str(each.severity), each.sentence, each.source]
        for name, each in CHECKS.items()
    ]


def test_the_page_has_every_cost():
    assert table("Cost") == [
        [f"`{name}`", each.total, each.sentence] for name, each in COSTS.items()
    ]


def test_the_page_has_every_cause():
    causes = table("Cause")
    assert [row[0] for row in causes] == [*RANKS]
    known = {name for row in causes for name in re.findall(r"`(.+?)`", row[1])}
    assert known < {*map(str, Cause)}


def test_the_page_has_every_fact_of_a_run():
    assert [row[0] for row in table("Key")] == [f"`{name}`" for name in RunFacts.__struct_fields__]
