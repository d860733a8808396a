"""The table of README with our figures and Kafka's."""

import pytest

from bench.rehearsals.beside_kafka import BEGIN, COMMANDS, END, HEAD, PAGE, table
from bench.rehearsals.results import read_result
from bench.rehearse import _parser
from bench.scenarios.files import found_variants


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_rehearses_its_scenario_on_kafka_too(name: str) -> None:
    program, command, *options = COMMANDS[name].split()
    assert (program, command) == ("rollcall", "rehearse")
    asked = _parser().parse_args(options)
    assert (asked.scenario, asked.kafka) == (name, True)
    assert set(asked.variant) <= set(found_variants(name))


def test_our_figure_comes_before_kafkas() -> None:
    ours = {"rebalances": 1, "unavailable_member_ms": 1_500, "unowned_ms": 2_000}
    theirs = {"rebalances": 2, "unavailable_member_ms": 2_500, "unowned_ms": 0}
    runs = [
        {"run": "real", "groups": {"static": ours}},
        {"run": "kafka", "groups": {"static": theirs}},
    ]
    command = f"`{COMMANDS['mass-restart']}`"
    assert table({"mass-restart": {"runs": runs}}).splitlines()[2:] == [
        f"| {command} | static | 60 | 1 / 2 | 1.5 / 2.5 | 2.0 s / 0.0 s |"
    ]


def test_readme_has_the_table() -> None:
    rows = PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0].strip().splitlines()
    assert rows[0] == f"| {' | '.join(HEAD)} |"
    assert len(rows) > 2


def test_a_verdict_that_lacks_a_run_is_none(tmp_path):
    path = tmp_path / "verdict.json"
    assert read_result(path) is None
    path.write_text('{"clean": false, "lacks": ["Not completed: Kafka did not start."]}')
    assert read_result(path) is None
    path.write_text('{"clean": true, "lacks": []}')
    assert read_result(path) == {"clean": True, "lacks": []}


def test_readme_says_of_each_group_how_many_members_it_has() -> None:
    rows = PAGE.read_text("utf-8").split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()[2:]
    name = ""
    for row in rows:
        command, group, members, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        name = command.strip("`").split()[2] if command else name
        sizes = {each.name: each.replicas for each in found_variants(name)["base"].groups}
        assert members == f"{sizes[group]:,}", row
