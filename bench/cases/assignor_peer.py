"""Kafka's own assignors in a JVM, for the same groups as ours."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from bench.report.progress import note
from bench.servers.java import java_command
from bench.servers.kafka_jars import HOME, NoJavaError, kafka_classpath
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from protocol.assignors.spec import Int32s

MAIN: Final = "AssignorPeer"
SOURCES: Final = tuple(sorted(Path(__file__).parent.glob("*.java")))
HEAP: Final = "2g"


class AssignorPeer:
    """A JVM that waits for groups; use it as a context manager.

    Its heap is touched at the start: otherwise the first use of each page counts as time of the
    assignor, which makes some calls ten times longer.
    """

    def __init__(self) -> None:
        note("Starting Kafka's assignors ...")
        libs = kafka_classpath()
        self._directory = tempfile.TemporaryDirectory(prefix="rollcall-assignors-")
        self._process = subprocess.Popen(
            [
                java_command(), f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+AlwaysPreTouch", "-Xshare:auto",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp", f"{_compiled(libs)}:{libs}", MAIN,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait(timeout=60)
        self._directory.cleanup()

    def assign(self, assignor: str, arrays: Sequence[Int32s]) -> list[Int32s]:
        """Return the assignment of Kafka's assignor; the group and it are arrays.

        Which they are is told in the Java class of the group's type.
        """
        return self.timed("assign", assignor, arrays, calls=0, warm_up_ms=0)[0]

    def timed(
        self, what: str, assignor: str, arrays: Sequence[Int32s], *, calls: int, warm_up_ms: int
    ) -> tuple[list[Int32s], list[float]]:
        """Return it, and how many ms each call took; ``what``: ``assign`` or ``build``."""
        path = Path(self._directory.name, "group")
        path.write_bytes(b"".join(np.array([len(each), *each], ">i4").tobytes() for each in arrays))
        asking, answers = self._process.stdin, self._process.stdout
        assert asking is not None and answers is not None
        asking.write(f"{what} {assignor} {path} {calls} {warm_up_ms}\n")
        asking.flush()
        line = answers.readline()
        if not line.endswith("\n"):
            raise StartError("Kafka's assignors stopped; what they said is above.")
        told = _arrays(path.with_name("group.out").read_bytes())
        return told, [int(word) / 1e6 for word in line.split()]


def _arrays(data: bytes) -> list[Int32s]:
    numbers = np.frombuffer(data, ">i4").astype(np.int32)
    arrays, at = [], 0
    while at < len(numbers):
        size = int(numbers[at])
        arrays.append(numbers[at + 1 : at + 1 + size].copy())
        at += 1 + size
    return arrays


def _compiled(libs: str) -> Path:
    """Compile the Java program once for each version of its sources."""
    if shutil.which("javac") is None:
        raise NoJavaError("javac is not installed: Kafka's assignors need a JDK")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:12]
    classes = HOME / "classes" / f"{MAIN}-{digest}"
    if not (classes / f"{MAIN}.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["javac", "-nowarn", "-cp", libs, "-d", str(classes), *map(str, SOURCES)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StartError(f"{MAIN}.java could not be compiled: {done.stderr[-2000:]}")
    return classes
