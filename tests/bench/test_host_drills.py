"""Drills on hosts: each is carried out here on hosts that only note what happens to them."""

import subprocess
import tomllib
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pytest
from packaging.version import Version

from actors.errors import BadInputError
from actors.peers.versions import PEER_VERSIONS
from bench import drills
from bench.host_drills import programs, run
from bench.host_drills.programs import (
    LINKS,
    Program,
    later_version,
    make_later,
    two_programs,
    unpacked,
)
from bench.host_drills.spark_rehearsal import over_spark
from bench.host_drills.stage import WELL_MS_MAX, HostStage
from bench.host_drills.table import AWAY_S, HOST_COUNTS, HOST_DRILLS, HostDrill
from bench.hosts.clusters import HostCluster
from bench.hosts.host import DATA, NamespaceHost
from bench.hosts.links import HostLink
from bench.hosts.ray_hosts import RayOnHosts
from bench.hosts.waiting import HostError
from bench.load.rehearsal import Rehearsal
from bench.servers.server import StartError
from failover.drills.checked import DrillError
from failover.drills.drill import GROUP_TYPES, names
from failover.drills.verdict import DrillRecord, MemberTimeline, judge
from protocol.config import Configs
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind
from tests.waiting import patient

NOTHING = Program(Path("none"), "unknown", 0)
VERSIONS = Program(Path("older"), "1", 5), Program(Path("newer"), "2", 6)
ROOT = Path(__file__).parent.parent.parent
RUNS = [
    (row, count) for row in HOST_DRILLS.values() for count in HOST_COUNTS if count >= row.hosts_min
]
IDS = [f"{row.name}-{count}" for row, count in RUNS]


@dataclass(eq=False)
class NotingHost:
    name: str
    ip: str
    disk: Path
    has_ray: bool = True
    is_up: bool = True
    is_reached: bool = True
    leads: bool = True
    skew_ms: int = 0
    imports_from: Path | None = None

    def run(self, *command, wait_s=0.0):
        """Answer that no process of Ray runs."""

        class Done:
            returncode = 1

        return Done


class NotingNetwork(list):
    """Hosts, and what goes wrong with them."""

    def vanish(self, host):
        assert host.is_up
        host.is_up = host.has_ray = False

    def come_back(self, host, *, empty):
        assert not host.is_up
        host.is_up = True

    def cut(self, host):
        host.is_reached = False

    def cut_one_way(self, sender, receiver=None):
        (receiver or sender).is_reached = False

    def split(self, *sides):
        for side in sorted(sides, key=len)[:-1]:
            for host in side:
                host.is_reached = False

    def delay(self, host, delay_ms, jitter_ms):
        host.is_reached = False

    def loss(self, host, percent):
        assert 0 < percent < 100

    def heal(self):
        for host in self:
            host.is_reached = True

    def set_clock(self, host, ahead_ms):
        host.skew_ms = ahead_ms


@dataclass
class NotingCluster:
    """The commands of an operator, and Ray."""

    head: NotingHost
    hosts: list[NotingHost]
    commands: list[tuple[str, ...]] = field(default_factory=list)
    refusal: str = ""

    ready: dict[str, str] = field(default_factory=lambda: {"console": "http://10.77.0.1:1"})

    @property
    def ray(self):
        return self

    def start(self, hosts):
        for host in hosts:
            assert host.is_up
            host.has_ray = host.leads = True

    def stop(self, host):
        assert not host.leads, "it is drained first"
        host.has_ray = False

    def rollcall(self, *words, wait_s):
        assert wait_s > 0
        self.commands.append(words)
        if words[0] == "drain":
            (host,) = (each for each in self.hosts if each.ip == words[1])
            host.leads = "--end" in words

        class Done:
            returncode = 1 if self.refusal else 0
            stdout = "a line\n"
            stderr = self.refusal

        return Done


