"""The process of a test's cluster; ``server DIRECTORY`` serves until its input ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

LOG_FILE: Final = "cluster.log"


def main() -> None:
    """Serve the process that started this one."""
    from actors.skip_hypothesis import skip_hypothesis

    skip_hypothesis()  # before anything that imports kio
    import uvloop

    from actors.logs.file import log_to_file
    from actors.testing.conversation import serve

    directory = Path(sys.argv[1])
    log_to_file(directory / LOG_FILE)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else prints something must not disturb the conversation
    uvloop.run(serve(directory, sys.stdin, said))
    os._exit(0)  # no thread that waits for a socket keeps the process


if __name__ == "__main__":
    main()
