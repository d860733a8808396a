"""The house rules of CONTRIBUTING.md that a machine can check."""

import ast
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from hatch_build import in_namespace

ROOT = Path(__file__).parent.parent
LAYERS = ("protocol", "storage", "failover", "actors", "bench")
PURE = ("protocol", "storage", "failover")
IMPURE_FILES = {
    "storage/disk/directory.py",
    "storage/disk/witness.py",
    "storage/disk/database.py",
    "storage/disk/rocks.py",
    "storage/disk/wal_sync.py",
    "storage/disk/wal.py",
    "failover/simulation/__main__.py",
}
"""The only files below ``actors`` that touch anything outside: the log, a command."""

OUTSIDE = {
    "asyncio", "concurrent", "ctypes", "fcntl", "multiprocessing", "os", "pathlib", "queue",
    "ray", "rocksdict", "secrets", "select", "selectors", "signal", "socket", "ssl",
    "subprocess", "sys", "tempfile", "threading", "time", "uvloop",
}  # fmt: skip
"""Clocks, sockets, threads, files, chance: what the core is given and never takes."""

CLOCK_READERS = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom"}

MODULE_LINES_MAX = 600
MODULE_LINES_WARN = 500
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 25
PARAMETERS_MAX = 6

PLACES = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/|/opt/wheels")
"""Paths that exist on one machine only."""

MODULES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
PURE_MODULES = [
    path
    for path in MODULES
    if path.relative_to(ROOT).parts[0] in PURE and str(path.relative_to(ROOT)) not in IMPURE_FILES
]


PATHS = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
"""The modules by the names under which they are imported."""

FOLDERS = sorted({path.parent for path in MODULES})
"""Every folder of the packages that has modules."""