class NotingClients:
    """The cluster as its clients see it: the last host that can leads all groups."""

    bootstrap = ()

    def __init__(self, hosts):
        self.hosts = hosts
        self.avoided = set()

    def avoid(self, hosts):
        self.avoided = set(hosts)

    def coordinator(self, group_id):
        fit = (each for each in self.hosts if each.has_ray and each.is_reached and each.leads)
        return [*fit][-1].ip, 9092

    def wait(self, until, within_ms, what):
        if not until():
            raise DrillError(f"It was not {what} within {within_ms / 1000:g} s.")


class NotingRehearsal(Rehearsal):
    """Notes what it is told."""

    def __init__(self, drill, cluster):
        super().__init__(drill, cluster)
        self.told = []

    def fault_begins(self):
        self.told.append("fault begins")

    def fault_ends(self):
        self.told.append("fault ends")

    def is_replicated(self):
        self.told.append("replicated")


class NotingStage(HostStage):
    """A stage on these, with no time to lose; ``used`` are its methods that a drill calls."""

    def __init__(self, row: HostDrill, count: int, directory: Path):
        everybody = [
            NotingHost(f"host{number}", f"10.77.0.{number}", directory / f"host{number}")
            for number in range(1, count + row.spares + 2)
        ]
        for number, host in enumerate(everybody[:count]):
            (host.disk / DATA.name / f"node-{number}").mkdir(parents=True)
        for host in everybody[count:]:
            host.has_ray = host.leads = False
        hosts, spares = everybody[:count], everybody[count:-1]
        self.used: set[str] = set()
        self.problem = ""
        self.is_stuck = False
        self.paused_s = 0.0
        cluster = NotingCluster(hosts[0], [*hosts, *spares])
        rehearsal = NotingRehearsal(row.drill(), NotingClients([*hosts, *spares]))
        super().__init__(NotingNetwork(everybody), cluster, hosts, spares, rehearsal)
        self.link_version = min
        if row.has_two_versions:
            self.have_versions(VERSIONS)
            for host in hosts:
                host.imports_from = VERSIONS[0].path
        coordinators = int(row.configs.get("offsets.topic.num.partitions", count))
        self.places = [hosts[number % count].ip for number in range(coordinators)]
        self.find_homes()

    def __getattribute__(self, name):
        if name in vars(HostStage):
            super().__getattribute__("__dict__").setdefault("used", set()).add(name)
        return super().__getattribute__(name)

    def pause(self, seconds):
        assert 0 < seconds <= 60
        self.paused_s += seconds

    def status(self):
        by_ip = {host.ip: host for host in self.network}
        joined = [host.ip for host in self.spares if host.has_ray]
        if ("balance",) in self.cluster.commands and not self.is_stuck:
            spread = cycle([*(host.ip for host in self.hosts), *joined])
            self.places = [next(spread) for _ in self.places]
        for node_id, ip in enumerate(self.places):
            if not by_ip[ip].has_ray and self.spares and self.spares[0].has_ray:
                self.places[node_id] = self.spares[0].ip
        rows = [
            {
                "node_id": node_id,
                "ray_host": ip,
                "pid": 1,
                "state": "Running" if by_ip[ip].has_ray and by_ip[ip].is_reached else "Restarting",
                **self._versions(node_id),
            }
            for node_id, ip in enumerate(self.places)
        ]
        led = {"partition": 0, "leader": 0}
        groups = [{"partition": 1, "leader": None}] if self.problem else [led]
        return {
            "coordinators": rows,
            "catalog": led,
            "partitions": groups,
            "share_state": [],
            "under_replicated": [],
            "balance": f"Hosts without coordinators: {', '.join(joined)}" if joined else "",
        }

    def finalized(self):
        return int(("upgrade",) in self.cluster.commands)

    def _versions(self, node_id):
        by_ip = {host.ip: host for host in self.network}
        programs = {program.path: program for program in self.versions}
        runs = [programs.get(by_ip[ip].imports_from, NOTHING) for ip in self.places]
        mine = runs[node_id]
        return {
            "version": mine.version,
            "levels": {"supported": [0, 1], "finalized": self.finalized()},
            "link_versions": {
                str(other): self.link_version(mine.newest_link, theirs.newest_link)
                for other, theirs in enumerate(runs)
                if other != node_id
            },
        }


