"""Jobs of Spark that end: in time, or with a sentence."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

WHY_CHARACTERS_MAX: Final = 300
PYTHON_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): .+", re.MULTILINE)


@contextmanager
def bounded(context: SparkContext, within_s: float) -> Iterator[None]:
    """Cancel the jobs that are not done so long after: Spark itself waits for cores for ever."""
    timer = threading.Timer(within_s, context.cancelAllJobs)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def why_failed(error: Exception) -> str:
    """Return in a line why Spark failed: the error of a task if there is one."""
    said = str(error).strip()
    of_tasks = PYTHON_ERROR.findall(said)
    words: str = of_tasks[0] if of_tasks else said.splitlines()[0]
    return words[:WHY_CHARACTERS_MAX]
