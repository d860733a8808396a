"""An event loop in a thread of its own, which other threads ask for things."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvloop

from actors.priority import EVENT_LOOP_NICENESS, raise_own_priority

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

MEMBERS_NICENESS: Final = EVENT_LOOP_NICENESS + 5
"""How much less nice the thread of members is than others of its process, if it may be."""
FREEZE_S: Final = 5.0
"""How often what members remember is taken from the garbage collector."""


class LoopThread:
    """The ``loop`` runs from :meth:`start` to :meth:`end`; the methods are for other threads.

    Members stand for other machines, where no coordinator could keep them from sending: they get a
    processor before a coordinator on this one does. What they remember is kept until they end: to
    look for garbage in it would let all of them wait for seconds.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Let the loop run."""
        self._thread.start()

    def _run(self) -> None:
        raise_own_priority(MEMBERS_NICENESS)
        self._freeze()
        self.loop.run_forever()

    def _freeze(self) -> None:
        gc.freeze()
        self.loop.call_later(FREEZE_S, self._freeze)

    def end(self) -> None:
        """Stop the loop, and wait for the end of its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def ask(self, question: Callable[[], T]) -> T:
        """Call a function on the loop; return what it returns, or raise what it raises."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # it belongs to the calling thread
                answer.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return answer.result()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for its end."""
        return self.begin(coroutine).result()
