"""Kafka's own assignors in a JVM, for the same groups as ours."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from bench.servers.java import java_command
from bench.servers.kafka_jars import HOME, NoJavaError, kafka_classpath
from bench.servers.server import StartError
from protocol.assignors.spec import GroupSpec, Int32s

if TYPE_CHECKING:
    from types import TracebackType

SOURCE: Final = Path(__file__).with_name("AssignorPeer.java")
HEAP: Final = "1g"
FIELDS: Final = (
    "partition_starts", "class_starts", "class_topics",
    "member_class", "previous_owner", "instance_rank",
)  # fmt: skip


class AssignorPeer:
    """A JVM that waits for groups; use it as a context manager.

    Its heap is touched at the start: otherwise the first use of each page counts as time of the
    assignor, which makes some calls ten times longer.
    """

    def __init__(self) -> None:
        libs = kafka_classpath()
        self._directory = tempfile.TemporaryDirectory(prefix="rollcall-assignors-")
        self._process = subprocess.Popen(
            [
                java_command(), f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+AlwaysPreTouch", "-Xshare:auto",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp", f"{_compiled(libs)}:{libs}", "AssignorPeer",
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

    def assign(self, assignor: str, spec: GroupSpec) -> Int32s:
        """Return the owners that Kafka's assignor computes."""
        return self.timed("assign", assignor, spec, calls=0, warm_up_ms=0)[0]

    def timed(
        self, what: str, assignor: str, spec: GroupSpec, *, calls: int, warm_up_ms: int
    ) -> tuple[Int32s, list[float]]:
        """Return the owners, and how many ms each call took; ``what``: ``assign`` or ``build``."""
        path = Path(self._directory.name, "group")
        arrays = [getattr(spec, name) for name in FIELDS]
        path.write_bytes(b"".join(np.array([len(each), *each], ">i4").tobytes() for each in arrays))
        asking, answers = self._process.stdin, self._process.stdout
        assert asking is not None and answers is not None
        asking.write(f"{what} {assignor} {path} {calls} {warm_up_ms}\n")
        asking.flush()
        line = answers.readline()
        if not line.endswith("\n"):
            raise StartError("Kafka's assignors stopped; what they said is above.")
        owner = np.frombuffer(path.with_name("group.out").read_bytes(), ">i4").astype(np.int32)
        return owner, [int(word) / 1e6 for word in line.split()]


def _compiled(libs: str) -> Path:
    """Compile the Java program once for each version of its source."""
    if shutil.which("javac") is None:
        raise NoJavaError("javac is not installed: Kafka's assignors need a JDK")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    classes = HOME / "classes" / f"{SOURCE.stem}-{digest}"
    if not (classes / f"{SOURCE.stem}.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["javac", "-nowarn", "-cp", libs, "-d", str(classes), str(SOURCE)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StartError(f"{SOURCE.name} could not be compiled: {done.stderr[-2000:]}")
    return classes
