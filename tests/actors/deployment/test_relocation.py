"""A coordinator moves with its data; whatever ends the move, it starts at one place with them."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import data_dir
from actors.cluster.data_dir import ClusterFile
from actors.cluster.directory_copy import DirectoryCopier
from actors.cluster.host_agent import HostReport, directories_in
from actors.cluster.spec import Address, ClusterSpec, CoordinatorPlace
from actors.deployment import copying
from actors.deployment.copying import CopyLimits
from actors.deployment.planning import agreed_file, homes_of
from actors.deployment.relocation import Relocator
from actors.errors import FailureError
from storage.disk import witness
from storage.disk.directory import renew
from storage.disk.identity import LogIdentity, directory_id_in
from storage.disk.incarnation import Incarnation, SeenIncarnations
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch, StaleLogError
from tests.storage.dying_writer import batch

NODE, HOME, TARGET = 1, "b", "d"
IDENTITY = LogIdentity(cluster_id="c", node_id=NODE, partitions=3)
RECORDS = 5
LIMITS = CopyLimits(bytes_per_s=1 << 40, is_cancelled=lambda: False)


def place(host: str) -> CoordinatorPlace:
    address = Address(host=host, port=9092)
    return CoordinatorPlace(
        ray_host=host, listener=address, advertised=address, peer=Address(host=host, port=0)
    )


SPEC = ClusterSpec(
    cluster_id="c",
    places=tuple(map(place, "abc")),
    console=Address(host="", port=1),
    data_dir="/data",
    overrides={},
    workers=0,
    replicas_wanted=3,
    directories=("0", "1", "2"),
)
FILE = ClusterFile(
    cluster_id="c",
    partitions=3,
    ports=(9092, 9092, 9092, 1),
    replicas=3,
    secret="s",
    directories=("0", "1", "2"),
    hosts=("a", "b", "c"),
    revision=7,
)


class KilledError(BaseException):
    """The controller's process ends here."""


Trouble = Callable[[int, str, str], None]
"""Called before each step and after it, with its number, name and host; may raise."""


Start = Callable[[Path, int], tuple[Incarnation, int]]
"""Starts a log, writes so many records, stops; returns the start and the end of the log."""


def start_rocks(path: Path, records: int) -> tuple[Incarnation, int]:
    log = RocksLog.open(path, IDENTITY)
    for _ in range(records):
        log.write([AppendBatch(0, batch(log.stored(0).end_offset))], sync=True)
    end_offset = log.stored(0).end_offset
    log.close()
    return log.incarnation, end_offset


def start_small(path: Path, records: int) -> tuple[Incarnation, int]:
    """Do as RocksLog with a log of one file, which can be opened thousands of times."""
    path.mkdir(exist_ok=True)
    (path / "LOCK").touch()
    note, file = path / witness.NOTE, path / "log.json"
    if not note.exists():
        renew(path, IDENTITY)
    name = directory_id_in(str(path), note.read_text())
    row = json.loads(file.read_text()) if file.exists() else [name, 0, [], 0]
    last, known = Incarnation(row[0], row[1], tuple(row[2])), witness.load(path)
    if why := witness.objection(path, known, last):
        raise StaleLogError(why)
    now = last.next(secrets.token_hex(8))
    row = [name, now.number, now.tokens, row[3] + records]
    file.write_text(json.dumps(row))
    witness.save(path, known, now)
    return now, row[3]


