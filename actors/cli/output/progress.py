"""Progress of long work on standard error: one line that changes, or a line every few seconds.

The line that changes is for a terminal; it is gone when the work has ended. Elsewhere lines follow
each other, and work that ends sooner prints none. With ``--json`` nothing is printed.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TextIO

from actors.cli.output.terminal import is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINE_S: Final = 5.0
"""How often a line is printed where there is no terminal."""

DRAW_S: Final = 0.25
"""How often the line on a terminal is drawn."""


class WorkProgress:
    """Shows how far some work is, from ``with`` to its end, by a thread of its own.

    The caller tells it by :meth:`step`; or ``state`` returns it, called in that thread. Without
    either only the time that has passed is shown.
    """

    def __init__(
        self,
        what: str,
        *,
        is_quiet: bool = False,
        state: Callable[[], str] | None = None,
        stream: TextIO | None = None,
        every_s: float | None = None,
    ) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._is_quiet = is_quiet
        self._state = self._steps if state is None else state
        self._is_drawn = is_terminal(self._stream)
        self._every_s = (DRAW_S if self._is_drawn else LINE_S) if every_s is None else every_s
        self._done = self._total = 0
        self._units = ""
        self._begun_s = time.monotonic()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> WorkProgress:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> WorkProgress:
        """Begin to show it."""
        if not self._is_quiet:
            self._thread.start()
        return self

    def step(self, done: int, total: int, units: str) -> None:
        """Take note that so many of all units are done."""
        self._done, self._total, self._units = done, total, units

    def stop(self) -> None:
        """End the line; it may be called again."""
        self._has_ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def text(self) -> str:
        """Return how far the work is."""
        known = self._state()
        return f"{self._what}: {known}" if known else self._what

    def _steps(self) -> str:
        return f"{self._done} of {self._total} {self._units}" if self._total else ""

    def _run(self) -> None:
        if self._has_ended.wait(self._every_s):
            return  # most work is short
        with ExitStack() as stack:
            draw = stack.enter_context(_Line(self._stream)).draw if self._is_drawn else self._print
            while True:
                draw(self.text(), time.monotonic() - self._begun_s)
                if self._has_ended.wait(self._every_s):
                    return

    def _print(self, text: str, elapsed_s: float) -> None:
        print(f"{text} ({elapsed_s:.0f} s)", file=self._stream, flush=True)


class _Line:
    """One line of a terminal that is drawn again and again, by Rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}", markup=False)
        self._bar: Bar = Bar(
            SpinnerColumn(),
            text,
            TimeElapsedColumn(),
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,  # it goes to another place than this line
            redirect_stderr=True,  # remarks come above it
        )
        self._task: TaskID = self._bar.add_task("")

    def __enter__(self) -> _Line:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def draw(self, text: str, _elapsed_s: float) -> None:
        """Draw the line again."""
        self._bar.update(self._task, description=text, refresh=True)
