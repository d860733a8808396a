"""Apache Kafka's own jars, downloaded once by Maven: for byte comparisons and for running Kafka."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from typing import TYPE_CHECKING

from bench.paths import DOWNLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KAFKA_VERSION = "4.3.1"
HOME = DOWNLOADS / f"kafka-{KAFKA_VERSION}"
ARTIFACTS = (
    "kafka_2.13",
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-server",
    "kafka-storage",
    "kafka-tools",
)
_DONE = ".complete"


class NoJavaError(Exception):
    """Java or Maven is not installed; the message says which."""


def kafka_classpath() -> str:
    """Resolve the class path of Kafka's broker, tools and clients; the first call downloads.

    Several processes may call at once: one downloads, the others wait for it.
    """
    return _resolved("libs", ARTIFACTS)


def streams_classpath() -> str:
    """Resolve the class path of Kafka Streams, as :func:`kafka_classpath` does."""
    return f"{_resolved('streams-libs', ('kafka-streams',))}:{kafka_classpath()}"


def _resolved(folder: str, artifacts: Sequence[str]) -> str:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise NoJavaError(
                f"{tool} is not installed: Kafka {KAFKA_VERSION} needs Java and Maven"
            )
    libs = HOME / folder
    if not (libs / _DONE).exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with (HOME / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (libs / _DONE).exists():
                _download(libs, artifacts)
    return f"{libs}/*"


def _download(libs: Path, artifacts: Sequence[str]) -> None:
    pom = HOME / f"{libs.name}.xml"
    pom.write_text(_pom(artifacts), encoding="utf-8")
    done = subprocess.run(
        [
            "mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
            f"-DoutputDirectory={libs}", "-DincludeScope=runtime",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not fetch Kafka {KAFKA_VERSION}: {done.stdout[-2000:]}")
    (libs / _DONE).touch()


def _pom(artifacts: Sequence[str]) -> str:
    rows = "\n".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId>"
        f"<version>{KAFKA_VERSION}</version></dependency>"
        for name in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>rollcall</groupId><artifactId>kafka-jars</artifactId><version>1</version>"
        "<packaging>pom</packaging><dependencies>"
        f"{rows}<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>"
        "<version>1.7.36</version></dependency></dependencies></project>\n"
    )
