"""``rollcall drill NAME``: one rehearsed failure on a live cluster, and its verdict.

The drill starts its own cluster and stops it at the end; only with ``--running``, ``--data-dir`` or
``--group`` it uses a cluster that runs here, after a question. Members use real sockets; processes
get real signals. Drills on hosts are in :mod:`bench.host_drills`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import default_data_dir, find_cluster
from actors.clock import wall_ms
from actors.cluster import registry
from actors.coordinator import gc_tuning
from actors.errors import BadInputError, CommandError
from actors.telemetry.run_traces import TracedRun, trace_run
from bench.drill_run import DrillRun
from bench.drill_times import FOOTNOTE, host_seconds, told_times
from bench.host_drills import run as host_drills
from bench.host_drills.run import HostOptions
from bench.host_drills.table import HOST_DRILLS
from bench.hosts.waiting import HostError
from bench.interruption import Interrupted, interruptible
from bench.load.rehearsal import RehearsalLog
from bench.pages.drilled import drill_report
from bench.pages.files import report_path, write_reports
from bench.result_files import result_path, write_all, write_aside
from bench.servers.rollcall import running_rollcall
from bench.servers.server import StartError
from failover.drills.checked import DrillError
from failover.drills.drill import GROUP_TYPES, OF_MEMBERS, Action, Drill, named, names
from protocol.wire.errors import KafkaError
from storage.disk import witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.cluster.registry import RegisteredCluster
    from failover.drills.verdict import Verdict

OK, FAILURE, BAD_INPUT = 0, 1, 2
OWN_CONFIGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "1000"}
OWN_NODES: Final = 3
SMALL_DISK_MIB: Final = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one drill; return the exit code: 1 if the verdict is not clean, 2 without one."""
    asked = _parser().parse_args(arguments)
    if asked.list or asked.name is None:
        _print_list()
        return OK if asked.list else BAD_INPUT
    log, began_ms, verdict = RehearsalLog(), wall_ms(), None
    try:
        with interruptible():
            drill, play = _planned(asked, log)
            verdict = play()
            print(verdict.text(), flush=True)
        _write(asked, drill, verdict, log)
    except Interrupted as stop:
        print(f"rollcall: The drill was {stop}.", file=sys.stderr)
        return stop.exit_code
    except CommandError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return error.exit_code
    except (DrillError, HostError, StartError, KafkaError, OSError) as error:
        print(f"rollcall: The drill could not be completed: {error}", file=sys.stderr)
        return BAD_INPUT
    finally:
        if verdict is not None or log.told:
            _trace(asked.name, began_ms, log, verdict)
    return OK if verdict.is_clean else FAILURE


def _write(asked: argparse.Namespace, drill: Drill, verdict: Verdict, log: RehearsalLog) -> None:
    """Write what is asked for, each file also if another one cannot be written."""

    def write_json() -> None:
        if asked.json:
            write_aside(asked.json, json.dumps(verdict.document(), indent=2) + "\n")

    write_all(
        write_json,
        lambda: write_reports(asked.report, lambda: drill_report(drill, verdict, log)),
    )


def _trace(name: str, began_ms: int, log: RehearsalLog, verdict: Verdict | None) -> None:
    """Send the drill as a trace, if traces are configured."""
    is_clean = None if verdict is None else verdict.is_clean
    trace_run(
        TracedRun(
            kind="drill",
            name=name,
            started_ms=began_ms,
            ended_ms=wall_ms(),
            is_clean=is_clean,
            told=log.told,
            steps=log.steps,
        )
    )


def _print_list() -> None:
    for name in names():
        drill = named(name)
        print(f"{name:26} {told_times(drill):32} {drill.about}")
    for row in HOST_DRILLS.values():
        times = f"about {host_seconds(row)} s, and boots"
        print(f"{row.name:26} {times:32} --hosts {row.hosts_min}: {row.about}")
    print(f"\n{FOOTNOTE}")


def _planned(asked: argparse.Namespace, log: RehearsalLog) -> tuple[Drill, Callable[[], Verdict]]:
    """Return the drill asked for, and what runs it; raises BadInputError."""
    try:
        drill = _asked_for(asked)
    except DrillError as error:
        raise BadInputError(str(error)) from None
    if asked.name in HOST_DRILLS:
        if given := _not_on_hosts(asked):
            raise BadInputError(
                f"Drill {asked.name} makes its hosts and its members: omit {', '.join(given)}."
            )
        options = HostOptions(
            hosts=asked.hosts,
            members=asked.members,
            types=asked.types,
            spark_hosts=asked.spark_hosts or 0,
            directory=asked.keep,
            older=asked.older,
        )
        row = host_drills.checked(asked.name, options)
        return drill, partial(host_drills.run, row, options, log)
    if asked.hosts or asked.spark_hosts or asked.keep or asked.older:
        omit = "--hosts, --spark-hosts, --keep, --from"
        raise BadInputError(f"Drill {asked.name} runs on one host: omit {omit}.")
    group_ids = tuple(dict.fromkeys(asked.group))
    if group_ids:
        _check_observed(drill, asked)
    running = None
    if group_ids or asked.running or asked.data_dir is not None:
        running = find_cluster(asked.data_dir)
        if not asked.yes and not _is_agreed(drill, asked):
            raise BadInputError(
                f"Drill {asked.name} was not started: the running cluster is unharmed."
            )
    return drill, partial(run, drill, running, group_ids, log)


