"""What may take long, done in threads beside a run; its results come back to the run's thread."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS_MAX: Final = 8
"""So much is done at once; what is begun meanwhile waits."""


class SideWork:
    """Work in threads, inside a ``with`` block, which ends when what was begun is done.

    What waits for a thread then is not done at all.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="faults")
        self._open: list[tuple[Future[Any], Callable[[Any], None]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, or to hand over."""
        return not self._open

    def begin(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Let a thread do this; ``then`` gets what it returns, from :meth:`hand_over`."""
        self._open.append((self._threads.submit(work), then))

    def hand_over(self) -> None:
        """Hand over what was returned since the last time; raise what was raised."""
        done = [each for each in self._open if each[0].done()]
        for each in done:
            self._open.remove(each)
        for future, then in done:
            then(future.result())
