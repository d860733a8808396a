"""``rollcall drill NAME``: one rehearsed failure on a live cluster, and its verdict.

The drill starts its own cluster and stops it at the end; only ``--running`` uses the cluster that
runs here. Members use real sockets; processes get real signals. Drills on hosts are in
:mod:`bench.host_drills`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import default_data_dir, find_cluster
from actors.cluster import registry
from actors.coordinator import gc_tuning
from actors.errors import BadInputError, CommandError
from bench.host_drills import run as host_drills
from bench.host_drills.table import HOST_DRILLS
from bench.hosts.waiting import HostError
from bench.interruption import Interrupted, interruptible
from bench.load.rehearsal import STABLE_MS_MAX, WARM_UP_S, Rehearsal
from bench.servers import cleanup
from bench.servers.rollcall import running_rollcall
from bench.servers.server import StartError
from failover.drills.checked import DrillError
from failover.drills.drill import (
    FAULTS,
    UNTIL_WHOLE,
    Action,
    Condition,
    Drill,
    DrillStep,
    Target,
    named,
    names,
)
from protocol.wire.errors import KafkaError
from storage.disk import witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.cluster.registry import RegisteredCluster
    from bench.load.live import LiveLoad
    from bench.servers.live_cluster import LiveCluster
    from failover.drills.verdict import Verdict

OK, FAILURE, BAD_INPUT = 0, 1, 2
OWN_CONFIGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "1000"}
OWN_NODES: Final = 3
SMALL_DISK_MIB: Final = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one drill; return the exit code: 1 if the verdict is not clean."""
    asked = _parser().parse_args(arguments)
    if asked.list or asked.name is None:
        _print_list()
        return OK if asked.list else BAD_INPUT
    try:
        play = _planned(asked)
        with interruptible():
            verdict = play()
    except Interrupted as stop:
        print(f"rollcall: The drill was {stop}.", file=sys.stderr)
        return stop.exit_code
    except CommandError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return error.exit_code
    except (DrillError, HostError, StartError, KafkaError, OSError) as error:
        print(f"rollcall: The drill could not be completed: {error}", file=sys.stderr)
        return FAILURE
    print(verdict.text())
    if asked.json:
        asked.json.write_text(json.dumps(verdict.document(), indent=2) + "\n")
    return OK if verdict.is_clean else FAILURE


def _print_list() -> None:
    for name in names():
        drill = named(name)
        print(f"{name:26} from {_seconds_least(drill):3d} s  {drill.about}")
    for row in HOST_DRILLS.values():
        print(f"{row.name:26} --hosts {row.hosts_min}   {row.about}")


def _planned(asked: argparse.Namespace) -> Callable[[], Verdict]:
    """Return what runs the drill asked for; raises BadInputError."""
    if asked.name in HOST_DRILLS:
        if asked.running or asked.data_dir:
            raise BadInputError(f"Drill {asked.name} makes its hosts: omit --running, --data-dir.")
        row = host_drills.checked(asked.name, asked.hosts, asked.older)
        return partial(host_drills.run, row, asked.hosts, asked.members, asked.keep, asked.older)
    try:
        drill = named(asked.name).of_size(asked.members)
    except DrillError as error:
        raise BadInputError(str(error)) from None
    if asked.hosts or asked.keep or asked.older:
        raise BadInputError(f"Drill {asked.name} runs on one host: omit --hosts, --keep, --from.")
    return partial(run, drill, asked.data_dir, running_one=asked.running)


def run(drill: Drill, data_dir: Path | None = None, *, running_one: bool = False) -> Verdict:
    """Run a drill on its own cluster, on that of ``data_dir``, or on the one that runs here."""
    with ExitStack() as stack:
        is_guest = running_one or data_dir is not None
        if is_guest:
            found = find_cluster(data_dir)
        else:
            _say("starting a cluster for the drill ...")
            found = stack.enter_context(_own_cluster(drill))
        found.prepare_to_connect()
        from actors.deployment import actors
        from bench.servers.live_cluster import LiveCluster

        stack.enter_context(actors.connected(found.address))
        live = LiveCluster(found)
        played = DrillRun(drill, live)
        if is_guest:
            stack.callback(played.clean_up)
        stack.enter_context(live.left_whole())
        gc_tuning.freeze_heap()  # this process is the load: it must not block itself
        return played.play()


