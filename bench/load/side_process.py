"""A separate process that measures while this one creates the load."""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection


@contextmanager
def side_process(target: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Run ``target(*arguments, pipe)`` in a new process until the block ends.

    The block starts once the process has sent its first message, and gets the other end of the
    pipe.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    try:
        ours.recv()
        yield ours
    finally:
        process.terminate()
        process.join()
