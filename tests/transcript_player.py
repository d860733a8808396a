"""Golden transcripts: a conversation as a text file, commands and their outcome, played again.

A block is one command per line, a line of dashes, and what came of them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

RULE = "----"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class Player(Protocol):
    """Runs the commands of a transcript, one after the other."""

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""


def check(path: Path, player: Player) -> None:
    """See that a transcript still says what happens; REWRITE_TRANSCRIPTS=1 renews it."""
    written = path.read_text()
    played = play(written, player)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == written


def check_names_a_rule(path: Path, *sources: str) -> None:
    """See that a transcript's first line names the rule that it shows, of one of these."""
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# ")
    assert any(source in first for source in sources)


def play(text: str, player: Player) -> str:
    """Replay a transcript: the same comments and commands, with their current output."""
    played = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        lines = block.split("\n")
        commands = lines[: lines.index(RULE)] if RULE in lines else lines
        if all(line.startswith("#") for line in commands):
            played.append(block)
            continue
        outcome = [
            each for line in commands if not line.startswith("#") for each in player.run(line)
        ]
        played.append("\n".join([*commands, RULE, *outcome]))
    return "\n\n".join(played) + "\n"


def milliseconds(text: str) -> int:
    """Read ``3s``, ``250ms``, ``5m``."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    assert match, f"not a duration: {text}"
    return int(match[1]) * UNITS[match[2]]
