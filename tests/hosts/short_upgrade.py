"""Rolling upgrades under load, for continuous integration: of the last release, and of today's.

``python -m tests.hosts.short_upgrade FILE [WHEEL]`` writes the verdict to FILE. With the WHEEL of
the last release most hosts go from it to today's version and back to it, and then all to a later
one, which is made up; without it they go from today's version to the later one. While one host has
the later version the feature level is not raised; once all have it, it is.
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from actors.errors import ExitCode
from bench.host_drills.programs import Program, made_up_program
from bench.host_drills.run import PROGRAMS, HostOptions, run
from bench.host_drills.stage import HostStage
from bench.host_drills.table import HOST_DRILLS

HOSTS, MEMBERS = 3, 16
REFUSAL = "Level 2 is not supported by coordinator 0"


def upgrade(stage: HostStage, later: Program | None = None) -> None:
    """Install the versions on each host; raise the level as soon as that is possible."""
    older, newer = stage.versions
    if later is not None:
        for program in (newer, older):
            for host in reversed(stage.hosts[1:]):  # a majority; the drill does it with all
                stage.install(host, program)
    for host in reversed(stage.hosts):
        stage.install(host, later or newer)
        if host is stage.hosts[-1]:
            for words in (("upgrade", "--dry-run"), ("upgrade",)):
                refused = stage.cluster.rollcall(*words)
                assert refused.returncode == ExitCode.FAILURE, refused
                assert REFUSAL in refused.stderr, refused.stderr
    stage.raise_level()


def from_release(directory: Path, stage: HostStage) -> None:
    """Make up the later version, and install all three."""
    upgrade(stage, made_up_program(directory / PROGRAMS, stage.versions[1]))


def main(file: str, wheel: str = "") -> None:
    """Run it in a directory beside the verdict."""
    directory = Path(file).parent / "drill"
    carry_out = partial(from_release, directory) if wheel else upgrade
    drill = replace(HOST_DRILLS["rolling-upgrade"], carry_out=carry_out)
    older = Path(wheel) if wheel else None
    options = HostOptions(hosts=HOSTS, members=MEMBERS, directory=directory, older=older)
    verdict = run(drill, options)
    sys.stdout.write(verdict.text())
    Path(file).write_text(json.dumps(verdict.document()))


if __name__ == "__main__":
    main(*sys.argv[1:])
