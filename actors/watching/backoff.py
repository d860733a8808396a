"""How long to wait before something is tried again: longer each time, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import threading

FIRST_S: Final = 1.0
MOST_S: Final = 30.0


class Backoff:
    """The waits between attempts; ``reset`` begins anew."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def wait(self, stop: threading.Event) -> None:
        """Wait, or until ``stop`` is set."""
        stop.wait(self._next_s)
        self._next_s = min(2 * self._next_s, MOST_S)

    def reset(self) -> None:
        """Note that an attempt has succeeded."""
        self._next_s = FIRST_S