class World:
    """Hosts with directories, coordinators that run on them, and trouble."""

    def __init__(self, path: Path, start: Start = start_rocks) -> None:
        self._start = start
        self._copiers: list[DirectoryCopier] = []
        self.running = dict(enumerate("abc"))
        self.steps: list[tuple[str, str]] = []
        self.away: set[str] = set()
        self.gone: set[str] = set()  # Ray has noticed that they are away
        self._disks = {host: path / host for host in "abcd"}
        self._trouble: Trouble = lambda *_: None
        for disk in self._disks.values():
            disk.mkdir(parents=True)
            data_dir.save(disk, FILE)
        self.first = self.run(HOME, RECORDS)
        self.peer = SeenIncarnations()
        self.vouches(HOME)

    def run(self, host: str, records: int = 0) -> Incarnation:
        """Start and stop the coordinator's log on a host."""
        start, self.end_offset = self._start(self.directory(host), records)
        return start

    def vouches(self, host: str) -> None:
        """Start it; a peer must accept it as the newest, and remembers it."""
        start = self.run(host)
        assert self.peer.judge(start), "a peer has seen a later state"
        self.peer.learn(start)

    def directory(self, host: str) -> Path:
        return self._disks[host] / f"node-{NODE}"

    def fail(self, trouble: Trouble) -> None:
        self.steps.clear()
        self._trouble = trouble

    def step(self, name: str, host: str, work: Callable[[], Any]) -> Any:
        number = len(self.steps)
        self.steps.append((name, host))
        self._must_be_there(host)
        self._trouble(2 * number, name, host)
        self._must_be_there(host)
        found = work()
        self._trouble(2 * number + 1, name, host)
        self._must_be_there(host)
        return found

    def _must_be_there(self, host: str) -> None:
        if host in self.away:
            raise FailureError(f"The host {host} does not answer.")

    # --- ClusterHosts

    def reports(self) -> list[HostReport]:
        return [
            HostReport(
                address=host,
                file=(disk / data_dir.CLUSTER_FILE).read_text(),
                directories=directories_in(disk),
            )
            for host, disk in reversed(self._disks.items())
            if host not in self.away
        ]

    def choose_ports(
        self, host: str, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...]:
        return tuple(address.port for address in wanted)

    def check_certificates(self, settings: object) -> None:
        raise AssertionError("links are not encrypted")

    def save(self, file: ClusterFile) -> None:
        for host in "dcba":  # the target first: it may be the only one that learns of the move
            if host not in self.gone:
                self.step("save", host, partial(data_dir.save, self._disks[host], file))

    def set_aside(self, host: str, node_id: int, why: str) -> None:
        copier = DirectoryCopier(self._disks[host])
        self.step("set_aside", host, lambda: copier.set_aside(node_id, why))

    def copier(self, host: str) -> Any:
        self._copiers.append(DirectoryCopier(self._disks[host]))
        return OneHost(self, host, self._copiers[-1])

    def end_copiers(self) -> None:
        """End their processes, as the controller does after each move."""
        for copier in self._copiers:
            copier.take_back(NODE)

    # --- Coordinators

    def stop(self, node_id: int) -> None:
        self.step("stop", "", partial(self.running.pop, node_id, None))

    def create(self, spec: ClusterSpec, node_id: int) -> None:
        assert node_id not in self.running, "never two"
        host = spec.places[node_id].ray_host
        self.step("create", "", lambda: self.running.setdefault(node_id, host))

    # --- what follows

    def home_after_restart(self, away: str = "") -> str:
        """Return where ``rollcall up`` starts the coordinator if one host is away, or none."""
        reports = [report for report in self.reports() if report.address != away]
        file = agreed_file(reports, Path("/data"))
        assert file is not None
        return homes_of(file, reports)[NODE]


class OneHost:
    """The copier of one host: each call is a step, and a sentence is an error."""

    def __init__(self, world: World, host: str, copier: DirectoryCopier) -> None:
        self._world, self._host, self._copier = world, host, copier

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            work = getattr(self._copier, name)
            found = self._world.step(name, self._host, lambda: work(*arguments))
            if isinstance(found, str) and found:
                raise FailureError(found)
            return found

        return call


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def move(world: World, to: str = TARGET) -> ClusterSpec:
    return Relocator(SPEC, world, world).move(NODE, to, LIMITS)


def check(world: World, *, was_moved: bool | None = None) -> None:
    """The coordinator runs at one place, with everything; so it does when all starts again."""
    host = world.running[NODE]
    assert host in (HOME, TARGET)
    if was_moved is not None:
        assert (host == TARGET) is was_moved
    world.vouches(host)
    assert world.end_offset == RECORDS
    assert {world.home_after_restart(away) for away in ("", *"abcd")} == {host}
    for other in {HOME, TARGET} - {host}:
        if (world.directory(other) / "meta.properties").exists():
            assert not world.peer.judge(world.first), "the peers know the older one"


def test_a_coordinator_moves_with_its_data(world: World) -> None:
    moved = move(world)
    assert moved.places == (*SPEC.places[:1], place(TARGET), *SPEC.places[2:])
    check(world, was_moved=True)
    assert not list(world.directory(HOME).iterdir())
    aside = world.directory(HOME).with_name("node-1.moved-1")
    assert (aside / "meta.properties").exists(), "the old directory is kept"


def test_its_old_directory_is_known_to_be_old_once_it_ran_elsewhere(world: World) -> None:
    move(world)
    world.vouches(TARGET)
    world.directory(HOME).rmdir()
    world.directory(HOME).with_name("node-1.moved-1").rename(world.directory(HOME))
    assert not world.peer.judge(world.run(HOME))


def test_a_coordinator_returns_to_a_host_where_it_was(world: World) -> None:
    moved = move(world)
    world.run(TARGET, 1)
    Relocator(moved, world, world).move(NODE, HOME, LIMITS)
    assert world.running[NODE] == HOME
    world.vouches(HOME)
    assert world.end_offset == RECORDS + 1
    assert world.home_after_restart() == HOME


def test_an_old_directory_on_the_target_is_moved_aside(world: World) -> None:
    shutil.copytree(world.directory(HOME), world.directory(TARGET))
    move(world)
    check(world, was_moved=True)
    assert world.directory(TARGET).with_name("node-1.replaced-1").exists()


