"""A long command that is interrupted: it stops what it started and shows no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S: Final = 45.0
"""For the command to stop what it started; longer than a cluster takes to stop."""


class Interrupted(BaseException):
    """A signal asked the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as shells have it


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal that asks to stop into :class:`Interrupted`; the next change nothing.

    Native code may keep the main thread from handling a signal at all: then the process ends by
    itself after a while. What it started has to notice that (``discovery.PARENT_VARIABLE``).
    """
    is_over = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)
    watch = threading.Thread(target=_end_late, args=(read, is_over), daemon=True)
    had = _handle()
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        is_over.set()
        os.close(write)
        watch.join()
        for number, handler in had.items():
            signal.signal(number, handler)


def _handle() -> Mapping[signal.Signals, Any]:
    interrupted = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise Interrupted(number)

    return {number: signal.signal(number, stop) for number in SIGNALS}


def _end_late(read: int, is_over: threading.Event) -> None:
    """End the process when it has been asked to stop and has not after a while."""
    number = os.read(read, 1)  # nothing when the other end is closed
    if number and not is_over.wait(PATIENCE_S):
        os._exit(128 + number[0])
    os.close(read)
