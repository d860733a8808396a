"""``rollcall rehearse SCENARIO``: what a deploy, a crash or a bad application costs its group.

A scenario (``docs/scenarios.md``) is expanded to a plan, and the plan is run in virtual time on the
simulator's cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.interruption import Interrupted, interruptible
from bench.scenarios import real, simulated
from bench.scenarios.files import found, names
from bench.scenarios.plan import expand
from bench.scenarios.stages import own_stage
from bench.scenarios.verdict import judge
from bench.servers.server import StartError
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.scenario import Scenario
    from bench.scenarios.verdict import ScenarioVerdict

OK, FAILURE, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse one scenario; return the exit code: 1 if the verdict is not clean."""
    asked = _parser().parse_args(arguments)
    if asked.list or asked.scenario is None:
        for name in names():
            print(f"{name:26} {found(name).about}")
        return OK if asked.list else BAD_INPUT
    try:
        scenario = found(asked.scenario)
        plan = expand(scenario)
    except DrillError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        with interruptible():
            verdict = _rehearsed(scenario, plan, simulate=asked.simulate)
        if asked.json:
            _write(asked.json, json.dumps(verdict.document(), indent=2) + "\n")
    except Interrupted as stop:
        print(f"rollcall: The rehearsal was {stop}.", file=sys.stderr)
        return stop.exit_code
    except (DrillError, StartError, KafkaError, OSError) as error:
        print(f"rollcall: The rehearsal could not be completed: {error}", file=sys.stderr)
        return FAILURE
    print(verdict.text())
    return OK if verdict.is_clean else FAILURE


def _rehearsed(scenario: Scenario, plan: ScenarioPlan, *, simulate: bool) -> ScenarioVerdict:
    members = sum(group.replicas for group in scenario.groups)
    print(f"{scenario.about}; {members} members, {scenario.duration / 1000:g} s", flush=True)
    if simulate:
        began = time.monotonic()
        record = simulated.run(scenario, plan, _say)
        took_s = time.monotonic() - began
        print(f"{scenario.duration / 1000:g} s of virtual time took {took_s:.1f} s", flush=True)
        return judge(scenario, record, "simulated")
    print("starting a cluster for the rehearsal ...", flush=True)
    with own_stage(scenario) as stage:
        return judge(scenario, real.run(scenario, plan, stage, _say), stage.how)


def _say(at_ms: int, text: str) -> None:
    print(f"{at_ms / 1000:8.1f} s  {text}", flush=True)


def _write(path: Path, text: str) -> None:
    """Write a file aside, then give it its name: nobody finds half of it."""
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(text)
    aside.replace(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall rehearse",
        description="Rehearse what happens to applications, and print what it costs their groups.",
    )
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a name, see --list, or a .toml file"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--simulate", action="store_true", help="run it in virtual time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdict to FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