def test_the_table_has_every_drill_and_no_name_twice():
    assert set(HOST_DRILLS) == {
        "lose-host",
        "lose-host-for-good",
        "cut-host",
        "one-way-cut",
        "slow-network",
        "split-2-1",
        "split-2-2-1",
        "head-dies",
        "head-and-leader-die",
        "host-returns-stale",
        "add-host-under-load",
        "drain-host",
        "rolling-reboot",
        "rolling-upgrade",
        "clock-skewed-host",
    }
    assert not set(HOST_DRILLS) & set(names())


def _prints(text: str, code: int):
    """Return a ``rollcall status`` that prints this."""
    return lambda self, *words, **_: subprocess.CompletedProcess(words, code, text, "")


def _hangs(self, *words, **_):
    raise HostError("Nobody answers.")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (_prints('{"console": "http://c", "partitions": []}', 0), ["console", "partitions"]),
        (_prints('{"error": "The controller does not answer."}', 1), []),
        (_prints("", 1), []),
        (_hangs, []),
    ],
    ids=["status", "error", "nothing", "late"],
)
def test_a_cluster_whose_controller_does_not_answer_has_no_status(answer, status, monkeypatch):
    monkeypatch.setattr(HostCluster, "rollcall", answer)
    host = NamespaceHost(HostLink(1), Path("none"), [])
    assert [*HostCluster(RayOnHosts(host)).status()] == status


@pytest.mark.parametrize("row", HOST_DRILLS.values(), ids=list(HOST_DRILLS))
def test_the_list_says_how_long_a_drill_waits(row: HostDrill, tmp_path: Path):
    stage = NotingStage(row, row.hosts_min, tmp_path)
    row.carry_out(stage)
    assert stage.paused_s == row.pauses * AWAY_S


@pytest.mark.parametrize("words", [["--group", "orders"], ["--running"], ["--yes"]])
def test_a_drill_on_hosts_refuses_what_it_would_not_do(words: list[str], capsys):
    assert drills.main(["lose-host", "--hosts", "3", *words]) == 2
    said = f"rollcall: Drill lose-host makes its hosts and its members: omit {words[0]}.\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("row", "count"), RUNS, ids=IDS)
def test_a_drill_begins_with_a_fault_and_ends_when_all_is_well_again(row, count, tmp_path):
    stage = NotingStage(row, count, tmp_path)
    row.carry_out(stage)
    told = stage.rehearsal.told
    assert told[-1] == "replicated"
    assert "fault begins" in told
    assert told.index("fault begins") < told.index("fault ends")
    assert stage.is_well()
    assert stage.clients.avoided == set()
    for host in stage.network:
        assert host.is_up
        assert host.is_reached
        assert host.skew_ms == 0


def test_what_can_happen_to_hosts_happens_in_some_drill(tmp_path):
    used = set()
    for row, count in RUNS:
        stage = NotingStage(row, count, tmp_path / f"{row.name}-{count}")
        row.carry_out(stage)
        used |= stage.used
    assert used >= {name for name in vars(HostStage) if not name.startswith("_")}


def test_a_row_says_in_words_what_happens():
    for row in HOST_DRILLS.values():
        assert 20 < len(row.about) <= 90, row.name
        assert not row.about.endswith("."), row.name
        assert row.hosts_min in HOST_COUNTS


def test_a_drill_whose_cluster_stays_unwell_says_what_is_wrong(tmp_path):
    stage = NotingStage(HOST_DRILLS["lose-host"], 3, tmp_path)
    stage.problem = "a partition has no leader"
    with pytest.raises(DrillError) as refused:
        stage.wait_until_well()
    assert str(refused.value) == (
        f"It was not well again within {WELL_MS_MAX // 1000} s. Coordinators: 0 Running on"
        " 10.77.0.1, 1 Running on 10.77.0.2, 2 Running on 10.77.0.3."
        " Without a leader: [1]. Not in sync: []."
    )


