"""Clusters for tests: real ones, started by the command a user types, on free ports of loopback."""

import gc
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import IS_CORE, IS_SETTLED, examples
from tests.waiting import PATIENCE, WITHIN_S, patient, until

# How long an example takes says something about the machine, and nothing about what is tested.
settings.register_profile(
    "rollcall", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "settled", settings.get_profile("rollcall"), derandomize=True, database=None
)
settings.register_profile(
    "core", settings.get_profile("rollcall"), max_examples=examples(100), stateful_step_count=20
)
settings.load_profile("core" if IS_CORE else "settled" if IS_SETTLED else "rollcall")

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark"))

READY_S = patient(90)
STOP_S = patient(40)
SLOWER_MOST = 3.0
"""How many times its own timeout a whole test may take; one wait may be longer (``patient``)."""

WITH_SOCKETS = {"actors", "bench", "clients", "crash", "kafka_suite"}


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collections: they stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give no test less time than others have, and long ones more if the machine may be slow."""
    least, slower = float(config.getini("timeout")), min(PATIENCE, SLOWER_MOST)
    for item in items:
        marker = item.get_closest_marker("timeout")
        if marker and marker.args:
            enough = max(least, marker.args[0] * slower)
            item.add_marker(pytest.mark.timeout(enough), append=False)


@pytest.fixture(scope="module", autouse=True)
def leaks_are_found_where_they_are_made(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect garbage after each module that has sockets, so that no later test is blamed."""
    yield
    if WITH_SOCKETS.intersection(request.path.parts):
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def signals_are_blocked_by_no_test() -> Iterator[None]:
    """Restore what a command called in this process has blocked: child processes inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def rollcall(
    *arguments: str | Path, wait_s: float = READY_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run one ``rollcall`` command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rollcall", *map(str, arguments)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=wait_s,
        check=False,
    )


@dataclass
class RunningCluster:
    """A cluster in the foreground of a child process."""

    data_dir: Path
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)
    ready: dict[str, str] = field(init=False)
    _files: list[IO[bytes]] = field(init=False, default_factory=list)

    def start(self) -> "RunningCluster":
        """Start it and wait for READY."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        said, complained = (self.data_dir.with_suffix(end) for end in (".out", ".err"))
        self._files = [said.open("wb"), complained.open("wb")]
        words = (
            [*self.arguments] if "--port" in self.arguments else ["--port", "0", *self.arguments]
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rollcall", "up", "--data-dir", str(self.data_dir), *words],
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
        )

        def line() -> str:
            assert self.process.poll() is None, complained.read_text()
            text = said.read_text()
            return text if text.endswith("\n") else ""

        words = until(line, READY_S, "rollcall up says READY").split()
        assert words[0] == "READY", words
        self.ready = dict(word.split("=", 1) for word in words[1:])
        return self

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return self.ready["bootstrap"]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The listeners in the order of their node ids."""
        pairs = (address.rsplit(":", 1) for address in self.bootstrap.split(","))
        return [(host, int(port)) for host, port in pairs]

    def status(self) -> dict[str, Any]:
        """Ask the console, which is quick; as a second shell does if there is none."""
        with suppress(OSError, KeyError):
            page = self.ready["console"] + "/status.json"
            with urllib.request.urlopen(page, timeout=WITHIN_S) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        return self.status_from_second_shell()

    def status_from_second_shell(self) -> dict[str, Any]:
        """Return what ``rollcall status --json`` prints."""
        done = rollcall("status", "--json", "--data-dir", self.data_dir)
        assert done.stdout, done.stderr
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def coordinators_if_told(self) -> list[dict[str, Any]]:
        """Return a second shell's rows; none while the status is only an error."""
        done = rollcall("status", "--json", "--data-dir", self.data_dir)
        said = json.loads(done.stdout) if done.stdout else {}
        rows: list[dict[str, Any]] = said.get("coordinators", [])
        return rows

    def pid_of(self, node_id: int) -> int:
        """Return the process of a coordinator."""
        return int(self.status()["coordinators"][node_id]["pid"])

    def log_lines(self, name: str) -> str:
        """Return what one process has logged."""
        return (self.data_dir / "logs" / f"{name}.log").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as an operator does; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(STOP_S)
        for file in self._files:
            file.close()
        return code

    def close(self) -> None:
        """Stop it if it runs."""
        if hasattr(self, "process"):
            self.stop()


NewCluster = Callable[..., RunningCluster]


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    """Make clusters of a test's own: ``new_cluster("--port", "0", settings={...}).start()``."""
    with ExitStack() as stack:

        def make(
            *arguments: str, settings: Mapping[str, str] | None = None, name: str = "data"
        ) -> RunningCluster:
            sets = [w for pair in (settings or {}).items() for w in ("--set", "=".join(pair))]
            made = RunningCluster(tmp_path / name, (*arguments, *sets))
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One cluster of three coordinators for all tests that harm nothing."""
    made = RunningCluster(
        tmp_path_factory.mktemp("cluster") / "data",
        (
            "--set",
            "group.initial.rebalance.delay.ms=0",
            "--set",
            "socket.request.max.bytes=1000000",
        ),
    )
    with ExitStack() as stack:
        stack.callback(made.close)
        yield made.start()