MAP_ROW = re.compile(r"^\| `([\w/]+)/` \| (.+) \|$", re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def of_each(paths: Sequence[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make a check of one path a test of all: they are too many for a test each."""

    def test_of(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            bad = {}
            for path in paths:
                try:
                    check(path)
                except Exception as error:
                    bad[name_of(path)] = f"{type(error).__name__}: {error}"
            assert bad == {}

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return test_of


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of every import, those for types only included."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "relative imports hide the layer"
            yield node.lineno, node.module


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@of_each(MODULES)
def test_a_package_imports_only_those_to_its_left(path: Path) -> None:
    layer = LAYERS.index(path.relative_to(ROOT).parts[0])
    forbidden = {*LAYERS[layer + 1 :], "tests"}
    if name_of(path) == "actors/cli/main.py":
        forbidden -= {"bench"}  # `rollcall bench` is handed on, unseen until it is typed
    bad = [(line, name) for line, name in imports_of(path) if name.split(".")[0] in forbidden]
    assert bad == []


@of_each(PURE_MODULES)
def test_the_core_imports_no_clock_chance_socket_thread_or_disk(path: Path) -> None:
    bad = [(line, name) for line, name in imports_of(path) if name.split(".")[0] in OUTSIDE]
    assert bad == []


@of_each(PURE_MODULES)
def test_the_core_draws_from_the_generator_it_is_given_and_reads_no_clock(path: Path) -> None:
    bad = []
    for node in nodes_of(path):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        is_chance = node.value.id == "random" and node.attr != "Random"
        is_clock = node.value.id in {"datetime", "date", "uuid"} and node.attr in CLOCK_READERS
        if is_chance or is_clock:
            bad.append((node.lineno, f"{node.value.id}.{node.attr}"))
    assert bad == []


@of_each(MODULES)
def test_a_module_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MODULE_LINES_MAX
    if lines > MODULE_LINES_WARN:
        print(f"{name_of(path)} has {lines} lines: find the second thing in it")  # noqa: T201


def modules_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.py") if path.name != "__init__.py"]


def what_is_in(folder: Path) -> str:
    """Return the first sentence of a package's docstring."""
    docstring = ast.get_docstring(tree_of(folder / "__init__.py")) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def test_a_folder_has_few_modules() -> None:
    folders = {*FOLDERS, *(path.parent for path in (ROOT / "tests").rglob("*.py"))}
    counts = {name_of(folder): len(modules_in(folder)) for folder in sorted(folders)}
    assert {name: many for name, many in counts.items() if many > FOLDER_MODULES_MAX} == {}


@of_each(FOLDERS)
def test_a_folder_says_in_one_sentence_what_is_in_it(folder: Path) -> None:
    assert re.fullmatch(r"[A-Z`].{20,}[^.]\.", what_is_in(folder))


def test_the_map_has_the_sentence_of_each_folder() -> None:
    rows = dict(MAP_ROW.findall((ROOT / "CONTRIBUTING.md").read_text()))
    assert rows == {name_of(each): what_is_in(each).replace("``", "`") for each in FOLDERS}


@of_each(MODULES)
def test_a_function_is_short_and_takes_few_arguments(path: Path) -> None:
    bad = []
    for node in nodes_of(path):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parameters = [one.arg for one in given if one.arg not in {"self", "cls"}]
        if lines > FUNCTION_LINES_MAX or len(parameters) > PARAMETERS_MAX:
            bad.append((node.name, lines, len(parameters)))
    assert bad == []


def test_no_file_names_a_place_of_one_machine() -> None:
    bad = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path != Path(__file__) and (found := PLACES.search(text)):
            bad.append((name_of(path), found.group()))
    assert bad == []


def test_the_lock_names_no_registry() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index-url" not in lock
    assert "--find-links" not in lock
    assert all("==" in line for line in lock.splitlines() if line and line[0] not in " #-")


def test_every_dependency_is_locked() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = {line.split("==")[0] for line in lock.splitlines() if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    wanted = {re.split(r"[<>=~! ;]", one, maxsplit=1)[0] for one in asked}
    assert {"ray", "pytest"} <= wanted
    assert wanted - locked == set()


@of_each(MODULES)
def test_the_wheel_can_have_a_module_below_its_own_name(path: Path) -> None:
    """The build rewrites imports, but no `import a.b` and no string "a.b" (decisions/wheel.md)."""
    in_namespace(path.read_bytes(), name_of(path))


def test_only_one_file_opens_rocksdb() -> None:
    users = {
        name_of(path)
        for path in MODULES
        if any(name.split(".")[0] == "rocksdict" for _, name in imports_of(path))
    }
    assert users == {"storage/disk/database.py"}


def test_no_core_test_starts_ray() -> None:
    """Unit tests are quick and need no cluster: only those under tests/actors and beside it do."""
    users = {
        path.relative_to(ROOT).parts[1]
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if any(name.split(".")[0] == "ray" for _, name in imports_of(path))
    }
    assert users & {"protocol", "storage", "failover"} == set()


WAITS = {"until", "until_async", "poll_until", "seen", "wait_for", "timeout"}
DEADLINE_S_MIN = 20
"""A loaded machine takes seconds for what takes it a moment at other times."""


def test_no_test_waits_for_so_short_a_time_that_the_machine_decides() -> None:
    bad = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in WAITS:
                bad += [
                    f"{name_of(path)}:{node.lineno} waits {each.value} s; tests.waiting.WITHIN_S"
                    for each in node.args
                    if isinstance(each, ast.Constant)
                    and isinstance(each.value, int | float)
                    and each.value < DEADLINE_S_MIN
                ]
    assert bad == []


GROUP_CLASSES = {"ClassicGroup": "classic", "ConsumerGroup": "consumer", "ModernGroup": "modern"}
"""The hard state of each type of group, and the folder of protocol/groups that may ask for it."""


@of_each(MODULES)
def test_only_a_group_type_and_its_edges_ask_which_type_a_group_has(path: Path) -> None:
    """Everybody else calls what the type's value gives (``protocol/groups/group_type.py``)."""
    folder = path.parent.name if path.parent.parent.name == "groups" else ""
    bad = []
    for node in nodes_of(path):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in {"isinstance", "issubclass"}:
            asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            bad += [
                (node.lineno, name)
                for name in asked & GROUP_CLASSES.keys()
                if folder not in {GROUP_CLASSES[name], "migration"}
            ]
    assert bad == []


def modules_imported(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever in it and for whatever.

    Imports for types and those within functions count, too: they hide a circle and do not open it.
    """
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in PATHS else node.module


def circles(imports: dict[str, list[str]]) -> list[list[str]]:
    """Return the sets of modules each of which reaches all others of its set."""
    found, order, low, open_ = [], {}, {}, []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        open_.append(name)
        for other in imports[name]:
            if other not in order:
                visit(other)
            if other in open_:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            at = open_.index(name)
            circle = open_[at:]
            del open_[at:]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in imports:
        if name not in order:
            visit(name)
    return found


def test_a_circle_of_imports_is_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [["b", "c"]]
    assert circles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def our_imports() -> dict[str, list[str]]:
    """Return which modules of ours each module imports."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): sorted(
            {*modules_imported(path)} & PATHS
        )
        for path in MODULES
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Give a module what it needs, name it by a Protocol, or move what both need to a third."""
    assert circles(our_imports()) == []


def folder_of(module: str) -> str:
    """Return the folder of a module, or nothing for a folder that has folders in it.

    Such a root has what its folders share beside what is made of them.
    """
    folder = ROOT.joinpath(*module.split(".")[:-1])
    return "" if any(other.parent == folder for other in FOLDERS) else name_of(folder)


def test_no_folders_import_each_other_in_a_circle() -> None:
    imports: dict[str, list[str]] = {}
    for module, others in our_imports().items():
        found = imports.setdefault(folder_of(module), [])
        found += [folder for other in others if (folder := folder_of(other)) not in found]
    del imports[""]
    assert circles({name: [each for each in all_ if each] for name, all_ in imports.items()}) == []


CODEC_OF_CLIENTS = {"decode_response", "encode_request"}
CLIENT = "protocol/client/"
FRAME_BUFFERS = {"actors/serving/connection.py"}
"""The server's own end; every other one is a client's, which is in ``protocol/client``."""

CONNECTS = {
    "actors/client/blocking.py": "the blocking adapter",
    "bench/client/stream.py": "the asyncio adapter",
    "bench/client/reactor.py": "the epoll adapter",
    "actors/cluster/registry.py": "looks whether somebody listens",
    "actors/deployment/actors.py": "looks whether a Ray listens",
    "actors/deployment/controller.py": "notices the end of a coordinator's process",
    "actors/peers/peers.py": "links between nodes, which speak no Kafka",
    "bench/cases/hostile.py": "looks whether a port is for peers",
    "bench/load/watching.py": "tells who watches a load, which speaks no Kafka",
    "bench/rehearsals/masters.py": "looks whether a master of Spark listens",
}
OPENS = {"create_connection", "open_connection"}


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every variable, attribute and imported name."""
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, alias.name


@of_each(MODULES)
def test_there_is_one_client(path: Path) -> None:
    """It encodes requests, cuts and decodes answers; adapters carry its bytes, and only they do."""
    if name_of(path).startswith((CLIENT, "protocol/wire/")):
        return
    forbidden = set(CODEC_OF_CLIENTS)
    if name_of(path) not in FRAME_BUFFERS:
        forbidden.add("FrameBuffer")
    if name_of(path) not in CONNECTS:
        forbidden |= OPENS
    bad = [(line, name) for line, name in names_in(path) if name in forbidden]
    assert bad == []


def test_who_may_connect_does() -> None:
    for name in CONNECTS:
        assert OPENS & {found for _, found in names_in(ROOT / name)}, name


MEMBERS_REQUEST = re.compile(
    r"(JoinGroup|SyncGroup|Heartbeat|(Consumer|Share|Streams)GroupHeartbeat)Request"
)
"""What only a member sends."""

KERNEL = {
    "protocol/members/requests.py",
    "protocol/members/share.py",
    "protocol/members/streams_requests.py",
}
NOT_A_MEMBER = {
    "failover/simulation/clients/callers.py",
    "failover/simulation/clients/share_calls.py",
}
"""Call every API for nobody, and get errors, or join share groups under ids that nobody follows."""


@of_each(MODULES)
def test_there_is_one_member_kernel(path: Path) -> None:
    """Tests, simulator, drills and loads drive it; nothing else makes a member's requests."""
    made = [
        (node.lineno, name)
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        for name in [getattr(node.func, "attr", getattr(node.func, "id", ""))]
        if MEMBERS_REQUEST.fullmatch(name)
    ]
    if name_of(path) in KERNEL | NOT_A_MEMBER:
        assert made
    else:
        assert made == []


RAY = "actors/cluster/"


@of_each(MODULES)
def test_ray_is_imported_in_one_package(path: Path) -> None:
    if not name_of(path).startswith(RAY):
        found = [name for _, name in imports_of(path) if name.split(".")[0] == "ray"]
        assert found == []


def test_no_two_modules_have_a_class_of_the_same_name() -> None:
    """One name has one meaning. A name with an underscore is its module's own.

    Generated messages have the names of Kafka's schemas, as kio's have.
    """
    modules: dict[str, list[str]] = {}
    for path in MODULES:
        if path.parent.name == "kafka_4_4":
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name_of(path))
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


ARCHAIC = re.compile(r"\btake notice\b|\banew\b|\bcan not\b|\bhad better\b", re.IGNORECASE)


@of_each(PURE_MODULES)
def test_the_prose_of_the_core_is_plain_english(path: Path) -> None:
    """Docstrings and comments; error messages are compared by other tests."""
    bad = []
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_prose = token.type == tokenize.COMMENT or token.string.startswith('"""')
            if is_prose and (found := ARCHAIC.search(" ".join(token.string.split()))):
                bad.append((token.start[0], found.group()))
    assert bad == []
