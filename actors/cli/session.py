"""What the administration commands share: how they find the cluster and print results."""

from __future__ import annotations

import json
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli import discovery
from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.output.documents import add_json_flag
from actors.cli.output.tables import documents, table
from actors.client.security import read_security
from actors.errors import BadInputError, ExitCode

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Sequence

FAILED: Final = ExitCode.FAILURE


def add_connection_flags(parser: ArgumentParser) -> None:
    """Add the flags that select the cluster."""
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="any server of the cluster (default: the cluster of this machine)",
    )
    add_security_flag(parser)
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the cluster of this data directory"
    )
    parser.add_argument(
        "--address", metavar="auto|HOST:PORT", help="the cluster that runs on this Ray"
    )
    add_json_flag(parser, "the results")
    parser.set_defaults(documents=[])
    parser.add_argument(
        "--timeout",
        type=int,
        default=15_000,
        metavar="MS",
        help="how long to wait for a response (default: %(default)s)",
    )


def add_security_flag(parser: ArgumentParser) -> None:
    """Add the flag of a client's settings."""
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a properties file with settings of a client: security.protocol, sasl.* and ssl.*",
    )


def connected(command: Callable[[AdminClient, Namespace], int]) -> Callable[[Namespace], int]:
    """Turn a function that takes a client into a command.

    Its documents are printed at the end; ``documents`` None: it prints its own.
    """

    @wraps(command)
    def run(args: Namespace) -> int:
        if args.timeout <= 0:
            raise BadInputError("--timeout must be at least 1 ms")
        bootstrap = args.bootstrap_server
        if bootstrap is None:
            bootstrap = discovery.find_cluster(args.data_dir, args.address).bootstrap
        try:
            addresses = parse_bootstrap(bootstrap)
        except ValueError as error:
            raise BadInputError(str(error)) from None
        security = read_security(args.command_config)
        with AdminClient(addresses, args.timeout / 1_000, security=security) as client:
            code = command(client, args)
        if args.json and args.documents is not None:
            print(json.dumps(args.documents))
        return code

    return run


def show(args: Namespace, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; with ``--json``, add its rows to the array that is printed at the end."""
    if args.json:
        args.documents += documents(header, rows)
    else:
        print(table(header, rows))


def tell_done(args: Namespace, text: str, header: Sequence[str], row: Sequence[object]) -> None:
    """Print what was done to one item; with ``--json`` it is a row of the array."""
    if args.json:
        args.documents += documents(header, [row])
    else:
        print(text)


def tell_failed(args: Namespace, header: Sequence[str], row: Sequence[object]) -> None:
    """Add what was not done to one item to the array of ``--json``: it is complained of, too."""
    if args.json:
        args.documents += documents(header, [row])


def complain(sentence: str) -> None:
    """Print an error of one item; the command continues with the others."""
    print(f"rollcall: {sentence}", file=sys.stderr)


def note(sentence: str) -> None:
    """Print a remark for the operator, beside the result."""
    print(sentence, file=sys.stderr)