def _asked_for(asked: argparse.Namespace) -> Drill:
    """Return the drill with the members asked for; raises DrillError."""
    if asked.name in HOST_DRILLS:
        return HOST_DRILLS[asked.name].drill(asked.members, asked.types)
    return named(asked.name).of_size(asked.members).of_types(asked.types)


def _not_on_hosts(asked: argparse.Namespace) -> list[str]:
    """Return the options that were given and do not fit a drill on hosts."""
    options = {
        "--running": asked.running,
        "--data-dir": asked.data_dir,
        "--group": asked.group,
        "--yes": asked.yes,
    }
    return [name for name, value in options.items() if value]


def _check_observed(drill: Drill, asked: argparse.Namespace) -> None:
    """Raise BadInputError if the drill cannot be seen by groups with members of others."""
    if asked.own or asked.members or asked.types:
        raise BadInputError("--group watches members that run: omit --own, --members, --types.")
    if any(drill.does(action) for action in OF_MEMBERS):
        raise BadInputError(
            f"Drill {drill.name} stops and starts its members: it needs its own, so omit --group."
        )


def _is_agreed(drill: Drill, asked: argparse.Namespace) -> bool:
    """Ask whoever sits at the terminal; raises BadInputError if nobody does.

    The end of the input, as by Ctrl-D, is a no.
    """
    if not sys.stdin.isatty():
        which = "--running" if asked.running else "--data-dir"
        instead = f", or give --own instead of {which} to start a cluster for it"
        raise BadInputError(
            f"Drill {drill.name} harms the running cluster and its clients: add --yes if you mean"
            f" it{'' if asked.group else instead}."
        )
    print(f"Drill {drill.name} harms the running cluster and its clients: {drill.about}.")
    try:
        return input("Start it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()
        return False


def run(
    drill: Drill, running: RegisteredCluster | None, group_ids: Sequence[str], log: RehearsalLog
) -> Verdict:
    """Run a drill on a running cluster, or on its own (None).

    With ``group_ids`` it has no members of its own: those groups are watched.
    """
    with ExitStack() as stack:
        found = running
        if found is None:
            _say("starting a cluster for the drill ...")
            found = stack.enter_context(_own_cluster(drill))
        found.prepare_to_connect()
        from actors.deployment import actors
        from bench.servers.live_cluster import LiveCluster

        stack.enter_context(actors.connected(found.address))
        live = LiveCluster(found)
        played = DrillRun(drill, live, group_ids, log)
        if running is not None and not group_ids:
            stack.callback(played.clean_up)
        stack.enter_context(live.left_whole())
        gc_tuning.freeze_heap()  # this process is the load: it must not block itself
        return played.play()


@contextlib.contextmanager
def _own_cluster(drill: Drill) -> Iterator[RegisteredCluster]:
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="rollcall-drill-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if drill.does(Action.FILL_DISK):
            with running_rollcall(OWN_CONFIGS, directory / "data"):
                pass  # it creates its directories itself
            _mount_disks(directory / "data", stack)
        stack.enter_context(running_rollcall(OWN_CONFIGS, directory / "data"))
        found = registry.find(directory / "data", default_data_dir())
        if found is None:
            raise StartError("The cluster that was started for the drill is not running.")
        yield found


def _mount_disks(data_dir: Path, stack: ExitStack) -> None:
    """Mount a small file system in memory for each node; needs the right to mount."""
    for node_id in range(OWN_NODES):
        directory = data_dir / f"node-{node_id}"
        directory.rename(before := data_dir / f"before-{node_id}")
        directory.mkdir()
        options = f"size={SMALL_DISK_MIB}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StartError(
                f"A small disk could not be mounted: {done.stderr.strip() or 'refused'}."
            )
        stack.callback(subprocess.run, ["umount", "-l", str(directory)], check=False)
        shutil.copytree(before, directory, dirs_exist_ok=True)
        witness.accept(directory)


def _say(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall drill", description="Inject one failure into a live cluster."
    )
    parser.add_argument("name", nargs="?", help="the drill; see --list")
    parser.add_argument("--list", action="store_true", help="list the drills")
    parser.add_argument("--members", type=_positive, metavar="N", help="the number of members")
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the verdict to FILE"
    )
    parser.add_argument(
        "--report", type=report_path, action="append", default=[], metavar="FILE",
        help="write a page about the drill to FILE.html, its tables to FILE.md, or its data to"
        " FILE.json",
    )  # fmt: skip
    parser.add_argument(
        "--hosts", type=_positive, metavar="N", help="the number of hosts, for drills on hosts"
    )
    parser.add_argument(
        "--spark-hosts", type=_positive, metavar="N",
        help="the number of further hosts on which Spark drives the members",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep what is on the disks of the hosts in DIR"
    )
    parser.add_argument(
        "--from", type=Path, metavar="WHEEL", dest="older",
        help="the older version of a drill with two (default: this one; a newer one is made up)",
    )  # fmt: skip
    parser.add_argument(
        "--types",
        type=_types,
        metavar="T[,T...]",
        help=f"the types of its groups ({', '.join(GROUP_TYPES)}), spread evenly",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="ID",
        help="watch the members that this group has on the running cluster; repeatable",
    )
    parser.add_argument(
        "--yes", action="store_true", help="harm the running cluster without a question"
    )  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--running", action="store_true", help="use the running cluster, which suffers the fault"
    )
    which.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="use the running cluster of DIR"
    )
    which.add_argument(
        "--own", action="store_true", help="start a cluster for the drill (the default)"
    )
    return parser


def _types(text: str) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(text.split(",")))
    wrong = [each for each in types if each not in GROUP_TYPES]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(GROUP_TYPES)}")
    return types


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number greater than 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
