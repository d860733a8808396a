"""Shows the progress of a benchmark on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def note(text: str) -> None:
    """Write a line to standard error, if it is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def turns(case: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar of ``total`` turns; call the yielded function with each turn's server.

    The caller's thread draws it between turns only, as an animated bar would take CPU time from
    the measurement. Nothing is shown if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _server: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(case, total=total)
        begun = 0

        def begin(server: str) -> None:
            nonlocal begun
            bar.update(task, description=f"{case}: {server}", completed=begun, refresh=True)
            begun += 1

        yield begin
