"""What ``rollcall drill`` says, and members that come and go while the load runs."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from actors.cli import admin
from actors.cli.client import AdminClient, parse_bootstrap, shown
from actors.errors import ExitCode
from actors.telemetry.transports import FILE
from bench.client.blocking_client import BlockingClient
from bench.client.cluster_client import ClusterClient
from bench.drill_run import ACTIONS, DrillRun
from bench.drill_times import FOOTNOTE, OWN_CLUSTER_S, own_seconds, watched_seconds
from bench.drills import main
from bench.host_drills.table import HOST_DRILLS
from bench.load.driver import LoadSpec
from bench.load.live import SETTINGS, LiveLoad
from bench.load.rehearsal import STABLE_MS_MAX
from bench.servers import cleanup
from bench.servers.rollcall import running_rollcall
from failover.drills.checked import DrillError
from failover.drills.drill import Action, Workload, named, names
from failover.drills.verdict import DrillRecord, changed_ids, owned_twice, without_partitions
from protocol.groups.group_types import TABLES
from protocol.members.history import MemberHistoryKind
from tests.bench.traces import children, is_rebalance_root, spans_in, the_run
from tests.clients.confluent import Member, create_topics
from tests.waiting import LONG_SESSION_MS, until

WORKLOAD = Workload(
    groups=4,
    members=24,
    consumer_share=0.25,
    share_share=0.25,
    streams_share=0.25,
    heartbeat_interval_ms=100,
    commit_interval_ms=100,
    session_timeout_ms=LONG_SESSION_MS,
)


@contextmanager
def stable(bootstrap, workload, prefix, within_s=20):
    """Run a workload's members on a cluster, from when every group is Stable."""
    group_ids = workload.group_ids(prefix)
    with BlockingClient(bootstrap[0]) as connection:
        for group_id in group_ids:
            connection.create_topic(group_id, workload.partitions_each)
        ids = connection.topic_ids(group_ids)
    load = LoadSpec(
        bootstrap=tuple(bootstrap),
        members=workload.configs(prefix),
        partitions_of=dict.fromkeys(group_ids, workload.partitions_each),
        until_ms=0,
        commit_interval_ms=workload.commit_interval_ms,
    )
    topic_names = {topic_id: name for name, topic_id in ids.items()}
    with LiveLoad(load, workload.group_types(prefix), topic_names) as crowd:
        until(crowd.is_stable, within_s, "every group is Stable")
        yield crowd


@pytest.fixture
def crowd(node):
    with stable([node.address], WORKLOAD, "g") as crowd:
        yield crowd


def test_every_action_of_a_drill_can_be_done_to_a_live_cluster():
    assert set(ACTIONS) == set(Action)


def test_the_list_names_every_drill(capsys):
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()]
    assert listed == [*names(), *HOST_DRILLS]


def test_the_list_says_about_how_long_every_drill_takes(capsys):
    main(["--list"])
    table, _, footer = capsys.readouterr().out.partition("\n\n")
    lines = {line.split()[0]: line for line in table.splitlines()}
    said = re.compile(r"[\w-]+ +about [1-9]\d* s(, [1-9]\d* s with --group|, and boots)? +\S")
    assert [name for name, line in lines.items() if not said.match(line)] == []
    assert footer == f"{FOOTNOTE}\n"
    assert "with --group" in lines["kill-leader"]
    own = "it stops and starts members, which must be its own"
    assert "with --group" not in lines["kill-in-mass-restart"], own
    assert "with --group" not in lines["lose-host"], "its hosts and its members are its own"


def test_a_drill_takes_as_long_as_its_waits_and_the_start_of_its_cluster():
    drill = named("freeze-leader")
    slept_s = sum(step.after_ms for step in drill.steps) / 1000
    watched_s = watched_seconds(drill)
    assert watched_s > slept_s + drill.workload.settle_ms / 1000
    assert own_seconds(drill) >= watched_s + OWN_CLUSTER_S
    assert own_seconds(named("full-disk")) > own_seconds(named("slow-disk")) + OWN_CLUSTER_S / 2
    assert watched_seconds(named("rolling-restart")) > 3 * watched_s / 2, "three nodes come back"


def test_replicas_that_do_not_get_in_sync_end_a_drill_before_it_harms_anything(monkeypatch):
    class Late:
        bootstrap = ()

        def is_replicated(self):
            return False

        wait = ClusterClient.wait

    monkeypatch.setattr("bench.drill_run.STABLE_MS_MAX", 100)
    with pytest.raises(DrillError) as told:
        DrillRun(named("kill-leader"), Late(), ["orders"]).play()
    assert str(told.value) == (
        "Not all replicas were in sync within 0.1 s, so nothing was harmed: `rollcall status` says"
        " which are not."
    )