def test_a_command_that_fails_ends_the_drill_with_its_sentence(tmp_path):
    stage = NotingStage(HOST_DRILLS["drain-host"], 3, tmp_path)
    stage.cluster.refusal = "rollcall: The controller does not answer.\n"
    with pytest.raises(DrillError, match="failed: rollcall: The controller does not answer"):
        HOST_DRILLS["drain-host"].carry_out(stage)


def test_a_host_that_is_given_no_coordinator_ends_the_drill(tmp_path):
    stage = NotingStage(HOST_DRILLS["add-host-under-load"], 3, tmp_path)
    stage.is_stuck = True
    with pytest.raises(DrillError, match=r"have \[3, 3, 2, 0\] coordinators"):
        HOST_DRILLS["add-host-under-load"].carry_out(stage)


def test_where_a_round_trip_is_long_the_lease_is_longer_and_the_configs_fit_each_other():
    row = HOST_DRILLS["slow-network"]
    configs = Configs(row.configs)
    round_trip_ms = 2 * (200 + 50)
    assert configs.integer("replica.lease.ms") > round_trip_ms


def no_java():
    raise StartError("There is no Java 17.")


def heartbeats(*times_ms):
    return [
        MemberHistoryEvent(
            time_ms=at, kind=MemberHistoryKind.HEARTBEAT, member_id="m", instance_id=None,
            generation=1,
        )
        for at in times_ms
    ]  # fmt: skip


def assigned(generation, at=0):
    return MemberHistoryEvent(
        time_ms=at, kind=MemberHistoryKind.ASSIGNED, member_id="m", instance_id=None,
        generation=generation, partitions=(("t", 0),),
    )  # fmt: skip


def committed(offset):
    return MemberHistoryEvent(
        time_ms=1, kind=MemberHistoryKind.COMMITTED, member_id="m", instance_id=None,
        generation=1, offsets=(("t", 0, offset),),
    )  # fmt: skip


HEARD = heartbeats(900, 1_500)
LATE_MS = int(patient(60) * 1000)


@pytest.mark.parametrize(
    ("lives", "offset", "unclean"),
    [
        ([[assigned(1), committed(5), *HEARD]], 5, set()),
        ([[assigned(1), committed(5), *HEARD]], 4, {"lost writes"}),
        ([[assigned(1), *HEARD], [assigned(1)]], 0, {"partitions with two owners"}),
        ([[assigned(1), *HEARD, assigned(2, at=2_000)]], 0, {"rebalances of one group"}),
        ([[assigned(1), *HEARD, *heartbeats(LATE_MS)]], 0, {"without a heartbeat, p99 ms"}),
    ],
)
def test_a_drill_on_hosts_is_judged_as_any_drill(lives, offset, unclean):
    stories = [
        MemberTimeline(group_id="g", name=f"m{number}", is_static=False, events=events)
        for number, events in enumerate(lives)
    ]
    record = DrillRecord(
        stories=stories, committed={("g", "t", 0): offset}, fault_ms=1_000, replicated_ms=10
    )
    found = judge(HOST_DRILLS["lose-host"].drill(), record)
    assert {row.name for row in found.rows if not row.is_clean} == unclean


