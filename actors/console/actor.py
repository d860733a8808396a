"""The console's process: a Ray actor that serves its pages, restarted if it dies.

It has no part in what coordinators do: while it is away, only its pages are.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from actors.cluster import ray_calls
from actors.cluster.ray_peers import CONSOLE, CONTROLLER, UNREACHED, Actors
from actors.logs.file import log_to_file
from actors.logs.line_format import format_of
from actors.priority import lower_priority
from actors.skip_hypothesis import skip_hypothesis

if TYPE_CHECKING:
    from actors.cluster.spec import Address, ClusterSpec

_log = logging.getLogger("rollcall.console")

NICENESS: Final = 5
"""Heartbeats take precedence over pages."""

TELL_S: Final = 1.0
"""How often the controller is told where the console is, until it is reached."""


class ConsoleActor:
    """Serves the pages of one cluster."""

    def __init__(self, spec: ClusterSpec) -> None:
        skip_hypothesis()
        lower_priority(NICENESS)
        from actors.console.hosts import KnownHosts, hosts_of
        from actors.console.rollcall import ACTIONS, RollcallSource
        from actors.console.server import ConsoleServer
        from protocol.config import Configs

        log_to_file(spec.text_log_path(CONSOLE), format_of(spec.overrides))
        self._address = replace(spec.console, host=spec.console.host or ray_calls.machine_address())
        self._actors = Actors()
        may_act = Configs(spec.overrides).boolean(ACTIONS)
        self._source = RollcallSource(spec, self._actors, may_act=may_act)
        self._server = ConsoleServer(self._source, hosts=KnownHosts(hosts_of(spec)))
        self._opening = asyncio.get_running_loop().create_task(self._open())
        self._telling: asyncio.Task[None] | None = None

    async def address(self) -> Address:
        """Wait until it listens; return where."""
        await self._opening
        return self._address

    async def stop(self) -> None:
        """Stop serving; the caller then ends the process."""
        if self._telling is not None:
            self._telling.cancel()
        await self._server.close()
        self._source.close()

    async def _open(self) -> None:
        host, port = self._address.host, self._address.port
        try:
            port = await self._server.open(host, port)
        except OSError:
            port = await self._server.open(host, 0)  # on this host it may be taken
        self._address = replace(self._address, port=port)
        self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        """Tell the controller where the console is."""
        while True:
            try:
                await self._actors.ask(CONTROLLER, "console_at", self._address)
            except UNREACHED:
                await asyncio.sleep(TELL_S)
            else:
                return