def test_a_drill_must_be_named(capsys):
    assert main([]) == 2
    assert "kill-leader" in capsys.readouterr().out


def test_an_unknown_drill_is_bad_input_and_said_in_one_sentence(capsys):
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err == "rollcall: There is no drill 'nonsense': see --list.\n"


@pytest.mark.parametrize("members", ["0", "-1", "many"])
def test_a_senseless_number_of_members_is_bad_input(members, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["kill-leader", "--members", members])
    assert ended.value.code == 2
    assert members in capsys.readouterr().err


def test_a_data_directory_without_a_cluster_is_a_failure_said_in_one_sentence(tmp_path, capsys):
    assert main(["kill-leader", "--data-dir", str(tmp_path)]) == ExitCode.NO_CLUSTER
    assert capsys.readouterr().err == f"rollcall: No cluster is running on {tmp_path}.\n"


@pytest.mark.timeout(300)
def test_nobody_is_silent_while_a_leaders_disk_is_slow(tmp_path):
    """200 ms for each sync of one node of a real cluster: no group waits for more than 2 s.

    A machine that many share stands still at times; for how long is among the figures.
    """
    told = tmp_path / "verdict.json"
    words = ["drill", "slow-disk", "--members", "20", "--json", str(told)]
    done = subprocess.run(
        [sys.executable, "-m", "rollcall", *words],
        env={**os.environ, FILE: str(tmp_path / "traces" / "traces.jsonl")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.exists(), done.stderr
    spans = spans_in(tmp_path / "traces")
    below = children(spans, the_run(spans, "drill slow-disk"))
    steps = [step.do for step in named("slow-disk").steps]
    assert [each["name"] for each in below] == steps
    assert any(is_rebalance_root(each) for each in spans), "its cluster is traced beside it"
    rows = {row["name"]: row for row in json.loads(told.read_text())["rows"]}
    stalled_ms = rows["the load itself stood still, max ms"]["value"]
    times = {name for name in rows if name.endswith(" ms")}
    assert [name for name in rows.keys() - times if not rows[name]["clean"]] == []
    assert rows["acknowledged commits"]["value"] > 100
    for name in ("without a heartbeat, p99 ms", "a group without a commit, max ms"):
        assert rows[name]["limit"] == 2_000
        assert rows[name]["value"] <= rows[name]["limit"] + stalled_ms, done.stdout


def test_static_members_restart_into_the_share_and_generation_they_had(crowd):
    before = {story.name: story for story in crowd.stories()}
    static = [name for name, story in before.items() if story.is_static]
    types = WORKLOAD.group_types("g")
    assert Counter(types[before[name].group_id] for name in static) == {
        "classic": 3, "consumer": 3, "streams": 3,
    }  # fmt: skip
    assert crowd.restart_static(1.0) == 9
    until(crowd.is_stable, 20, "every group is Stable again")
    stories = crowd.stories()
    assert len(stories) == 24 + 9
    ended = [story.name for story in stories if story.seen_ms is None]
    assert sorted(ended) == sorted(static)
    record = DrillRecord(stories=stories, committed={}, fault_ms=1, replicated_ms=None)
    assert changed_ids(record) == without_partitions(record) == []
    for story in stories[9:]:
        assert story.holds == before[story.name].holds
        assert story.events[-1].generation == before[story.name].events[-1].generation


def test_a_load_says_which_groups_are_not_stable_and_why():
    load = LoadSpec(
        bootstrap=(("127.0.0.1", 1),),  # nobody listens there
        members=WORKLOAD.configs("g")[:5],
        partitions_of=dict.fromkeys(WORKLOAD.group_ids("g"), WORKLOAD.partitions_each),
        until_ms=0,
    )
    with LiveLoad(load, WORKLOAD.group_types("g")) as crowd:
        assert not crowd.is_stable()
        counts = {"g-0": 2, "g-1": 1, "g-2": 1, "g-3": 1}
        assert crowd.unstable_groups() == [
            f"{group_id}: 0 of {count} members are Stable, in generations [],"
            " with 0 of 9 partitions."
            for group_id, count in counts.items()
        ]


def test_a_drill_that_restarts_nobody_has_no_verdict():
    class Nobody(LiveLoad):
        def restart_static(self, _share):
            return 0

    nobody = object.__new__(Nobody)
    step = named("kill-in-mass-restart").steps[0]
    with pytest.raises(DrillError, match="No member was restarted"):
        DrillRun.restart_members(SimpleNamespace(), step, nobody)


def test_every_type_of_group_has_members_in_drills():
    assert set(SETTINGS) == set(TABLES.types) == set(WORKLOAD.group_types("g").values())


@pytest.mark.parametrize("group_type", list(SETTINGS))
def test_members_that_join_later_get_a_share_and_nobody_shares_one(crowd, group_type):
    types = WORKLOAD.group_types("g")
    (group_id,) = (each for each in types if types[each] == group_type)
    crowd.join([WORKLOAD.config(group_id, "late", is_static=False)])
    until(crowd.is_stable, 20, "every group is Stable again")
    stories = crowd.stories()
    (late,) = (story for story in stories if story.name == f"{group_id}-late")
    assert late.holds
    assert late.events[-1].kind in {
        MemberHistoryKind.ASSIGNED,
        MemberHistoryKind.HEARTBEAT,
        MemberHistoryKind.COMMITTED,
    }
    record = DrillRecord(stories=stories, committed={}, fault_ms=0, replicated_ms=None)
    assert owned_twice(record) == []


def test_the_offsets_of_share_groups_are_not_asked_for(crowd):
    types = WORKLOAD.group_types("g")
    assert crowd.committing() == sorted(each for each in types if types[each] != "share")


def test_a_load_is_taken_off_a_cluster_that_goes_on(node):
    workload = replace(WORKLOAD, static_share=0.5)
    names = workload.group_ids("left")
    with stable([node.address], workload, "left"):
        pass
    assert cleanup.remove([node.address], names, names) == []
    with AdminClient([node.address]) as client:
        assert not {str(g.group_id) for g in admin.list_groups(client, (), ())} & set(names)
        assert not {str(t.name) for t in client.metadata(None).topics} & set(names)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["kill-leader", "--group", "g", "--own"],
            "--group watches members that run: omit --own, --members, --types.",
        ),
        (
            ["kill-in-mass-restart", "--group", "g"],
            "Drill kill-in-mass-restart stops and starts its members: it needs its own, so omit"
            " --group.",
        ),
        (
            ["kill-leader", "--running"],
            "Drill kill-leader harms the running cluster and its clients: add --yes if you mean"
            " it, or give --own instead of --running to start a cluster for it.",
        ),
        (
            ["kill-leader", "--data-dir", "data"],
            "Drill kill-leader harms the running cluster and its clients: add --yes if you mean"
            " it, or give --own instead of --data-dir to start a cluster for it.",
        ),
        (
            ["kill-leader", "--group", "orders"],
            "Drill kill-leader harms the running cluster and its clients: add --yes if you mean"
            " it.",
        ),
        (
            ["kill-leader", "--types", "classic,consumer", "--members", "1"],
            "Drill kill-leader has fewer groups than --types names: 1.",
        ),
        (
            ["kill-in-mass-restart", "--types", "consumer,share"],
            "Drill kill-in-mass-restart restarts static members, and groups of type share have"
            " none: omit share from --types.",
        ),
    ],
)
def test_what_a_drill_cannot_do_is_said_in_one_sentence(words, sentence, capsys, monkeypatch):
    monkeypatch.setattr("bench.drills.find_cluster", lambda _data_dir: object())
    assert main(words) == 2
    assert capsys.readouterr().err == f"rollcall: {sentence}\n"


