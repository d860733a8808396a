"""Binds addresses, and retries until that succeeds."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("rollcall.coordinator")

RETRY_S: Final = 0.2
RETRY_S_MAX: Final = 2.0


class Binding:
    """Binds addresses; ``trouble`` is why the last attempt failed, or ""."""

    def __init__(self) -> None:
        self.trouble = ""

    async def bind(self, opening: Callable[[], Awaitable[object]], where: str) -> None:
        """Call ``opening`` until it raises no OSError; log each new reason once."""
        wait_s = RETRY_S
        while True:
            try:
                await opening()
            except OSError as error:
                why = f"cannot listen at {where} ({error.strerror or error}); trying again"
                if why != self.trouble:
                    self.trouble = why
                    _log.warning("%s", why)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
            else:
                self.trouble = ""
                return
