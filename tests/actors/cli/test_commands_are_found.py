"""A command's parser is made without the modules of all others."""

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from actors.cli.commands import MODULES, add_parsers
from actors.cli.main import _parser


def subparsers():
    return argparse.ArgumentParser().add_subparsers()


@pytest.mark.parametrize("module", sorted(set(MODULES.values())))
def test_a_module_adds_the_commands_of_its_rows_and_no_others(module):
    added = subparsers()
    import_module(module, "actors.cli").add_parser(added)
    assert sorted(added.choices) == sorted(each for each in MODULES if MODULES[each] == module)


@pytest.mark.parametrize("command", MODULES)
def test_a_command_is_found_with_its_own_module_only(command):
    added = subparsers()
    add_parsers(added, command)
    assert {MODULES[each] for each in added.choices} == {MODULES[command]}


@pytest.mark.parametrize("command", [None, "--help", "completion", "no-such-command"])
def test_all_are_there_for_help_and_for_a_word_that_is_no_command(command):
    whole = next(
        each for each in _parser(command)._actions if isinstance(each, argparse._SubParsersAction)
    )
    assert whole.choices.keys() > MODULES.keys()


@pytest.mark.parametrize("command", ["up", "status", "topics"])
def test_the_parser_of_a_command_imports_no_group_logic(command):
    program = (
        "import sys\n"
        "from actors.cli.main import _parser\n"
        f"_parser({command!r})\n"
        "sys.exit('protocol.groups.group_types' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
