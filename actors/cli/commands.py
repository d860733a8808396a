"""The parsers of commands that have modules of their own, for ``actors.cli`` to register.

Each command sets ``args.run`` to a function that takes the parsed arguments and returns the exit
code, or raises ``CommandError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.cli import backup as cli_backup
from actors.cli import balance as cli_balance
from actors.cli import configs as cli_configs
from actors.cli import exchange as cli_exchange
from actors.cli import explain as cli_explain
from actors.cli import groups as cli_groups
from actors.cli import members as cli_members
from actors.cli import topics as cli_topics
from actors.cli import upgrade as cli_upgrade
from actors.cli.log import dump as cli_log
from actors.cli.telling import watch as cli_watch

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


def add_parsers(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the commands of each module."""
    administration = (cli_groups, cli_explain, cli_watch, cli_members, cli_topics, cli_configs)
    for command in (*administration, cli_backup, cli_exchange, cli_balance, cli_upgrade, cli_log):
        command.add_parser(subparsers)
