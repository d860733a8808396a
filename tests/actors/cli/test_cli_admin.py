"""Administration over the wire (design, section 6): flags as in Kafka's own tools."""

import base64
import json
import re
import socket
from collections.abc import Iterator

import pytest

from actors.cli import discovery
from actors.cli.client import AdminClient, parse_bootstrap, shown
from actors.cli.configs import parse_configs
from actors.cluster.registry import RegisteredCluster
from actors.errors import ExitCode
from tests.actors.cli.commands import Run, member, rollcall, set_offsets
from tests.actors.coordinator.coordinators import Cluster, running
from tests.waiting import WITHIN_S, until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(2) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``rollcall`` with these words against the cluster."""
    where = ("--bootstrap-server", cluster.bootstrap)
    return lambda *words: rollcall(capsys, words[0], *where, *words[1:])


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> str:
    name = f"{request.function.__name__[5:60]}-topic"
    words = ("--topic", name, "--partitions", "2", "--if-not-exists")
    assert run("topics", "--create", *words).code == 0
    return name


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"{request.function.__name__[5:60]}-group"


# --- groups


def test_groups_are_listed_by_name_state_and_type(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    set_offsets(cluster, group, topic, 0)
    assert group in run("groups", "--list").lines
    rows = run("groups", "--list", "--state", "--type").rows
    assert {"GROUP": group, "TYPE": "Classic", "STATE": "Empty"} in rows
    assert any(row["GROUP"] == group for row in run("groups", "--list", "--state", "empty").rows)
    stable = run("groups", "--list", "--state", "Stable")
    assert not any(row["GROUP"] == group for row in stable.rows)
    assert not run("groups", "--list", "--type", "share").lines[1:]


def test_a_group_is_described_by_its_offsets(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    set_offsets(cluster, group, topic, 5)
    idle = run("groups", "--describe", "--group", group)
    assert idle.err == f"group {group} has no active members"
    with member(cluster, group, topic, **{"group.instance.id": "a"}):
        said = run("groups", "--describe", "--group", group, "--verbose")
    assert said.code == 0
    first, second = said.rows
    assert (first["TOPIC"], first["PARTITION"], first["CURRENT-OFFSET"]) == (topic, "0", "5")
    assert (first["LOG-END-OFFSET"], first["LAG"], first["LEADER-EPOCH"]) == ("0", "-5", "-")
    assert (first["HOST"], first["CLIENT-ID"]) == ("/127.0.0.1", "cli-test")
    assert second["PARTITION"] == "1"


def test_members_are_described_with_instance_id_and_assignment(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    with member(cluster, group, topic, **{"group.instance.id": "a"}):
        said = run("groups", "--describe", "--group", group, "--members", "--verbose")
        state = run("groups", "--describe", "--group", group, "--state")
    (row,) = said.rows
    assert row["CONSUMER-ID"].startswith("a-")
    assert (row["GROUP-INSTANCE-ID"], row["#PARTITIONS"]) == ("a", "2")
    assert (row["CURRENT-EPOCH"], row["CURRENT-ASSIGNMENT"]) == ("-", f"{topic}:0,1")
    assert (row["TARGET-EPOCH"], row["TARGET-ASSIGNMENT"]) == ("-", "-")
    assert (state.rows[0]["STATE"], state.rows[0]["#MEMBERS"]) == ("Stable", "1")
    assert state.rows[0]["COORDINATOR (ID)"].startswith("127.0.0.1:")


CONSUMER = {"group.protocol": "consumer"}


def test_a_consumer_group_is_described_in_all_ways(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    set_offsets(cluster, group, topic, 5)
    describe = ("groups", "--describe", "--group", group)
    with member(cluster, group, topic, **CONSUMER, **{"group.instance.id": "a"}):
        until(lambda: stable(run, group), 20, "the group is stable")
        offsets = run(*describe, "--offsets")
        brief, verbose = run(*describe, "--members"), run(*describe, "--members", "--verbose")
        state, epochs = run(*describe, "--state"), run(*describe, "--state", "--verbose")
        everything = run("groups", "--describe", "--all-groups")
    assert [said.code for said in (offsets, brief, verbose, state, epochs, everything)] == [0] * 6
    assert [row["CURRENT-OFFSET"] for row in offsets.rows] == ["5", "5"]
    assert {row["CLIENT-ID"] for row in offsets.rows} == {"cli-test"}
    assert (brief.rows[0]["GROUP-INSTANCE-ID"], brief.rows[0]["#PARTITIONS"]) == ("a", "2")
    (row,) = verbose.rows
    assert row["CURRENT-ASSIGNMENT"] == row["TARGET-ASSIGNMENT"] == f"{topic}:0,1"
    (told,) = epochs.rows
    assert row["CURRENT-EPOCH"] == row["TARGET-EPOCH"] == told["TARGET-ASSIGNMENT-EPOCH"]
    assert int(told["GROUP-EPOCH"]) >= 1
    assert "UPGRADED" not in row
    assert list(state.rows[0])[2:] == ["ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert (state.rows[0]["ASSIGNMENT-STRATEGY"], state.rows[0]["#MEMBERS"]) == ("uniform", "1")
    assert any(line.startswith(f"{group} ") for line in everything.lines)


def stable(run: Run, group: str) -> bool:
    """Say whether the group's members have what they are to have."""
    (row,) = run("groups", "--describe", "--group", group, "--state").rows
    return row["STATE"] == "Stable"


