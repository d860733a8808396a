"""``rollcall completion SHELL``: a script by which a shell completes commands, flags and files."""

from __future__ import annotations

import argparse
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import shtab

from failover.drills import drill

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator, Mapping

KINDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "FILE": shtab.FILE,
        "DIR": shtab.DIRECTORY,
        "DATA_DIR": shtab.DIRECTORY,
        "BACKUP": shtab.DIRECTORY,
    }
)
"""What completes a value, by its metavar."""


def script(parser: ArgumentParser, shell: str) -> str:
    """Return the script for bash, zsh or tcsh; it needs no Python when it is used."""
    commands = next(_commands(parser)).choices
    assert isinstance(commands, dict)
    commands["drill"].add_argument("name", choices=drill.names())
    for action in _actions(parser):
        kind = KINDS.get(str(action.metavar))
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _commands(parser: ArgumentParser) -> Iterator[argparse.Action]:
    return (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def _actions(parser: ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the flags and values of a parser and of its commands."""
    yield from parser._actions
    for found in _commands(parser):
        assert isinstance(found.choices, dict)
        for command in found.choices.values():
            yield from _actions(command)
