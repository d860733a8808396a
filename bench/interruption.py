"""Interrupt a long command: it stops what it started and shows no traceback."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_VERDICT: Final = 2
"""The exit code of a command that was stopped: 1 says that a verdict is not clean."""
PATIENCE_S: Final = 45.0
"""The time for the command to stop what it started; longer than a cluster takes to stop."""


class Interrupted(BaseException):
    """A signal asked the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = NO_VERDICT


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal that asks to stop into :class:`Interrupted`; ignore the next ones.

    Native code may keep the main thread from handling a signal at all: then the process ends on its
    own after a while. The processes that it started must notice that
    (``discovery.PARENT_VARIABLE``).

    What nobody reads any more ends the command, too (:func:`quiet_if_unread`).
    """
    is_over = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)
    watch = threading.Thread(target=_end_late, args=(read, is_over), daemon=True)
    had = _handle()
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watch.start()
    try:
        with quiet_if_unread():
            yield
    finally:
        signal.set_wakeup_fd(wakeup)
        is_over.set()
        os.close(write)
        watch.join()
        for number, handler in had.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def quiet_if_unread() -> Iterator[None]:
    """End the command without a word if it prints what nobody reads any more.

    Inside of what tells errors of sockets: those may be of the same kind.
    """
    try:
        yield
    except BrokenPipeError:
        if _is_read():
            raise
        raise SystemExit(NO_VERDICT) from None


def _is_read() -> bool:
    """Whether standard output is no pipe whose reader has gone."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return True  # it is no file
    return not poll.poll(0)


def _handle() -> Mapping[signal.Signals, Any]:
    interrupted = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise Interrupted(number)

    return {number: signal.signal(number, stop) for number in SIGNALS}


def _end_late(read: int, is_over: threading.Event) -> None:
    """End the process if it was asked to stop and has not done so after a while."""
    number = os.read(read, 1)  # empty when the other end is closed
    if number and not is_over.wait(PATIENCE_S):
        why = f"The command did not stop within {PATIENCE_S:g} s, so it was ended"
        with contextlib.suppress(OSError):  # not by print: its lock may be held
            os.write(2, f"rollcall: {why}: what it started or made may be left.\n".encode())
        os._exit(NO_VERDICT)
    os.close(read)