def _seconds_least(drill: Drill) -> int:
    """Return the least time of a drill without waits for the cluster, which have no upper bound."""
    workload = drill.workload
    own_ms = workload.heartbeat_interval_ms + workload.settle_ms
    return round(WARM_UP_S + (own_ms + sum(step.after_ms for step in drill.steps)) / 1000)


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


class DrillRun:
    """One run of one drill on one cluster."""

    def __init__(self, drill: Drill, live: LiveCluster) -> None:
        self.drill = drill
        self.live = live
        self._rehearsal = Rehearsal(drill, live)

    def play(self) -> Verdict:
        """Let the members join, carry out every step, and judge."""
        self.live.wait(self.live.is_replicated, STABLE_MS_MAX, "replicated before the drill")
        return self._rehearsal.play(self._carry_out)

    def clean_up(self) -> None:
        """Delete the drill's groups and topics from the cluster; log what could not be deleted."""
        static: dict[str, list[str]] = {group_id: [] for group_id in self._rehearsal.group_ids}
        for config in self.drill.workload.configs(self._rehearsal.prefix):
            if config.instance_id is not None:
                static[config.group_id].append(config.instance_id)
        try:
            left = cleanup.remove(self.live.bootstrap, static, self._rehearsal.group_ids)
        except CommandError as error:
            print(
                f"rollcall: The drill's groups and topics could not be deleted: {error}",
                file=sys.stderr,
            )
            return
        if left:
            print(
                f"rollcall: Not deleted after the drill: {', '.join(left)}.",
                file=sys.stderr,
            )

    def _carry_out(self, crowd: LiveLoad) -> None:
        for step in self.drill.steps:
            self._run_step(step, crowd)

    def _run_step(self, step: DrillStep, crowd: LiveLoad) -> None:
        rehearsal = self._rehearsal
        time.sleep(step.after_ms / 1000)
        if step.do in FAULTS:
            rehearsal.fault_begins()
        done = ACTIONS[step.do](self, step, crowd)
        if step.do in UNTIL_WHOLE:
            rehearsal.fault_ends()
        elif step.do is Action.WAIT and step.until is Condition.REPLICATED:
            rehearsal.is_replicated()
        rehearsal.say(f"{step}{done}")

    def kill(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """End processes at once."""
        if step.target is Target.CONTROLLER:
            return f" (process {self.live.kill_controller()})"
        nodes = self._nodes(step)
        return _targets(nodes, self.live.kill(nodes))

    def start(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Wait until the killed processes are back; Ray restarts them."""
        self.live.wait(self.live.is_led, step.within_ms, "led by nodes that all serve")
        return ""

    def freeze(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Stop processes without ending them."""
        nodes = self._nodes(step)
        return _targets(nodes, self.live.freeze(nodes))

    def thaw(self, _step: DrillStep, _crowd: LiveLoad) -> str:
        """Resume them."""
        self.live.thaw()
        return ""

    def cut(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Cut nodes off from their peers."""
        nodes = self._nodes(step)
        self.live.cut(nodes)
        return _targets(nodes, ())

    def mend(self, _step: DrillStep, _crowd: LiveLoad) -> str:
        """Restore all links."""
        self.live.mend()
        return ""

    def lose_disk(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Kill nodes and delete their data."""
        nodes = self._nodes(step)
        return _targets(nodes, self.live.lose_disk(nodes))

    def roll(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Restart nodes one by one, as an operator does."""
        nodes = self._nodes(step)
        for node_id in nodes:
            self.live.roll(node_id, step.within_ms)
            self._rehearsal.say(f"node {node_id} was drained and is back")
        return ""

    def fill_disk(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Fill the disk."""
        nodes = self._nodes(step)
        return _targets(nodes, ()) + f", {self.live.fill_disk(nodes) >> 20} MiB filled"

    def free_disk(self, _step: DrillStep, _crowd: LiveLoad) -> str:
        """Free the disk."""
        self.live.free_disk()
        return ""

    def slow_disk(self, step: DrillStep, _crowd: LiveLoad) -> str:
        """Slow down syncs."""
        nodes = self._nodes(step)
        self.live.slow_disk(nodes, step.sync_ms)
        return _targets(nodes, ()) + f", {step.sync_ms} ms for each sync"

    def fast_disk(self, _step: DrillStep, _crowd: LiveLoad) -> str:
        """Restore the normal speed of syncs."""
        self.live.slow_disk(self.live.nodes, 0)
        return ""

    def restart_members(self, step: DrillStep, crowd: LiveLoad) -> str:
        """Restart static members."""
        return f" ({crowd.restart_static(step.share)} static members)"

    def join_members(self, step: DrillStep, crowd: LiveLoad) -> str:
        """Let dynamic members join every group."""
        workload = self.drill.workload
        each = max(1, round(step.share * workload.members / workload.groups))
        crowd.join(
            [
                workload.config(group_id, f"late-{number}", is_static=False)
                for number in range(each)
                for group_id in self._rehearsal.group_ids
            ]
        )
        return f" ({each} into each group)"

    def wait(self, step: DrillStep, crowd: LiveLoad) -> str:
        """Wait for a condition."""
        holds = {
            Condition.LED: self.live.is_led,
            Condition.REPLICATED: self.live.is_replicated,
            Condition.STABLE: crowd.is_stable,
        }[step.until]
        try:
            self.live.wait(holds, step.within_ms, step.until)
        except DrillError as error:
            raise DrillError(f"{error} Members by state: {crowd.counts()}.") from None
        return ""

    def _nodes(self, step: DrillStep) -> tuple[int, ...]:
        return self.live.find(step.target, self._rehearsal.group_ids[0])


ACTIONS: Final[Mapping[Action, Callable[[DrillRun, DrillStep, LiveLoad], str]]] = {
    Action.KILL: DrillRun.kill,
    Action.START: DrillRun.start,
    Action.FREEZE: DrillRun.freeze,
    Action.THAW: DrillRun.thaw,
    Action.CUT: DrillRun.cut,
    Action.MEND: DrillRun.mend,
    Action.LOSE_DISK: DrillRun.lose_disk,
    Action.ROLL: DrillRun.roll,
    Action.FILL_DISK: DrillRun.fill_disk,
    Action.FREE_DISK: DrillRun.free_disk,
    Action.SLOW_DISK: DrillRun.slow_disk,
    Action.FAST_DISK: DrillRun.fast_disk,
    Action.RESTART_MEMBERS: DrillRun.restart_members,
    Action.JOIN_MEMBERS: DrillRun.join_members,
    Action.WAIT: DrillRun.wait,
}
"""How a live cluster carries out each action; each returns further text for the report."""


def _targets(nodes: Sequence[int], pids: Sequence[int]) -> str:
    words = f" (node {', '.join(map(str, nodes))}"
    return words + (f", process {', '.join(map(str, pids))})" if pids else ")")


def _say(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall drill", description="Inject one failure into a live cluster."
    )
    parser.add_argument("name", nargs="?", help="the drill; see --list")
    parser.add_argument("--list", action="store_true", help="list the drills")
    parser.add_argument("--members", type=_positive, metavar="N", help="the number of members")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdict to FILE")
    parser.add_argument(
        "--hosts", type=_positive, metavar="N", help="the number of hosts, for drills on hosts"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep what is on the disks of the hosts in DIR"
    )
    parser.add_argument(
        "--from", type=Path, metavar="WHEEL", dest="older",
        help="the older version of a drill with two (default: this one; a newer one is made up)",
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


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number greater than 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
