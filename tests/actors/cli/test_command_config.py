"""``--command-config``: every command that takes a bootstrap server has it, and reads it first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from actors.cli.main import _parser
from actors.errors import ExitCode
from tests.actors.cli.commands import rollcall

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "groups": ("--list",),
    "members": ("--remove", "--group", "g", "--all"),
    "topics": ("--list",),
    "configs": ("--describe", "--entity-type", "brokers", "--entity-name", "0"),
    "explain": ("g",),
    "import": ("--to", "new"),
    "export": ("backup",),
    "watch": (),
}
"""The commands that talk to any Kafka, and what each needs."""


def test_every_command_at_a_bootstrap_server_is_here() -> None:
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    flags = {
        name: {flag for action in each._actions for flag in action.option_strings}
        for name, each in commands.choices.items()
    }
    assert {name for name, each in flags.items() if "--bootstrap-server" in each} == set(COMMANDS)
    assert {name for name, each in flags.items() if "--command-config" in each} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_file_is_bad_input(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told before anything is asked: nobody listens there."""
    gone = tmp_path / "gone"
    where = ("--bootstrap-server", "127.0.0.1:1", "--command-config", str(gone))
    said = rollcall(capsys, command, *COMMANDS[command], *where)
    sentence = f"rollcall: {gone} cannot be read: No such file or directory"
    assert (said.code, said.lines, said.err) == (ExitCode.BAD_INPUT, [], sentence)
