"""The drill ``rolling-upgrade`` without the way back, for continuous integration.

While one host has the newer version the feature level is not raised; once all have it, it is.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from actors.errors import ExitCode
from bench.host_drills.run import HostOptions, run
from bench.host_drills.stage import HostStage
from bench.host_drills.table import HOST_DRILLS

HOSTS, MEMBERS = 3, 16
REFUSAL = "Level 2 is not supported by coordinator 0"


def upgrade(stage: HostStage) -> None:
    """Install the newer version on each host, and raise the level as soon as that is possible."""
    _, newer = stage.versions
    for host in reversed(stage.hosts):
        stage.install(host, newer)
        if host is stage.hosts[-1]:
            for words in (("upgrade", "--dry-run"), ("upgrade",)):
                refused = stage.cluster.rollcall(*words)
                assert refused.returncode == ExitCode.FAILURE, refused
                assert REFUSAL in refused.stderr, refused.stderr
    stage.raise_level()


def main() -> None:
    """Run it; write the verdict to the file that is the first argument."""
    drill = replace(HOST_DRILLS["rolling-upgrade"], carry_out=upgrade)
    verdict = run(drill, HostOptions(hosts=HOSTS, members=MEMBERS))
    sys.stdout.write(verdict.text())
    Path(sys.argv[1]).write_text(json.dumps(verdict.document()))


if __name__ == "__main__":
    main()
