"""Kafka's compiled request tests: built once into ``.deps``, then run against a bootstrap address.

Where they come from, and what the suite is, is said in ``docs/decisions/kafka-suite.md``.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = ROOT / ".deps" / "kafka-suite"
LINE = re.compile(r"^(PASS|FAIL|SKIP)  (\S+)  \([^)]*\)(?:  (.*))?$")
CLASSES = (
    "ConsumerGroupDescribeRequestTest",
    "ConsumerGroupHeartbeatRequestTest",
    "ConsumerGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest",
    "ConsumerProtocolMigrationTest",
    "ConsumerProtocolMigrationTest$WithAssignmentBatchingDisabledTest",
    "DeleteGroupsRequestTest",
    "DescribeGroupsRequestTest",
    "HeartbeatRequestTest",
    "JoinGroupRequestTest",
    "LeaveGroupRequestTest",
    "ListGroupsRequestTest",
    "OffsetCommitRequestTest",
    "OffsetDeleteRequestTest",
    "OffsetFetchRequestTest",
    "ShareGroupDescribeRequestTest",
    "ShareGroupHeartbeatRequestTest",
    "ShareGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest",
    "StreamsGroupDescribeRequestTest",
    "StreamsGroupHeartbeatRequestTest",
    "StreamsGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest",
    "SyncGroupRequestTest",
)


class NoSuiteError(Exception):
    """The suite cannot be run here; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one of Kafka's tests: PASS, FAIL or SKIP, and the first line of why."""

    verdict: str
    why: str


def built() -> Path:
    """Give the folder of the built suite; the first call builds it and downloads Kafka's jars."""
    source = Path(os.environ.get("KAFKA_SUITE", ROOT.parent / "shared" / "kafka-suite"))
    if not (source / "run.sh").exists():
        raise NoSuiteError(
            f"no Kafka request-test suite at {source}: set KAFKA_SUITE to the folder that runs"
            " Kafka's compiled kafka.server.*RequestTest classes against an external server"
        )
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise NoSuiteError(
                f"{tool} is not installed: Kafka's request tests need Java and Maven"
            )
    BUILT.mkdir(parents=True, exist_ok=True)
    wanted = _fingerprint(source)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = BUILT / wanted
        if not (folder / ".complete").exists():
            _build(source, folder)
    return folder


def _fingerprint(source: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(_sources(source)):
        digest.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _sources(source: Path) -> Iterable[Path]:
    return (
        file
        for file in source.rglob("*")
        if file.is_file() and "target" not in file.relative_to(source).parts
    )


def _build(source: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for file in _sources(source):
        copy = folder / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o755 if file.suffix == ".sh" else 0o644)
    command = ["mvn", "-q", "-B", "-DskipTests", "clean", "package"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the suite cannot be built: {done.stdout[-3000:]}"
    (folder / ".complete").touch()


def listed(suite: Path) -> set[str]:
    """Names of all tests of :data:`CLASSES` that the suite has."""
    printed = _run(suite, ["--list", "--tests", ",".join(CLASSES)], {})
    names, current = set(), ""
    for line in printed.splitlines():
        if line.startswith("  "):
            names.add(f"{current}.{line.split()[0]}")
        else:
            current = line.split()[0]
    return names


def run(
    suite: Path, bootstrap: str, tests: Iterable[str], settings: Mapping[str, str], out: Path
) -> dict[str, Outcome]:
    """Run tests by name against a running server that was started with ``settings``."""
    out.mkdir(parents=True, exist_ok=True)
    properties = out / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    environment = {
        "SUITE_BOOTSTRAP": bootstrap,
        "SUITE_FIXED_PROPS": str(properties),
        "SUITE_FIXED_FORCE": "true",
        "SUITE_OUT": str(out),
    }
    return _outcomes(_run(suite, ["--tests", ",".join(tests)], environment))


def run_starting(suite: Path, command: str, tests: Iterable[str], out: Path) -> dict[str, Outcome]:
    """Run tests by name, each against a server that it starts by ``command``, and may restart."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {"SUITE_SERVER_CMD": command, "SUITE_OUT": str(out)}
    return _outcomes(_run(suite, ["--tests", ",".join(tests)], environment))


def _outcomes(printed: str) -> dict[str, Outcome]:
    outcomes = {}
    for line in printed.splitlines():
        if match := LINE.match(line):
            outcomes[match[2]] = Outcome(match[1], match[3] or "")
    assert outcomes, printed[-3000:]
    return outcomes


def _run(suite: Path, arguments: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [str(suite / "run.sh"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
