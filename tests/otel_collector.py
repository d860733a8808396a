"""OpenTelemetry's Collector: OTLP in over HTTP and gRPC, OTLP out to a backend.

It is built from its own modules, in the versions that Jaeger's go.mod pins: Jaeger's go.sum vouches
for them, and what both need is compiled once. ``tests/collector/main.go`` names its parts;
``python -m tests.otel_collector`` builds Jaeger and it ahead of the tests.
"""

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from socket import create_connection
from types import TracebackType

from actors.telemetry.transports import DEFAULT
from bench.servers.processes import free_port
from tests import otlp_backend
from tests.otlp_backend import FLAGS, ROOT, VERSION, built_once, downloaded, go, run_command
from tests.waiting import WITHIN_S, patient, until

HOME = ROOT / ".deps" / f"otelcol-of-jaeger-{VERSION}"
SOURCE = Path("tests", "collector", "main.go")
START_S = patient(30)


def installed() -> Path:
    """Give the program; the first call builds it, which takes a minute or two."""
    parts = sha256((ROOT / SOURCE).read_bytes()).hexdigest()[:12]
    return built_once(HOME / f"otelcol-{parts}", _build)


def _build(program: Path) -> None:
    pins = downloaded(HOME)
    for name in ("go.mod", "go.sum"):
        (HOME / name).unlink(missing_ok=True)
        shutil.copyfile(pins / name, HOME / name)
    shutil.copyfile(ROOT / SOURCE, HOME / "main.go")
    unfinished = program.with_suffix(".part")
    run_command([go(), "build", *FLAGS, "-o", str(unfinished), "."], HOME)
    unfinished.rename(program)


class Collector:
    """One Collector for as long as the ``with`` lasts; it keeps its ports when it is restarted."""

    def __init__(self, directory: Path, backend: str, metrics: str) -> None:
        """Send traces to ``backend`` and metrics to ``metrics``, which are OTLP endpoints."""
        self._log = directory / "otelcol.log"
        self._backends = {"traces": backend, "metrics": metrics}
        self._ports = {"http": free_port(), "grpc": free_port()}
        self._process: subprocess.Popen[bytes] | None = None

    def otlp_endpoint(self, protocol: str = DEFAULT) -> str:
        """Give the value for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        kind = "http" if protocol == DEFAULT else protocol
        return f"http://127.0.0.1:{self._ports[kind]}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        endpoints = {kind: {"endpoint": f"127.0.0.1:{port}"} for kind, port in self._ports.items()}
        exporters = {
            f"otlphttp/{signal}": {"endpoint": endpoint, "compression": "none"}
            for signal, endpoint in self._backends.items()
        }
        pipelines = {
            signal: {"receivers": ["otlp"], "exporters": [f"otlphttp/{signal}"]}
            for signal in self._backends
        }
        config = {
            "receivers": {"otlp": {"protocols": endpoints}},
            "exporters": exporters,
            "service": {"pipelines": pipelines, "telemetry": {"metrics": {"level": "none"}}},
        }
        with self._log.open("ab") as log:
            command = [str(installed()), f"--config=yaml:{json.dumps(config)}"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._listens, START_S, "the Collector listens")

    def kill(self) -> None:
        """Kill it, with all that it has not passed on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(WITHIN_S)

    def __enter__(self) -> "Collector":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.kill()

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        with suppress(OSError):
            for port in self._ports.values():
                create_connection(("127.0.0.1", port), WITHIN_S).close()
            return True
        return False


if __name__ == "__main__":
    sys.stdout.write(f"{otlp_backend.installed()}\n{installed()}\n")
