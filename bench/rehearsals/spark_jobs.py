"""Jobs of Spark that end: in time, or with a sentence."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

WHY_CHARACTERS_MAX: Final = 300
PYTHON_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): .+", re.MULTILINE)

JAVA_ERROR: Final = re.compile(r"^: [\w.$]+: (.+)", re.MULTILINE)


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


@contextmanager
def told(what: str) -> Iterator[None]:
    """Raise StartError with a sentence if Spark fails meanwhile; ``what`` begins it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise StartError(f"{what}: {why_failed(error)}") from None


def why_failed(error: Exception) -> str:
    """Return in a line why Spark failed: the error of a task if there is one."""
    said = str(error).strip()
    found = PYTHON_ERROR.findall(said) or JAVA_ERROR.findall(said) or said.splitlines()
    words: str = found[0] if found else type(error).__name__
    return words[:WHY_CHARACTERS_MAX]
