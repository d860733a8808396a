"""``rollcall``: the command line. Each command imports what it needs when it runs."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from actors.cli.output.documents import add_json_flag, print_error, tell
from actors.cluster.listening_ports import DEFAULT_PORT, LOCAL_HOST
from actors.errors import MEANINGS, BadInputError, CommandError, ExitCode
from actors.installation import installed_version
from actors.skip_hypothesis import skip_hypothesis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


HOSTS_MAX: Final = 1_000
"""The most hosts that ``--hosts`` may ask for."""
INSTRUMENTS: Final[Mapping[str, str]] = {
    "bench": "benchmark", "drill": "drill", "rehearse": "rehearsal", "check": "check",
}  # fmt: skip
"""Commands with parsers of their own, and what each runs; their exit code 1 is a verdict."""


def entry() -> int:
    """Run as a program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a command without a traceback
    skip_hypothesis()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    failed = ExitCode.BAD_INPUT if words[:1] and words[0] in INSTRUMENTS else ExitCode.FAILURE
    try:
        try:
            return _run(words)
        finally:
            _flush()
    except BrokenPipeError:
        pass  # nobody reads it any more, as after `| head -1`
    except _UnwrittenError as error:
        print(f"rollcall: {error}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failed


def _run(words: Sequence[str]) -> int:
    if words and words[0] in INSTRUMENTS:
        return _run_instrument(words[0], words[1:])
    try:
        args = _parser(words[0] if words else None).parse_args(words)
    except _BadWordsError as error:
        _complain(words, error)
        raise SystemExit(error.exit_code) from None
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except CommandError as error:
        _complain(words, error)
        return error.exit_code


def _flush() -> None:
    """Write what was printed, as long as it can be told that this fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _UnwrittenError(f"The output cannot be written: {error.strerror}.") from None


def _complain(words: Sequence[str], error: CommandError) -> None:
    """Print why a command ends: to standard error, and with ``--json`` also as a document."""
    print(f"rollcall: {error}", file=sys.stderr)
    print_error(words, str(error))


def _run_instrument(command: str, words: Sequence[str]) -> int:
    """Run a command that has a parser of its own; it may be stopped while it is imported, too."""
    from bench.interruption import Interrupted, interruptible

    try:
        with interruptible():
            return _instrument(command)(words)
    except Interrupted as stop:
        print(f"rollcall: The {INSTRUMENTS[command]} was {stop}.", file=sys.stderr)
        return stop.exit_code


def _instrument(command: str) -> Callable[[Sequence[str]], int]:
    """Return what runs a command that has a parser of its own."""
    if command == "bench":
        from bench.cli import main as run
    elif command == "drill":
        from bench.drills import main as run
    elif command == "rehearse":
        from bench.rehearse import main as run
    else:
        from bench.check import main as run
    return run


class _UnwrittenError(Exception):
    """What was printed cannot be written, as on a full disk."""


class _BadWordsError(BadInputError):
    """The words of the command line are no command."""


class _Parser(argparse.ArgumentParser):
    """Raises an error as one sentence."""

    def error(self, message: str) -> NoReturn:
        raise _BadWordsError(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    """Prints the version of the installed package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {installed_version()}")
        parser.exit()


def _parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return a parser of every command, or of one that is named and perhaps some others."""
    parser = _Parser(
        prog="rollcall",
        description="A Kafka group coordinator cluster.",
        epilog="exit codes:\n" + "\n".join(f"  {code}  {MEANINGS[code]}" for code in ExitCode),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=_Parser
    )
    _add_up(commands.add_parser("up", help="start a cluster"))
    _add_status(
        commands.add_parser("status", help="show the leaders, replicas and workers of a cluster")
    )
    _add_operations(commands)
    _add_record(
        commands.add_parser("record", help="save recent group events to a file, for a replay")
    )
    if command not in commands.choices:
        from actors.cli.commands import add_parsers

        add_parsers(commands, command)
    _add_completion(commands.add_parser("completion", help="print a script for your shell"))
    commands.add_parser("bench", help="run a benchmark", add_help=False)
    commands.add_parser("drill", help="inject a failure into a live cluster", add_help=False)
    commands.add_parser("rehearse", help="rehearse a deploy and its cost", add_help=False)
    commands.add_parser("check", help="check recorded histories of members", add_help=False)
    return parser


def _add_status(parser: argparse.ArgumentParser) -> None:
    add_json_flag(parser, "the status")
    probe = parser.add_mutually_exclusive_group()
    probe.add_argument(
        "--live", metavar="HOST:PORT", help="only ask whether this coordinator answers clients"
    )
    probe.add_argument(
        "--ready",
        metavar="HOST:PORT",
        help="only ask whether this coordinator sees a leader for every partition",
    )
    _add_which(parser)
    parser.set_defaults(run=_status)


def _add_operations(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    drain = commands.add_parser("drain", help="move all leaderships away from a coordinator")
    drain.add_argument(
        "which", metavar="NODE|HOST", help="the coordinator's node id, or the address of a host"
    )
    drain.add_argument(
        "--end", action="store_true", help="end the drain: the coordinator may lead again"
    )
    add_json_flag(drain, "the moved leaderships")
    _add_which(drain)
    drain.set_defaults(run=_drain)
    replaced = commands.add_parser("replace", help="start a coordinator, empty, on another host")
    replaced.add_argument("node_id", type=int, metavar="NODE", help="the coordinator's node id")
    replaced.add_argument(
        "--to", metavar="HOST", help="the address of its Ray node (default: a spare host)"
    )
    add_json_flag(replaced, "the coordinator's new host")
    _add_which(replaced)
    replaced.set_defaults(run=_replace)
    down = commands.add_parser("down", help="stop a cluster")
    add_json_flag(down, "what was stopped")
    _add_which(down)
    down.set_defaults(run=_down)


def _add_record(parser: argparse.ArgumentParser) -> None:
    add_json_flag(parser, "what was written")
    _add_which(parser)
    parser.add_argument(
        "--node", type=int, metavar="N", help="only this coordinator (default: all)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("recording.msgpack"),
        metavar="FILE",
        help="the file to write (default: %(default)s)",
    )
    parser.set_defaults(run=_record)


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a properties file with Kafka's broker configs"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one config; may be repeated",
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the data directory (default: ./rollcall-data)"
    )
    parser.add_argument(
        "--host",
        metavar="H",
        help=f"the address to listen on (default: {LOCAL_HOST}; with --address, that of each host)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="P",
        help="the i-th coordinator of a host listens on P+i; 0 chooses free ports "
        f"(default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--address",
        default="local",
        metavar="auto|local|HOST:PORT",
        help="the Ray to run on: its own (local, the default) or one started with `ray start`",
    )
    parser.add_argument("--detach", action="store_true", help="return when the cluster is READY")
    parser.add_argument(
        "--hosts",
        type=_count,
        default=1,
        metavar="N",
        help="wait until N hosts have joined the Ray, before a cluster's first start",
    )
    parser.add_argument(
        "--accept-copies",
        action="store_true",
        help="accept node directories that are old copies; anything newer is lost",
    )
    add_json_flag(parser, "the line that says READY")
    parser.set_defaults(run=_up)


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a script by which a shell completes commands, flags and files."
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="your shell")
    add_json_flag(parser, "the script")
    parser.set_defaults(run=_completion)


def _add_which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the cluster of this data directory"
    )
    parser.add_argument(
        "--address", metavar="auto|HOST:PORT", help="the cluster that runs on this Ray"
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= HOSTS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {HOSTS_MAX}")
    return int(text)


def _up(args: argparse.Namespace) -> int:
    from actors.cli.discovery import default_data_dir
    from actors.cli.up import UpOptions, up

    return up(
        UpOptions(
            config=args.config,
            settings=args.set,
            data_dir=args.data_dir or default_data_dir(),
            host=args.host,
            port=args.port,
            address=args.address,
            detach=args.detach,
            accepts_copies=args.accept_copies,
            hosts=args.hosts,
            as_json=args.json,
        )
    )


def _status(args: argparse.Namespace) -> int:
    address = args.live if args.ready is None else args.ready
    if address is not None:
        from actors.cli.probe import probe

        return probe(address, is_ready=args.ready is not None, args=args)
    from actors.cli.discovery import find_cluster, read_status
    from actors.deployment.status import as_text, exit_code

    found = find_cluster(args.data_dir, args.address)
    status = read_status(found)
    if found.is_orphan:
        print(
            "rollcall: The `rollcall up` of this cluster was killed. Stop it with `rollcall down`.",
            file=sys.stderr,
        )
    print(json.dumps(status) if args.json else as_text(status))
    return exit_code(status)


def _record(args: argparse.Namespace) -> int:
    from actors.cli.discovery import find_cluster
    from actors.cli.record import record

    return record(find_cluster(args.data_dir, args.address), args.node, args.out, args)


def _completion(args: argparse.Namespace) -> int:
    from actors.cli.completion import script

    text = script(_parser(), args.shell)
    tell(args, text, {"shell": args.shell, "script": text})
    return 0


def _down(args: argparse.Namespace) -> int:
    from actors.cli.up import down

    return down(args)


def _replace(args: argparse.Namespace) -> int:
    from actors.cli.discovery import find_cluster
    from actors.cli.up import replace_coordinator

    return replace_coordinator(find_cluster(args.data_dir, args.address), args)


def _drain(args: argparse.Namespace) -> int:
    from actors.cli.discovery import find_cluster
    from actors.cli.up import drain

    return drain(find_cluster(args.data_dir, args.address), args)
