"""``--json``: each command prints one document, or a line of JSON for each step of long work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

FLAG: Final = "--json"


def add_json_flag(parser: ArgumentParser, what: str) -> None:
    """Let a command print ``what`` as JSON."""
    parser.add_argument(FLAG, action="store_true", help=f"print {what} as JSON")


def is_json(args: Namespace) -> bool:
    """Return whether a command was asked for JSON."""
    return bool(getattr(args, "json", False))


def tell(args: Namespace, text: str, document: Mapping[str, Any]) -> None:
    """Print a result: its text, or with ``--json`` its document on a line. Both say the same."""
    print(json.dumps(document) if is_json(args) else text, flush=True)


def print_error(words: Sequence[str], sentence: str) -> None:
    """Print the error that ends a command with these words, if JSON was asked for."""
    if FLAG in words:
        print(json.dumps({"error": sentence}), flush=True)
