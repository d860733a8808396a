"""The wheel in a stranger's environment: one name, and it runs there as it does here.

The environment has packages of its own with our short names, which refuse to be imported:
an import of ``storage`` in place of ``rollcall.storage`` fails, in Ray's and Spark's workers too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hatch_build import NAMESPACE, PACKAGES, UnfitImportError, in_namespace
from tests.clients.confluent import Member
from tests.waiting import patient, until

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
UV = Path(sys.executable).parent / "uv"
STRANGER = "raise ImportError('this is a package of somebody else')\n"
COMMAND_S = patient(110)
EXAMPLE = ROOT / "docs" / "examples" / "orders"
CLIENTS = ("aiokafka", "confluent-kafka")
"""What the example's tests need besides us."""

TESTS = sorted(EXAMPLE.glob("tests/test_*.py"))
LEFT_BY_RUNS = shutil.ignore_patterns("__pycache__", ".pytest_cache")

IMPORT_ALL = """
import importlib, pkgutil, rollcall
names = [each.name for each in pkgutil.walk_packages(rollcall.__path__, "rollcall.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""

SPARK = """
from rollcall.bench.load.spark import local_session, warm_up
session = local_session()
warm_up(session)
session.stop()
print("warm")
"""


@dataclass(frozen=True)
class Stranger:
    """An empty virtual environment of somebody else, and a directory to stand in."""

    venv: Path
    home: Path

    def run(self, *words: str, wait_s: float = COMMAND_S) -> str:
        done = subprocess.run(
            [str(self.venv / "bin" / words[0]), *words[1:]],
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "LANG": "C.UTF-8",
                **{name: value for name, value in os.environ.items() if name == "JAVA_HOME"},
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=wait_s,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


def uv(words: Sequence[str]) -> None:
    """Run uv on what it has kept since ``.venv`` was made; from the registry only without that."""
    index = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    environment = {
        **os.environ,
        "UV_SYSTEM_CERTS": "true",
        "VIRTUAL_ENV": sys.prefix,
        **({"UV_DEFAULT_INDEX": index} if index and "UV_DEFAULT_INDEX" not in os.environ else {}),
    }
    for offline in (["--offline"], []):
        done = subprocess.run(
            [str(UV), *words, *offline],
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode == 0:
            return
    raise AssertionError(f"uv {words[0]} failed: {done.stderr}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    uv(["build", "--wheel", "--no-build-isolation", "--out-dir", str(directory), str(ROOT)])
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def stranger(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    directory = tmp_path_factory.mktemp("stranger")
    venv, home = directory / "venv", directory / "home"
    home.mkdir()
    uv(["venv", "--python", sys.executable, str(venv)])
    python = ["--python", str(venv / "bin" / "python")]
    wanted = (f"{NAMESPACE}[load,pytest] @ {wheel}", *CLIENTS)
    uv(["pip", "install", *python, "--constraints", str(LOCK), *wanted])
    (site_packages,) = venv.glob("lib/python*/site-packages")
    for package in PACKAGES:
        (site_packages / package).mkdir()
        (site_packages / package / "__init__.py").write_text(STRANGER)
    return Stranger(venv, home)


def test_the_wheel_takes_one_name_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(name for name in names if name.endswith("points.txt")))
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {NAMESPACE}
    assert b"rollcall = rollcall.__main__:entry" in entry_points
    assert b"rollcall = rollcall.pytest_plugin" in entry_points
    assert f"{NAMESPACE}/failover/drills/kill-leader.toml" in names
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


@pytest.mark.timeout(300)
def test_every_module_of_it_imports_beside_packages_of_the_same_short_names(
    stranger: Stranger,
) -> None:
    modules = sum(len(list((ROOT / package).rglob("*.py"))) for package in PACKAGES)
    imported = int(stranger.run("python", "-c", IMPORT_ALL))
    assert imported == modules + 2  # and rollcall.__main__, rollcall.pytest_plugin


@pytest.fixture
def bootstrap(stranger: Stranger) -> Iterator[str]:
    ready = stranger.run("rollcall", "up", "--port", "0", "--data-dir", "data", "--detach")
    try:
        found = re.search(r"READY bootstrap=(\S+)", ready)
        assert found, ready
        yield found[1]
    finally:
        stranger.run("python", "-m", "rollcall", "down", "--data-dir", "data")


@pytest.mark.timeout(400)
def test_it_runs_a_cluster_and_serves_a_client_from_another_directory(
    stranger: Stranger, bootstrap: str
) -> None:
    stranger.run(
        "rollcall",
        "topics",
        "--create",
        "--topic",
        "orders",
        "--partitions",
        "4",
        "--data-dir",
        "data",
    )
    member = Member(bootstrap, "strangers", ["orders"])
    try:
        until(
            lambda: member.poll() or len(member.assigned) == 4,
            patient(60),
            "all partitions are assigned",
        )
    finally:
        member.close()
    status = json.loads(stranger.run("rollcall", "status", "--json", "--data-dir", "data"))
    assert [row["state"] for row in status["coordinators"]] == ["Running"] * 3
    assert all(row["pid"] for row in status["workers"])
    assert "kill-leader" in stranger.run("rollcall", "drill", "--list")


def test_commands_that_start_other_commands_name_the_modules_of_the_wheel(
    stranger: Stranger,
) -> None:
    program = "from rollcall.bench.servers.rollcall import call; print(call(['--version']))"
    assert stranger.run("python", "-c", program).startswith("rollcall ")
    for bench in ("all", "assignors", "hostile"):
        stranger.run("rollcall", "bench", bench, "--help")


@pytest.mark.timeout(200)
def test_workers_of_spark_import_it(stranger: Stranger) -> None:
    assert stranger.run("python", "-c", SPARK).strip() == "warm"


@pytest.mark.timeout(400)
def test_the_tests_of_an_application_run_in_it(stranger: Stranger) -> None:
    shutil.copytree(EXAMPLE, stranger.home / "orders", ignore=LEFT_BY_RUNS)
    said = stranger.run("python", "-m", "pytest", "-v", "orders", wait_s=2 * COMMAND_S)
    tests = sum(len(re.findall("^def test_", each.read_text(), re.MULTILINE)) for each in TESTS)
    assert tests
    assert len(re.findall(" PASSED ", said)) >= tests


# --- what the build rewrites, and what it refuses


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from protocol.x import y\n", "from rollcall.protocol.x import y\n"),
        ("from storage import (\n    a,\n)\n", "from rollcall.storage import (\n    a,\n)\n"),
        ("import os, actors.cli as cli\n", "import os, rollcall.actors.cli as cli\n"),
        ("é = 1; from bench import a\n", "é = 1; from rollcall.bench import a\n"),
        ("def f():\n    from bench.a import b\n", "def f():\n    from rollcall.bench.a import b\n"),
        ("from . import protocol\n", "from . import protocol\n"),
        ("import storage3\nfrom os import path\n", "import storage3\nfrom os import path\n"),
        ('"""Read ``protocol.x`` and\nfrom storage import y."""\n', None),
        ('note = "the protocol. And a storage"\n', None),
    ],
)
def test_imports_are_rewritten_and_nothing_else(source: str, expected: str | None) -> None:
    assert in_namespace(source.encode(), "m.py").decode() == (expected or source)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("x = 1\nimport protocol.x\n", "m.py:2: `import protocol.x` cannot be rewritten"),
        ('f("bench.cli")\n', "m.py:1: the string 'bench.cli' names a module"),
        ('print(f"python -m actors.cli {x}")\n', "names a module, whose name is another one"),
    ],
)
def test_what_would_break_in_the_wheel_is_refused(source: str, sentence: str) -> None:
    with pytest.raises(UnfitImportError, match=re.escape(sentence)):
        in_namespace(source.encode(), "m.py")
