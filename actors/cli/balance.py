"""``rollcall balance``: spread the coordinators over the hosts, or over all but some."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentTypeError
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cli.discovery import call_cluster, find_cluster
from actors.cli.output.documents import add_json_flag, tell
from actors.cli.output.progress import WorkProgress
from actors.deployment import balancing
from actors.deployment.copying import THROTTLE_BYTES_PER_S
from actors.errors import BadInputError, FailureError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Sequence

    from failover.control.balancing import CoordinatorMove

MOVE_S: Final = 86_400.0
"""How long a move is waited for: the copy may be slow on purpose."""

INTERRUPTED: Final = 128 + signal.SIGINT


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall balance``."""
    parser = subparsers.add_parser("balance", help="spread the coordinators over the hosts")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be moved")
    parser.add_argument(
        "--throttle",
        type=_rate,
        default=THROTTLE_BYTES_PER_S,
        metavar="BYTES",
        help="how many bytes per second are copied at most (default: %(default)s)",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="HOST",
        help="leave no coordinator on this host, so that it can be taken away; may be repeated",
    )
    parser.add_argument(
        "--share-hosts",
        action="store_true",
        help="with --without: even if replicas of one partition then share a host",
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the cluster of this data directory"
    )
    parser.add_argument(
        "--address", metavar="auto|HOST:PORT", help="the cluster that runs on this Ray"
    )
    add_json_flag(parser, "each move, and at last the end, on a line")
    parser.set_defaults(run=_balance)


def _rate(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a rate: give bytes per second")
    return int(text)


def _balance(args: Namespace) -> int:
    without = tuple(dict.fromkeys(args.without))
    if args.share_hosts and not without:
        raise BadInputError("--share-hosts needs --without HOST.")

    def question() -> None:
        from actors.deployment.actors import ask_controller

        done = balancing.free_hosts(without) if without else balancing.BALANCED
        with closing(_RunningCluster(ask_controller, without, args)) as running:
            if not args.dry_run:
                balancing.balance(running, args.throttle, running.say, done)
                return
            for line in [balancing.sentence(move) for move in running.moves()] or [done]:
                running.say(line)

    found = find_cluster(args.data_dir, args.address)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        call_cluster(found, question)
    except KeyboardInterrupt:
        print(
            "rollcall: No other coordinator is moved; the controller completes a move that is "
            "under way. Run the command again to go on.",
            file=sys.stderr,
        )
        return INTERRUPTED
    return 0


class _RunningCluster:
    """The cluster on this Ray (:class:`actors.deployment.balancing.MovableCluster`)."""

    def __init__(
        self, ask_controller: Callable[..., Any], without: Sequence[str], args: Namespace
    ) -> None:
        """Let it be balanced on all hosts but some."""
        self._ask_controller = ask_controller
        self._goal: tuple[object, ...] = (without, args.share_hosts) if without else ()
        self._args = args
        self._moves: dict[str, CoordinatorMove] = {}
        self._progress: WorkProgress | None = None

    def say(self, line: str) -> None:
        """Print what is done, or that all is; with ``--json`` a move with its parts."""
        self.close()
        move = self._moves.get(line)
        tell(self._args, line, {"said": line, "move": None if move is None else asdict(move)})

    def close(self) -> None:
        """End the progress of the last move."""
        if self._progress is not None:
            self._progress.stop()

    def moves(self) -> Sequence[CoordinatorMove]:
        """Return the moves that would balance it."""
        moves, why = self._ask_controller("moves", *self._goal)
        if why:
            raise FailureError(why)
        self._moves = {balancing.sentence(move): move for move in moves}
        return moves  # type: ignore[no-any-return]

    def move(self, node_id: int, host: str, bytes_per_s: int) -> None:
        """Move a coordinator with its data."""
        wanted = (node_id, host, bytes_per_s)
        what = f"coordinator {node_id} moves to {host}, until all replicas are in sync"
        self._progress = WorkProgress(what, is_quiet=self._args.json).start()
        if why := self._ask_controller("move", *wanted, *self._goal, wait_s=MOVE_S):
            raise FailureError(why)
