"""The conversation between a test and the process of its cluster, in lines of JSON.

The first line of its input is a JSON object with configs. The first line of its output says where
clients begin, or what is wrong. From then on each line of input is a call of one of the
:data:`actors.testing.verbs.VERBS`, and each line of output is its answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from actors.errors import CommandError
from actors.testing.coordinators import LocalCluster
from actors.testing.faults import InjectedFaults
from actors.testing.stories import GroupNotes
from actors.testing.verbs import VERBS, StagedCluster
from protocol.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TextIO

STOP_S: Final = 10.0

_log = logging.getLogger("rollcall.testing")


async def serve(directory: Path, asked: TextIO, said: TextIO) -> None:
    """Run a cluster for as long as somebody asks."""
    loop, notes = asyncio.get_running_loop(), GroupNotes()
    try:
        configs = json.loads(asked.readline() or "{}")
        cluster = LocalCluster(directory, configs, notes, InjectedFaults())
        await cluster.start()
    except (CommandError, ConfigError, ValueError) as error:
        _say(said, {"error": str(error)})
        return
    _say(said, {"value": cluster.spec.bootstrap})
    ended = asyncio.Event()
    stage = StagedCluster(cluster, notes, loop)

    def converse() -> None:
        for line in asked:
            _say(said, answer(stage, json.loads(line)))
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=converse, name="verbs", daemon=True).start()
    await ended.wait()
    await asyncio.wait_for(cluster.stop(), STOP_S)


def answer(stage: StagedCluster, call: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out a call: ``verb`` and ``arguments``; return ``value`` or ``error``."""
    try:
        return {"value": VERBS[call["verb"]](stage, **call["arguments"])}
    except (CommandError, ValueError) as error:
        return {"error": str(error)}
    except Exception as error:
        _log.exception("%s failed", call["verb"])
        return {"error": f"{type(error).__name__}: {error}"}


def _say(said: TextIO, value: dict[str, Any]) -> None:
    said.write(json.dumps(value) + "\n")
    said.flush()