ONE_HOST = "Drill kill-leader runs on one host: omit --hosts, --spark-hosts, --keep, --from."
SPARK = ["lose-host", "--hosts", "3", "--spark-hosts"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lose-host"], "Drill lose-host needs --hosts 3 or 5."),
        (["lose-host", "--hosts", "4"], "Drill lose-host needs --hosts 3 or 5."),
        (["split-2-2-1", "--hosts", "3"], "Drill split-2-2-1 needs --hosts 5."),
        (["kill-leader", "--hosts", "3"], ONE_HOST),
        (["kill-leader", "--spark-hosts", "2"], ONE_HOST),
        ([*SPARK, "9"], "--spark-hosts is 8 at most."),
        ([*SPARK, "2", "--members", "39"], "--spark-hosts 2 needs --members 40 or more."),
        (
            [*SPARK, "2", "--types", "share"],
            "--spark-hosts drives members of classic and consumer groups: omit --types.",
        ),
        (
            ["lose-host", "--hosts", "3", "--members", "1", "--types", "share,classic"],
            "Drill lose-host has fewer groups than --types names: 1.",
        ),
        (["kill-leader", "--keep", "d"], ONE_HOST),
        (["kill-leader", "--from", "w"], ONE_HOST),
        (
            ["lose-host", "--hosts", "3", "--from", "w"],
            "Drill lose-host runs one version: omit --from.",
        ),
        (
            ["lose-host", "--hosts", "3", "--running"],
            "Drill lose-host makes its hosts and its members: omit --running.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_bad_input_said_in_one_sentence(words, sentence, capsys):
    assert drills.main(words) == 2
    assert capsys.readouterr().err == f"rollcall: {sentence}\n"


@pytest.mark.parametrize(
    ("name", "stand_in", "sentence"),
    [
        ("find_spec", lambda _: None, "--spark-hosts needs PySpark: install rollcall[load]."),
        ("java_command", no_java, "--spark-hosts needs Java. There is no Java 17."),
    ],
)
def test_without_spark_or_java_a_drill_says_what_to_install(
    name, stand_in, sentence, monkeypatch, capsys
):
    monkeypatch.setattr(run, name, stand_in)
    assert drills.main([*SPARK, "2"]) == 2
    assert capsys.readouterr().err == f"rollcall: {sentence}\n"


@pytest.mark.parametrize("row", HOST_DRILLS.values(), ids=HOST_DRILLS)
def test_over_spark_a_drill_has_a_crowd_and_allows_for_its_longer_times(row):
    usual = row.drill()
    few, many = over_spark(usual, None), over_spark(usual, 10_000)
    assert few.workload.members == usual.workload.members
    assert few.expect == usual.expect
    assert many.workload.heartbeat_interval_ms == 5_000
    assert many.workload.consumer_share == usual.workload.consumer_share
    slower_ms = many.expect.unheard_p99_ms_max - usual.expect.unheard_p99_ms_max
    assert slower_ms == (5_000 - 1_000) + 2 * (10_000 - 5_000)


@pytest.mark.parametrize("row", HOST_DRILLS.values(), ids=HOST_DRILLS)
def test_a_drill_on_hosts_has_groups_of_the_types_that_are_asked_for(row):
    usual = row.drill().workload.group_types("g").values()
    assert set(usual) == {"classic", "consumer"}
    all_types = row.drill(None, GROUP_TYPES).workload.group_types("g").values()
    assert Counter(all_types) == dict.fromkeys(GROUP_TYPES, 2)


@pytest.mark.parametrize("members", [80, 10_000, 50_000])
@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
def test_a_cluster_is_as_patient_with_members_of_other_groups_as_with_classic_ones(
    members, group_type
):
    workload = over_spark(HOST_DRILLS["lose-host"].drill(), members).workload
    configs = Configs({**run.CONFIGS, **run.patient_with(workload)})
    session_ms = configs.integer(f"group.{group_type}.session.timeout.ms")
    assert session_ms >= workload.session_timeout_ms
    assert session_ms > 3 * workload.request_timeout_ms
    interval_ms = HOST_DRILLS["lose-host"].drill().workload.heartbeat_interval_ms
    assert configs.integer(f"group.{group_type}.heartbeat.interval.ms") == interval_ms


def test_without_the_right_to_make_hosts_a_drill_says_so_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(run, "what_is_missing", lambda: "Hosts are made by root: run this as root.")
    assert drills.main(["lose-host", "--hosts", "3"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "rollcall: Hosts are made by root: run this as root.\n"
    assert captured.out == ""


def test_the_page_of_operations_names_every_drill():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert [name for name in HOST_DRILLS if f"`{name}`" not in page] == []


def upgraded(tmp_path):
    row = HOST_DRILLS["rolling-upgrade"]
    return row, NotingStage(row, 3, tmp_path)


def test_an_upgrade_goes_forth_and_back_and_forth_with_the_head_last(tmp_path):
    row, stage = upgraded(tmp_path)
    row.carry_out(stage)
    *drains, last = stage.cluster.commands
    assert last == ("upgrade",)
    drained = [words[1] for words in drains]
    assert drained == [f"10.77.0.{number}" for number in (3, 2, 1)] * 3
    assert {host.imports_from for host in stage.hosts} == {VERSIONS[1].path}


def test_an_upgrade_whose_links_are_of_another_version_ends_the_drill(tmp_path):
    row, stage = upgraded(tmp_path)
    stage.link_version = max
    with pytest.raises(DrillError, match=r"link of coordinators 0 and 2 is of version 6, not 5"):
        row.carry_out(stage)


def test_a_level_that_is_not_raised_ends_the_drill(tmp_path):
    row, stage = upgraded(tmp_path)
    stage.finalized = lambda: 0
    with pytest.raises(DrillError, match="Coordinator 0 has level 0, not 1"):
        row.carry_out(stage)


def test_a_host_that_still_runs_the_other_version_ends_the_drill(tmp_path):
    _, stage = upgraded(tmp_path)
    stage._runs[stage.hosts[2].ip] = VERSIONS[1]
    with pytest.raises(DrillError, match="Coordinator 2 runs version 1, not 2"):
        stage.check_versions()


def test_a_later_version_is_made_of_the_present_sources(tmp_path):
    programs._copy_sources(tmp_path / "src")
    project = tomllib.loads((tmp_path / "src" / "pyproject.toml").read_text())
    present = project["project"]["version"]
    assert not (tmp_path / "src" / "tests").exists()
    make_later(tmp_path / "src", Program(tmp_path, present, newest := PEER_VERSIONS[-1].number))
    text = (tmp_path / "src" / LINKS).read_text()
    compile(text, LINKS, "exec")
    assert programs.NUMBER.findall(text)[-2:] == [str(newest), str(newest + 1)]
    assert f'"{later_version(present)}"' in (tmp_path / "src" / "pyproject.toml").read_text()


@pytest.mark.parametrize("version", ["1.2", "0.2.0.dev0", "1.0rc1", "1.0.post2", "1!2.0+of.mine"])
def test_a_later_version_is_one_for_pip_too(version):
    """PEP 440: ``0.2.0.dev0.post1`` is no version at all."""
    once = later_version(version)
    assert Version(version) < Version(once) < Version(later_version(once))
    assert str(Version(once)) == once, "the name of a wheel has it as it is"


def wheel(directory, name, files):
    with zipfile.ZipFile(directory / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return directory / name


def test_the_wheel_of_an_older_version_is_unpacked(tmp_path):
    files = {f"rollcall/{LINKS}": "    PeerVersion(number=3, kinds=1),\n    PeerVersion(number=4,"}
    made = wheel(tmp_path, "rollcall-0.0.9-py3-none-any.whl", files)
    found = unpacked(made, tmp_path)
    assert found == Program(tmp_path / "0.0.9", "0.0.9", 4)


def test_sources_with_the_version_of_the_older_wheel_get_a_later_one(tmp_path):
    file = tmp_path / "pyproject.toml"
    for version, changed in (("1.2", "1.2+later"), ("1.3", "1.3")):
        file.write_text(f'[project]\nversion = "{version}"\n')
        programs.change_version(tmp_path, "1.2")
        assert file.read_text() == f'[project]\nversion = "{changed}"\n'


@pytest.mark.parametrize(
    ("name", "files"),
    [("other-1.whl", {}), ("rollcall-1-py3-none-any.whl", {"rollcall/a": ""}), ("rollcall-2-", {})],
)
def test_what_is_no_wheel_of_rollcall_is_bad_input(name, files, tmp_path, monkeypatch):
    made = wheel(tmp_path, name, files)
    monkeypatch.setattr(programs, "_copy_sources", lambda _: None)
    with pytest.raises(BadInputError, match=r"^The wheel .* cannot be used: "):
        two_programs(tmp_path / "programs", made)


def test_without_a_checkout_no_wheel_can_be_built(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    with pytest.raises(BadInputError, match="so run it in a checkout of Rollcall"):
        two_programs(tmp_path / "programs")