@pytest.mark.parametrize("answer", ["", "n\n", "\n"])
def test_who_does_not_agree_starts_no_drill_also_by_the_end_of_the_input(
    answer, capsys, monkeypatch
):
    """The end of the input is Ctrl-D at a terminal."""
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("bench.drills.find_cluster", lambda _data_dir: object())
    assert main(["kill-leader", "--running"]) == 2
    told = capsys.readouterr()
    assert told.err == (
        "rollcall: Drill kill-leader was not started: the running cluster is unharmed.\n"
    )
    assert told.out.endswith("\n") is (answer == "")


def test_who_interrupts_the_question_starts_no_drill(capsys, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("builtins.input", lambda _question: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr("bench.drills.find_cluster", lambda _data_dir: object())
    assert main(["kill-leader", "--running"]) == 2
    assert capsys.readouterr().err == "rollcall: The drill was stopped by SIGINT.\n"


@contextmanager
def polled(*members):
    """Let these consumers poll, as an application's threads do."""
    ended = threading.Event()

    def poll():
        while not ended.is_set():
            for member in members:
                member.poll()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        until(
            lambda: all(member.assigned for member in members), 20, "every consumer has its share"
        )
        yield
    finally:
        ended.set()
        thread.join()
        for member in members:
            member.close()


def drilled(words):
    """Run a drill whose verdict is clean."""
    done = subprocess.run(
        [sys.executable, "-m", "rollcall", "drill", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_a_drill_watches_the_members_of_an_application(tmp_path):
    """Its groups ride through a kill of their leader, and a drill leaves nothing behind."""
    told = tmp_path / "verdict.json"
    words = ["kill-leader", "--group", "orders", "--group", "billing", "--yes"]
    words += ["--data-dir", str(tmp_path / "data"), "--json", str(told)]
    with running_rollcall({"group.initial.rebalance.delay.ms": "0"}, tmp_path / "data") as server:
        bootstrap = ",".join(map(shown, server.bootstrap))
        create_topics(bootstrap, ["orders"], 4)
        static = Member(bootstrap, "orders", ["orders"], group_instance_id="pod-0")
        dynamic = Member(bootstrap, "billing", ["orders"])
        with polled(static, dynamic):
            drilled(words)
        with AdminClient(parse_bootstrap(bootstrap)) as client:
            left = {each.group_id for each in admin.list_groups(client, [], [])}
        assert left == {"orders", "billing"}
    rows = {row["name"]: row["value"] for row in json.loads(told.read_text())["rows"]}
    assert rows["members"] == 2
    assert rows["rebalances"] == 0
    assert 0 < rows["a group without an answer, max ms"] < 60_000


@pytest.mark.timeout(300)
def test_a_drill_watches_groups_of_every_type(tmp_path, monkeypatch):
    """One of each rides through a kill of a leader, and the page shows what was seen of each."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # so few members need no compiled assignors
    told, data = tmp_path / "verdict.json", tmp_path / "page.json"
    workload = replace(WORKLOAD, members=8, heartbeat_interval_ms=500, commit_interval_ms=500)
    types = workload.group_types("g")
    assert set(types.values()) == set(TABLES.types)
    words = ["kill-leader", *(word for each in types for word in ("--group", each)), "--yes"]
    words += ["--data-dir", str(tmp_path / "data"), "--json", str(told), "--report", str(data)]
    with (
        running_rollcall({"group.initial.rebalance.delay.ms": "0"}, tmp_path / "data") as server,
        stable(server.bootstrap, workload, "g", STABLE_MS_MAX / 1000),
    ):
        drilled(words)
    rows = {row["name"]: row["value"] for row in json.loads(told.read_text())["rows"]}
    assert (rows["members"], rows["rebalances"]) == (8, 0)
    assert 0 < rows["a group without an answer, max ms"] < 60_000
    (run,) = json.loads(data.read_text())["runs"]
    assert {each["group"]: each["kind"] for each in run["costs"]} == {
        group_id: f"2 members, {kind}" for group_id, kind in types.items()
    }
    for story in run["stories"]:
        picture, kind = story["ownership"], types[story["group"]]
        assert sum(count for _, _, count in picture["partitions"]) == workload.partitions_each
        assert picture["form"] == ("counts" if kind == "share" else "owners")
        whole = [sum(row[::2]) if kind == "share" else sum(row[:2]) for row in picture["rows"]]
        assert set(whole) == {run["duration_ms"]}, "a member had each partition all the time"
        assert max(story["trends"]["running"]) == 2
    assert {story["group"] for story in run["stories"]} == set(types)
    assert run["marks"][0]["text"].startswith("kill leader (node ")
    assert "answers to DESCRIBE" in run["notes"][0]


@pytest.mark.timeout(300)
def test_a_drill_with_members_of_all_types_leaves_a_running_cluster_as_it_was(tmp_path):
    told, types = tmp_path / "verdict.json", ",".join(SETTINGS)
    words = ["kill-leader", "--types", types, "--members", "24", "--yes"]
    words += ["--data-dir", str(tmp_path / "data"), "--json", str(told)]
    with running_rollcall({}, tmp_path / "data") as server:
        bootstrap = ",".join(map(shown, server.bootstrap))
        create_topics(bootstrap, ["orders"], 4)
        drilled(words)
        with AdminClient(parse_bootstrap(bootstrap)) as client:
            assert admin.list_groups(client, [], []) == []
            topics = {str(topic.name) for topic in client.metadata(None).topics}
    assert {each for each in topics if not each.startswith("__")} == {"orders"}
    rows = {row["name"]: row["value"] for row in json.loads(told.read_text())["rows"]}
    assert rows["members"] == 24
    assert rows["acknowledged commits"] > 0


def test_a_type_that_does_not_exist_is_bad_input(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["kill-leader", "--types", "classic,square"])
    assert ended.value.code == 2
    assert "'square' is none of classic, consumer, share, streams" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_refused_before_the_drill(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["kill-leader", "--report", "verdict.pdf"])
    assert ended.value.code == 2
    assert (
        "argument --report: 'verdict.pdf' must end with .html, .md or .json"
        in capsys.readouterr().err
    )
