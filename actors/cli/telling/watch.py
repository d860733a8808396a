"""``rollcall watch``: why the groups of any Kafka rebalance, told from its own records."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import threading
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cli.client import parse_bootstrap
from actors.cli.explain import story_as_json, story_lines
from actors.cli.output.progress import WorkProgress
from actors.cli.output.tables import documents, table
from actors.cli.session import note
from actors.cluster.listening_ports import LOCAL_HOST
from actors.errors import BadInputError
from protocol.stories.sentence import named
from protocol.stories.storms import storm_lines
from protocol.watching import overview
from protocol.watching.outlook import SESSION_TIMEOUT_MS

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Iterable, Iterator

    from actors.watching.ends import PartitionEnds
    from actors.watching.serving import ConsoleThread
    from actors.watching.session import Options, WatchSession
    from protocol.stories.storms import RebalanceStorm
    from protocol.stories.story import RebalanceStory

PORT_MAX: Final = 65_535
CONSOLE_HOSTS: Final = "--console-hosts"
HEADER: Final = (
    "group", "type", "state", "members", "epoch", "target epoch", "behind", "offsets", "lag",
)  # fmt: skip


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall watch``."""
    parser = subparsers.add_parser(
        "watch", help="say why the groups of any Kafka rebalance, from its records"
    )
    parser.add_argument(
        "--bootstrap",
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT",
        help="any server of the cluster that is watched",
    )
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a properties file with settings of the consumer, such as security.protocol",
    )
    parser.add_argument("--group", metavar="G", help="only this group (default: all)")
    parser.add_argument(
        "--from",
        dest="start",
        choices=("beginning", "now"),
        default="now",
        help="tell what the log still has, or only what comes (default: %(default)s)",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep the place there: a later start tells what came since",
    )
    parser.add_argument(
        "--session-timeout",
        type=_milliseconds,
        default=SESSION_TIMEOUT_MS,
        metavar="MS",
        help="that of the groups that are not classic: no record has it (default: %(default)s)",
    )
    _add_console(parser)
    parser.add_argument(
        "--once", action="store_true", help="only print the groups as they are now, and end"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also show members, partitions and events"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line; with --once an array"
    )
    parser.set_defaults(run=run)


def _add_console(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--console",
        metavar="[HOST:]PORT",
        help="serve pages and metrics there (default host: 127.0.0.1; port 0 takes a free one)",
    )
    parser.add_argument(
        CONSOLE_HOSTS,
        type=_host_names,
        default=(),
        metavar="NAME,...",
        help="further host names under which the console is asked; addresses always work",
    )


def run(args: Namespace) -> int:
    """Watch until it is stopped. Raises CommandError."""
    from actors.telemetry.group_metrics import GroupMetrics
    from actors.watching.ends import PartitionEnds
    from actors.watching.exports import WatchExports
    from actors.watching.lag import WatchedLag
    from actors.watching.place import PlaceFile
    from actors.watching.reader import Reader
    from actors.watching.session import Options, WatchSession
    from actors.watching.settings import read_settings

    try:
        parse_bootstrap(args.bootstrap)
    except ValueError as error:
        raise BadInputError(str(error)) from None
    reader = Reader(read_settings(args.command_config, args.bootstrap), args.bootstrap)
    metrics = GroupMetrics()
    exports = WatchExports(args.bootstrap, metrics)
    options = Options(
        bootstrap=args.bootstrap,
        is_from_beginning=args.start == "beginning",
        group_id=args.group,
        session_timeout_ms=args.session_timeout,
        place=None if args.state is None or args.once else PlaceFile(args.state),
        observe=exports.observe,
        metrics=metrics,
    )
    printer = _Printer(args)
    session, ends = WatchSession(reader, options, printer), PartitionEnds(reader)
    exports.is_catching_up = lambda: not session.is_loaded
    exports.lag = WatchedLag(session, ends, metrics).status
    console: ConsoleThread | None = None
    try:
        if args.console is not None:
            console = _console(session, ends, options, args)
        with _stopped_by_signals() as stop, _first_read(session, args) as printer.progress:
            session.run(stop, is_once=args.once)
        if args.once and session.is_loaded:
            ends = PartitionEnds(reader)
            WatchedLag(session, ends, metrics).refresh()
            _print_groups(session, ends, args)
    finally:
        if console is not None:
            console.close()
        exports.close()
        reader.close()
    return 0