def test_all_members_of_a_consumer_group_are_removed(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    with member(cluster, group, topic, **CONSUMER, **{"group.instance.id": "a"}):
        said = run("members", "--remove", "--group", group, "--all-members")
        assert (said.code, said.lines) == (0, [f"instance a is removed from group {group}"])


def test_all_groups_are_described_one_table_each(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    set_offsets(cluster, f"{group}-1", topic, 0)
    set_offsets(cluster, f"{group}-2", topic, 0)
    said = run("groups", "--describe", "--all-groups", "--state")
    assert said.lines.count("") >= 1
    assert any(line.startswith(f"{group}-2 ") for line in said.lines)


def test_only_a_group_without_members_is_deleted(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    with member(cluster, group, topic):
        said = run("groups", "--delete", "--group", group)
        assert said.code == 1
        assert said.err == (
            f"rollcall: group {group} is not deleted: "
            "the group has members; stop them first (NON_EMPTY_GROUP)"
        )
    assert run("groups", "--delete", "--group", group).lines == [f"group {group} is deleted"]
    gone = run("groups", "--describe", "--group", group)
    assert gone.code == 1
    assert "GROUP_ID_NOT_FOUND" in gone.err


# --- offsets


def test_offsets_are_only_shown_until_execute_is_said(run: Run, topic: str, group: str) -> None:
    said = run("groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "0")
    assert [row["NEW-OFFSET"] for row in said.rows] == ["0", "0"]
    assert said.err == "nothing is changed: add --execute to reset the offsets"
    assert group not in run("groups", "--list").lines


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--shift-by", "2"), "0"),
        (("--shift-by", "-9"), "0"),
        (("--to-earliest",), "0"),
        (("--to-latest",), "0"),
        (("--to-current",), "7"),
        (("--to-offset", "4"), "0"),
        (("--to-offset", "0"), "0"),
    ],
)
def test_offsets_are_set_to_every_target(
    cluster: Cluster, run: Run, topic: str, *, group: str, target: tuple[str, ...], expected: str
) -> None:
    group = f"{group}-{'-'.join(target).strip('-')}"
    set_offsets(cluster, group, topic, 7)
    run(
        "groups", "--reset-offsets", "--group", group, "--topic", f"{topic}:1", *target, "--execute"
    )
    rows = run("groups", "--describe", "--group", group).rows
    assert [row["CURRENT-OFFSET"] for row in rows] == ["7", expected]


@pytest.mark.parametrize(
    ("target", "note"),
    [
        (("--to-offset", "5"), "5 is after the latest offset, using 0"),
        (("--to-offset", "-1"), "-1 is before the earliest offset, using 0"),
        (("--shift-by", "3"), "10 is after the latest offset, using 0"),
        (("--to-current",), ""),
    ],
)
def test_offsets_are_kept_between_the_ends_of_the_log_as_kafkas_tool_does(
    cluster: Cluster, run: Run, topic: str, *, group: str, target: tuple[str, ...], note: str
) -> None:
    group = f"{group}-{'-'.join(target).strip('-')}"
    set_offsets(cluster, group, topic, 7)
    words = ("--group", group, "--topic", f"{topic}:1", *target, "--execute")
    said = run("groups", "--reset-offsets", *words)
    assert said.err == (f"{topic}-1: {note}" if note else "")


LISTS = {
    "groups": ("groups", "--list"),
    "groups with types": ("groups", "--list", "--type", "--state"),
    "offsets": ("groups", "--describe", "--all-groups"),
    "members": ("groups", "--describe", "--all-groups", "--members", "--verbose"),
    "states": ("groups", "--describe", "--all-groups", "--state"),
    "topics": ("topics", "--list"),
    "partitions": ("topics", "--describe"),
    "configs": ("configs", "--describe", "--entity-type", "topics", "--all"),
}


@pytest.mark.parametrize("words", LISTS.values(), ids=LISTS.keys())
def test_every_list_is_printed_as_one_json_array_too(
    cluster: Cluster, run: Run, topic: str, group: str, words: tuple[str, ...]
) -> None:
    for each in (group, f"{group}-2"):
        set_offsets(cluster, each, topic, 7)
    words_of_configs = ("--entity-type", "topics", "--entity-name", topic)
    run("configs", "--alter", *words_of_configs, "--add-config", "retention.ms=5")
    said = run(*words, "--json")
    assert said.code == 0
    rows = json.loads("\n".join(said.lines))
    if "--members" not in words:  # they have none
        wanted = topic if words[0] != "groups" else group
        assert wanted in {row.get("group") or row.get("topic") for row in rows}
    for row in rows:
        assert all(re.fullmatch("[a-z_]+", name) for name in row), row


def test_numbers_are_numbers_in_json(cluster: Cluster, run: Run, topic: str, group: str) -> None:
    set_offsets(cluster, group, topic, 7)
    rows = json.loads(run("groups", "--describe", "--group", group, "--json").lines[0])
    row = {"group": group, "topic": topic, "current_offset": 7, "log_end_offset": 0, "lag": -7}
    owner = {"consumer_id": None, "host": None, "client_id": None}
    assert rows == [{**row, "partition": number, **owner} for number in range(2)]


def test_a_topics_id_is_written_as_kafka_writes_it(cluster: Cluster, run: Run, topic: str) -> None:
    shown = {row["TOPIC-ID"] for row in run("topics", "--describe", "--topic", topic).rows}
    with AdminClient(parse_bootstrap(cluster.bootstrap)) as client:
        number = client.metadata([topic]).topics[0].topic_id
    assert shown == {base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")}


def test_offsets_of_a_group_at_work_are_not_reset(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    with member(cluster, group, topic):
        words = ("--group", group, "--topic", topic, "--to-earliest", "--execute")
        said = run("groups", "--reset-offsets", *words)
    assert said.code == 1
    assert "while it has members (its state is Stable)" in said.err


def test_offsets_of_a_topic_are_deleted(cluster: Cluster, run: Run, topic: str, group: str) -> None:
    set_offsets(cluster, group, topic, 1)
    with member(cluster, group, topic):
        said = run("groups", "--delete-offsets", "--group", group, "--topic", topic)
        assert said.code == 1
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in said.rows[0]["STATUS"]
    said = run("groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert said.rows == [{"TOPIC": topic, "PARTITION": "0", "STATUS": "Successful"}]
    rows = run("groups", "--describe", "--group", group).rows
    assert [row["PARTITION"] for row in rows] == ["1"]


# --- members


def test_each_member_that_is_removed_has_its_own_result(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    """KIP-345, batch LeaveGroup: an error per member."""
    with member(cluster, group, topic, **{"group.instance.id": "a"}):
        words = ("--instance-id", "a", "--instance-id", "b")
        said = run("members", "--remove", "--group", group, *words)
        assert said.code == 1
        assert said.lines == [f"instance a is removed from group {group}"]
        assert said.err == (
            f"rollcall: instance b is not removed from group {group}: "
            "the member does not exist (UNKNOWN_MEMBER_ID)"
        )


@pytest.mark.parametrize("every", ["--all", "--all-members"])
def test_all_members_are_removed(
    cluster: Cluster, run: Run, topic: str, group: str, every: str
) -> None:
    with member(cluster, group, topic):
        said = run("members", "--remove", "--group", group, every)
        assert said.code == 0
        assert len(said.lines) == 1
    assert run("members", "--remove", "--group", group, every).lines == [
        f"group {group} has no members"
    ]
    said = run("members", "--remove", "--group", group, every, "--member-id", "m")
    assert said.code == 2
    assert said.err == "rollcall: give either --instance-id and --member-id, or --all"


# --- topics


def test_a_topic_is_created_shown_grown_and_deleted(run: Run) -> None:
    name = ("--topic", "life-of-a-topic")
    assert run("topics", "--create", *name, "--partitions", "2").code == 0
    assert name[1] in run("topics", "--list", "--exclude-internal").lines
    again = run("topics", "--create", *name)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert run("topics", "--create", *name, "--if-not-exists").code == 0
    assert run("topics", "--alter", *name, "--partitions", "3").code == 0
    rows = run("topics", "--describe", *name).rows
    assert [row["PARTITION"] for row in rows] == ["0", "1", "2"]
    assert run("topics", "--delete", *name).lines == ["topic life-of-a-topic is deleted"]
    gone = run("topics", "--describe", *name)
    assert (gone.code, "UNKNOWN_TOPIC_OR_PARTITION" in gone.err) == (1, True)
    assert run("topics", "--delete", *name, "--if-exists").code == 0


def test_a_topic_is_created_with_configs(run: Run) -> None:
    words = ("--topic", "configured", "--config", "retention.ms=1000")
    assert run("topics", "--create", *words).code == 0
    entity = ("--entity-type", "topics", "--entity-name", "configured")
    (row,) = run("configs", "--describe", *entity).rows
    assert (row["NAME"], row["VALUE"], row["SOURCE"]) == ("retention.ms", "1000", "topic")


# --- configs


@pytest.mark.parametrize(
    ("entity", "config", "value"),
    [
        (("topics", "--entity-name", "{topic}"), "retention.ms", "5000"),
        (("groups", "--entity-name", "a-group"), "consumer.session.timeout.ms", "50000"),
        (("brokers", "--entity-name", "1"), "max.connections", "500"),
        (("brokers", "--entity-default"), "max.connections", "600"),
    ],
)
def test_a_config_is_set_shown_and_put_back(
    run: Run, topic: str, entity: tuple[str, ...], config: str, value: str
) -> None:
    words = ("--entity-type", *(word.format(topic=topic) for word in entity))
    said = run("configs", "--alter", *words, "--add-config", f"{config}={value}")
    assert (said.code, said.err) == (0, "")

    def shown() -> list[tuple[str, str]]:
        return [(r["NAME"], r["VALUE"]) for r in run("configs", "--describe", *words).rows]

    until(lambda: (config, value) in shown(), WITHIN_S, "the broker has heard of it")
    assert run("configs", "--alter", *words, "--delete-config", config).code == 0
    until(lambda: (config, value) not in shown(), WITHIN_S, "it is back at its default")


def test_all_shows_defaults_too(run: Run) -> None:
    words = ("--describe", "--entity-type", "brokers", "--entity-name", "0", "--all")
    rows = {row["NAME"]: row for row in run("configs", *words).rows}
    assert rows["group.max.session.timeout.ms"]["SOURCE"] == "default"
    assert rows["log.flush"]["SOURCE"] == "server file"


def test_an_unknown_config_is_refused_in_one_sentence(run: Run, topic: str) -> None:
    words = ("--entity-type", "topics", "--entity-name", topic, "--add-config", "nonsense=1")
    said = run("configs", "--alter", *words)
    assert said.code == 1
    assert said.err.startswith(f"rollcall: topic {topic} could not be altered: ")
    assert len(said.err.splitlines()) == 1


def test_a_value_in_brackets_may_hold_commas() -> None:
    assert parse_configs("a=1,b=[x,y], c=z") == {"a": "1", "b": "x,y", "c": "z"}


# --- wrong use and failures


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("groups", "--describe"), "give either --group or --all-groups"),
        (
            ("groups", "--describe", "--group", "g", "--members", "--offsets"),
            "give only one of --offsets, --members",
        ),
        (("groups", "--list", "--state", "Sleepy"), "'sleepy' is not one of Stable, Empty, "),
        (
            ("groups", "--reset-offsets", "--group", "g", "--topic", "t"),
            "--reset-offsets needs one of --to-offset, --shift-by, ",
        ),
        (
            ("groups", "--reset-offsets", "--group", "g", "--to-latest"),
            "give either --topic or --all-topics",
        ),
        (
            ("groups", "--reset-offsets", "--group", "g", "--topic", "t:x", "--to-latest"),
            "'t:x' is not a topic: give T or T:P,P...",
        ),
        (("groups", "--delete-offsets", "--group", "g"), "--delete-offsets needs at least one"),
        (("members", "--remove", "--group", "g"), "give either --instance-id and --member-id"),
        (("topics", "--create"), "--create needs at least one --topic"),
        (("topics", "--alter", "--topic", "t"), "--alter needs --partitions"),
        (
            ("configs", "--alter", "--entity-type", "topics", "--entity-name", "t"),
            "--alter needs --add-config or --delete-config",
        ),
        (
            ("configs", "--alter", "--entity-type", "topics", "--add-config", "a=1"),
            "--alter needs --entity-name or --entity-default",
        ),
        (("topics", "--list", "--timeout", "0"), "--timeout must be at least 1 ms"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    run: Run, words: tuple[str, ...], sentence: str
) -> None:
    said = run(*words)
    assert said.code == 2
    assert said.err.startswith(f"rollcall: {sentence}")
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("bootstrap", ["nowhere", "h:0", "h:99999", ":1", ","])
def test_a_wrong_bootstrap_server_is_wrong_use(
    capsys: pytest.CaptureFixture[str], bootstrap: str
) -> None:
    said = rollcall(capsys, "topics", "--bootstrap-server", bootstrap, "--list")
    assert said.code == 2
    assert "give HOST:PORT" in said.err


def test_an_unreachable_server_is_a_failure_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = rollcall(capsys, "topics", "--bootstrap-server", "127.0.0.1:1", "--list")
    assert said.code == ExitCode.NO_CLUSTER
    assert said.err.startswith("rollcall: 127.0.0.1:1 cannot be reached: ")


def test_a_server_that_is_silent_is_given_up_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        words = ("--bootstrap-server", address, "--timeout", "200", "--list")
        said = rollcall(capsys, "topics", *words)
    assert said.code == ExitCode.NO_CLUSTER
    assert said.err == f"rollcall: {address} did not answer in time"


def test_any_one_of_the_bootstrap_servers_is_enough(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = f"127.0.0.1:1,{cluster.bootstrap}"
    assert rollcall(capsys, "topics", "--bootstrap-server", bootstrap, "--list").code == 0


def test_without_a_bootstrap_server_the_cluster_of_this_machine_is_meant(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = RegisteredCluster(
        cluster_id=cluster.spec.cluster_id,
        data_dir=cluster.spec.data_dir,
        address="auto",
        bootstrap=cluster.bootstrap,
        partitions=cluster.spec.partitions,
        workers=0,
        node=None,
        owner=None,
    )
    monkeypatch.setattr(discovery, "find_cluster", lambda _data_dir, _address: found)
    assert rollcall(capsys, "topics", "--list").code == 0


def test_an_ipv6_address_may_stand_in_brackets() -> None:
    (address,) = parse_bootstrap("[::1]:9092")
    assert address == ("::1", 9092)
    assert shown(address) == "[::1]:9092"