@pytest.mark.parametrize("is_away", [False, True])
def test_the_newest_file_says_where_a_coordinator_belongs(world: World, is_away: bool) -> None:
    """A controller that starts again was created with the homes of the cluster's start."""
    data_dir.save(world._disks["a"], replace(FILE, revision=6, hosts=("c", "c", "c")))
    moved = move(world)
    world.steps.clear()
    world.away = {TARGET} if is_away else set()
    assert Relocator(SPEC, world, world).at_home([0, NODE]) == moved
    assert world.steps == [], "nothing is changed"


def in_trouble(world: World, trouble: Trouble) -> bool:
    """Move a coordinator in trouble; then let a controller look. Return whether there was any."""
    world.fail(trouble)
    try:
        move(world)
    except (FailureError, KilledError):
        was_trouble = True
    else:
        was_trouble = False
    world.end_copiers()
    world.fail(lambda *_: None)
    world.gone = set(world.away)
    if NODE not in world.running:
        Relocator(SPEC, world, world).restore(NODE)
    return was_trouble


def moments(tmp_path: Path) -> Iterator[tuple[int, World]]:
    """Yield each moment of a move with a world of its own."""
    whole = World(tmp_path / "whole", start_small)
    move(whole)
    for moment in range(2 * len(whole.steps)):
        yield moment, World(tmp_path / str(moment), start_small)


def fails(_: World) -> None:
    raise FailureError("This step fails.")


def kills(_: World) -> None:
    raise KilledError


def loses_target(world: World) -> None:
    world.away.add(TARGET)


def loses_home(world: World) -> None:
    world.away.add(HOME)


def loses_target_and_kills(world: World) -> None:
    loses_target(world)
    raise KilledError


def loses_home_and_kills(world: World) -> None:
    loses_home(world)
    raise KilledError


@pytest.mark.parametrize(
    "happens",
    [fails, kills, loses_target, loses_home, loses_target_and_kills, loses_home_and_kills],
)
def test_trouble_at_any_moment_leaves_one_coordinator_with_its_data(
    tmp_path: Path, happens: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that looks later restores it; hosts that were lost return as they were."""
    monkeypatch.setattr("os.fsync", lambda _: None)  # no machine dies here
    places = set()
    for moment, world in moments(tmp_path):

        def trouble(number: int, *_: str, at: int = moment, of: World = world) -> None:
            if number == at:
                happens(of)

        in_trouble(world, trouble)
        world.away.clear()
        check(world)
        places.add(world.running[NODE])
    assert places == {HOME, TARGET}


def test_after_a_failure_the_move_succeeds_when_it_is_tried_again(world: World) -> None:
    def no_room(number: int, name: str, host: str) -> None:
        if name == "install":
            raise FailureError("d: there is no room.")

    assert in_trouble(world, no_room)
    check(world, was_moved=False)
    move(world)
    check(world, was_moved=True)


def test_a_damaged_copy_is_not_used(world: World) -> None:
    def damage(number: int, name: str, host: str) -> None:
        if name == "arrived" and not number % 2:
            for file in world.directory(TARGET).with_name("node-1.incoming").glob("MANIFEST*"):
                file.write_bytes(b"x" + file.read_bytes()[1:])

    world.fail(damage)
    with pytest.raises(FailureError, match="is damaged"):
        move(world)
    assert world.running[NODE] == HOME


def test_while_the_cluster_stops_nothing_is_copied_or_started(world: World) -> None:
    limits = replace(LIMITS, is_cancelled=lambda: True)
    with pytest.raises(FailureError, match="the cluster stops"):
        Relocator(SPEC, world, world).move(NODE, TARGET, limits)
    assert NODE not in world.running
    assert world.home_after_restart() == HOME


def test_a_copy_is_no_faster_than_the_operator_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def sleep(pause_s: float) -> None:
        assert 0 < pause_s <= copying.PAUSE_S
        clock[0] += pause_s

    monkeypatch.setattr("time.sleep", sleep)
    source, target = world.copier(HOME), world.copier(TARGET)
    size = source.content(NODE).size_bytes
    target.expect(NODE, size)
    limits = replace(LIMITS, bytes_per_s=100)
    copying.copy_directory(NODE, source, target, limits, lambda: clock[0])
    last = max(size for _, size in source.content(NODE).files)
    assert (size - last) / 100 - 1 <= clock[0] <= size / 100 + 1


def test_a_coordinator_starts_empty_on_a_host_where_it_was_long_ago(world: World) -> None:
    shutil.copytree(world.directory(HOME), world.directory("a"))
    Relocator(SPEC, world, world).start_empty(NODE, "a")
    assert world.running[NODE] == "a"
    assert not list(world.directory("a").iterdir())
    assert world.home_after_restart() == "a"


def test_a_restored_directory_is_not_taken_for_the_moved_one(world: World) -> None:
    """Only what was copied while the coordinator was stopped counts as the newest state."""
    backup = world.directory(HOME).with_name("backup")
    shutil.copytree(world.directory(HOME), backup)
    world.vouches(HOME)
    move(world)
    shutil.rmtree(world.directory(TARGET))
    shutil.copytree(backup, world.directory(TARGET))
    with pytest.raises(StaleLogError):
        world.run(TARGET)