def _console(
    session: WatchSession, ends: PartitionEnds, options: Options, args: Namespace
) -> ConsoleThread:
    from actors.console.hosts import KnownHosts
    from actors.watching.console import WatchedSource
    from actors.watching.serving import ConsoleThread

    address: str = args.console
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise BadInputError(f"--console takes a port, or HOST:PORT, and not {address!r}")
    source = WatchedSource(session, options.bootstrap, ends, options.metrics)
    bound = host.strip("[]") or LOCAL_HOST
    hosts = KnownHosts((bound, *args.console_hosts), CONSOLE_HOSTS)
    console = ConsoleThread(source, bound, int(port), hosts)
    shown = host or LOCAL_HOST
    note(f"console: http://{shown}:{console.port}")
    return console


def _first_read(session: WatchSession, args: Namespace) -> WorkProgress:
    """Show how far the first read is."""

    def state() -> str:
        return f"{session.watch.records} records of {session.partitions} partitions"

    return WorkProgress("reading", is_quiet=args.json, state=state)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield what Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _host_names(text: str) -> tuple[str, ...]:
    from protocol.config import Configs
    from protocol.config_error import ConfigError

    try:
        return Configs({"console.hosts": text}).strings("console.hosts")
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _milliseconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds")
    return int(text)


class _Printer:
    """Prints stories to stdout, and remarks to stderr."""

    def __init__(self, args: Namespace) -> None:
        self._as_json: bool = args.json
        self._args = args
        self._is_once: bool = args.once
        self.progress: WorkProgress | None = None

    def loaded(self, session: WatchSession) -> None:
        """Say what is watched."""
        self._end_progress()
        if not self._is_once:
            note(summary(session))

    def told(self, stories: Iterable[RebalanceStory]) -> None:
        """Print stories."""
        for story in stories if not self._is_once else ():
            self._end_progress()
            if self._as_json:
                print(json.dumps(story_as_json(story)), flush=True)
            else:
                lines = story_lines(story, self._args, has_group=True)
                print("\n".join(lines), flush=True)

    def stormed(self, group_id: str, storm: RebalanceStorm) -> None:
        """Print a storm."""
        if self._is_once:
            return
        if self._as_json:
            print(json.dumps({"group_id": group_id, "storm": asdict(storm)}), flush=True)
        else:
            lines = (f"group {named(group_id)}: {each}" for each in storm_lines(storm))
            print("\n".join(lines), flush=True)

    def _end_progress(self) -> None:
        """End the line of the first read before something else is printed."""
        if self.progress is not None:
            self.progress.stop()

    def noted(self, sentence: str) -> None:
        """Print a remark."""
        note(f"rollcall: {sentence}")


def summary(session: WatchSession) -> str:
    """Return what is watched, in a sentence or two."""
    watch = session.watch
    outlook = watch.outlook
    kinds = Counter(group.type_name for group in outlook.ctx.groups.values())
    of_kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    text = (
        f"watching {session.partitions} partitions: {sum(kinds.values())} groups"
        f"{f' ({of_kinds})' if kinds else ''}, {len(outlook.committed)} committed offsets,"
        f" {watch.records} records"
    )
    if left_out := outlook.committed.left_out:
        text += f"; {left_out} commits had no room"
    if unknown := sum(watch.unknown.values()):
        kinds_of = ", ".join(f"{count} x {name}" for name, count in watch.unknown.most_common(5))
        text += f"; {unknown} records are not known here ({kinds_of})"
    if watch.unreadable:
        text += f"; {watch.unreadable} records cannot be read"
    if session.failed:
        text += f"; {session.failed} times something could not be told"
    return text


def _print_groups(session: WatchSession, ends: PartitionEnds, args: Namespace) -> None:
    found = overview.rows(session.watch.outlook, ends.of)
    rows = [
        (
            row.group_id,
            row.group_type,
            row.state,
            row.members,
            row.epoch if row.epoch >= 0 else None,
            row.target_epoch if row.target_epoch >= 0 else None,
            row.behind,
            row.offsets,
            row.lag,
        )
        for row in found
    ]
    if args.json:
        print(json.dumps(list(documents(HEADER, rows))))
    else:
        print(table(HEADER, rows))
        note(summary(session))
