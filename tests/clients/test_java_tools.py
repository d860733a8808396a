"""Kafka's Java client and tools: kafka-consumer-groups, VerifiableConsumer, batch LeaveGroup."""

import re
from operator import itemgetter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.clients import wire
from tests.clients.confluent import ADMIN_S, QUIET, Member, admin, create_topics, poll_until
from tests.clients.java import (
    PROGRAMS,
    Closing,
    VerifiableConsumer,
    consumer_groups,
    rollcall,
    run_java,
    table,
)
from tests.clients.servers import is_kafka
from tests.waiting import patient, until

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def committed(bootstrap: str, name: str, *offsets: int) -> None:
    """Create the test's topic and commit these offsets for the test's group, with no member."""
    create_topics(bootstrap, [name], len(offsets))
    client = admin(bootstrap)
    request = [ConsumerGroupTopicPartitions(name, at(name, *offsets))]
    client.alter_consumer_group_offsets(request)[name].result(ADMIN_S)


def member_of(bootstrap: str, name: str, closing: Closing) -> Member:
    """Give one static member of the test's group, with a topic of two partitions."""
    create_topics(bootstrap, [name], 2)
    member = Member(bootstrap, name, [name], client_id="a-client", group_instance_id="an-instance")
    closing(member.close)
    poll_until([member], lambda: len(member.assigned) == 2, 30, "all partitions are assigned")
    return member


def features(bootstrap: str, *arguments: str) -> str:
    """Run what ``kafka-features.sh`` runs."""
    tool = "org.apache.kafka.tools.FeatureCommand"
    return run_java(tool, "--bootstrap-server", bootstrap, *arguments)


CELL = re.compile(r"(\w+): (\S+)")


def described(bootstrap: str, feature: str) -> dict[str, str]:
    """Give the line about a feature, of which each cell is ``Name: value``."""
    lines = features(bootstrap, "describe").splitlines()
    (row,) = (row for row in map(CELL.findall, lines) if ("Feature", feature) in row)
    return dict(row)


@pytest.mark.skipif(is_kafka(), reason="a Kafka has no feature of ours")
def test_kafka_features_shows_raises_and_lowers_the_feature_level(bootstrap: str) -> None:
    feature = "rollcall.version"
    row = described(bootstrap, feature)
    assert (row["SupportedMinVersion"], row["SupportedMaxVersion"]) == ("0", "1")
    assert row["FinalizedVersionLevel"] == "0"
    asked = ("upgrade", "--feature", f"{feature}=1")
    assert "can be upgraded to 1" in features(bootstrap, *asked, "--dry-run")
    assert described(bootstrap, feature)["FinalizedVersionLevel"] == "0"
    assert f"{feature} was upgraded to 1." in features(bootstrap, *asked)
    raised = described(bootstrap, feature)
    assert raised["FinalizedVersionLevel"] == "1"
    assert int(raised["Epoch"]) == int(row["Epoch"]) + 1
    lowered = ("downgrade", "--feature", f"{feature}=0")
    assert f"{feature} was downgraded to 0." in features(bootstrap, *lowered)
    assert described(bootstrap, feature)["FinalizedVersionLevel"] == "0"
    assert f"{feature} was upgraded to 1." in features(bootstrap, *asked)
    assert f"{feature} was disabled." in features(bootstrap, "disable", "--feature", feature)
    assert described(bootstrap, feature)["FinalizedVersionLevel"] == "0"


def test_groups_are_listed_with_type_and_state(bootstrap: str, name: str, closing: Closing) -> None:
    member_of(bootstrap, name, closing)
    assert name in consumer_groups(bootstrap, "--list").split()
    rows = {row["GROUP"]: row for row in table(consumer_groups(bootstrap, "--list", "--state"))}
    assert rows[name]["STATE"] == "Stable"
    rows = {row["GROUP"]: row for row in table(consumer_groups(bootstrap, "--list", "--type"))}
    assert rows[name]["TYPE"] == "Classic"
    assert name not in consumer_groups(bootstrap, "--list", "--state", "Empty").split()


def test_a_group_is_described_by_offsets_members_and_state(
    bootstrap: str, name: str, closing: Closing
) -> None:
    member = member_of(bootstrap, name, closing)
    member.consumer.commit(offsets=at(name, 3), asynchronous=False)
    describe = ("--describe", "--group", name)

    rows = {row["PARTITION"]: row for row in table(consumer_groups(bootstrap, *describe))}
    assert rows["0"]["CURRENT-OFFSET"] == "3"
    assert rows["0"]["LOG-END-OFFSET"] == "0"
    assert rows["1"]["CURRENT-OFFSET"] == "-"
    assert rows["0"]["CONSUMER-ID"].startswith("an-instance-")

    (row,) = table(consumer_groups(bootstrap, *describe, "--members", "--verbose"))
    assert row["GROUP-INSTANCE-ID"] == "an-instance"
    assert row["CLIENT-ID"] == "a-client"
    assert row["#PARTITIONS"] == "2"
    assert row["ASSIGNMENT" if "ASSIGNMENT" in row else "CURRENT-ASSIGNMENT"].startswith(name)

    (row,) = table(consumer_groups(bootstrap, *describe, "--state"))
    assert (row["ASSIGNMENT-STRATEGY"], row["STATE"], row["#MEMBERS"]) == ("range", "Stable", "1")
    assert row["COORDINATOR"] in bootstrap.split(",")


MEMBERS, STATE = ("--members", "--verbose"), ("--state", "--verbose")


@pytest.mark.parametrize(
    ("protocol", "views"),
    [
        ("classic", [(), ("--members",), MEMBERS, STATE]),
        ("consumer", [("--verbose",), MEMBERS, STATE]),
    ],
    ids=["classic", "consumer"],
)
def test_our_command_shows_what_kafkas_shows(
    bootstrap: str, name: str, closing: Closing, protocol: str, views: list[tuple[str, ...]]
) -> None:
    create_topics(bootstrap, [name], 2)
    with_epochs = {} if protocol == "classic" else {"group.protocol": "consumer"}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.instance.id": "a",
            "auto.offset.reset": "earliest",
            **with_epochs,
            **QUIET,
        }
    )
    closing(consumer.close)
    consumer.subscribe([name])
    until(lambda: consumer.poll(0.1) or consumer.assignment(), 30, "an assignment")
    consumer.commit(offsets=at(name, 0, 0), asynchronous=False)
    describe = ("--describe", "--group", name)
    for view in views:
        theirs = table(consumer_groups(bootstrap, *describe, *view))
        ours = table(rollcall("groups", "--bootstrap-server", bootstrap, *describe, *view))
        key = "PARTITION" if "PARTITION" in ours[0] else "GROUP"
        assert sorted(ours, key=itemgetter(key)) == sorted(theirs, key=itemgetter(key)), view


@pytest.mark.parametrize("words", [("--list", "--state"), ("--list", "--type")], ids=itemgetter(1))
def test_our_command_lists_what_kafkas_lists(
    bootstrap: str, name: str, closing: Closing, words: tuple[str, str]
) -> None:
    member_of(bootstrap, name, closing)
    committed_only = f"{name}-without-members"
    committed(bootstrap, committed_only, 5)

    def rows(printed: str) -> list[dict[str, str]]:
        mine = [row for row in table(printed) if row["GROUP"].startswith(name)]
        return sorted(mine, key=itemgetter("GROUP"))

    ours = rows(rollcall("groups", "--bootstrap-server", bootstrap, *words))
    assert [row["GROUP"] for row in ours] == [name, committed_only]
    assert ours == rows(consumer_groups(bootstrap, *words))


def at(topic: str, *values: int) -> list[TopicPartition]:
    """Give offsets for the partitions 0, 1, ... of a topic."""
    return [TopicPartition(topic, p, value) for p, value in enumerate(values)]


def test_offsets_are_reset(bootstrap: str, name: str) -> None:
    committed(bootstrap, name, 5, 6)
    reset = ("--reset-offsets", "--group", name, "--topic", name, "--to-earliest")
    planned = table(consumer_groups(bootstrap, *reset, "--dry-run"))
    assert {row["NEW-OFFSET"] for row in planned} == {"0"}
    described = table(consumer_groups(bootstrap, "--describe", "--group", name))
    assert {row["CURRENT-OFFSET"] for row in described} == {"5", "6"}
    consumer_groups(bootstrap, *reset, "--execute")
    described = table(consumer_groups(bootstrap, "--describe", "--group", name))
    assert {row["CURRENT-OFFSET"] for row in described} == {"0"}


PLAN = ("--from-file", "plan.csv")
SPECS = [
    ("--to-earliest",),
    ("--to-offset", "7"),
    ("--shift-by", "-1"),
    ("--to-current",),
    ("--to-datetime", "2026-01-01T00:00:00.000"),
    ("--by-duration", "PT1H30M"),
    PLAN,
]


@pytest.mark.parametrize("spec", SPECS, ids=itemgetter(0))
def test_our_command_exports_the_offsets_that_kafkas_exports(
    bootstrap: str, name: str, spec: tuple[str, ...], tmp_path: Path
) -> None:
    committed(bootstrap, name, 5, 6)
    which = ("--all-topics",)
    if spec == PLAN:
        (tmp_path / "plan.csv").write_text(f"{name},0,5\n{name},1,0\n")
        which, spec = (), ("--from-file", str(tmp_path / "plan.csv"))
    reset = ("--reset-offsets", "--group", name, *which, *spec, "--export", "--dry-run")
    said = consumer_groups(bootstrap, *reset).replace(chr(34), "").splitlines()
    theirs = [row for row in said if row.startswith(f"{name},")]
    ours = rollcall("groups", "--bootstrap-server", bootstrap, *reset).splitlines()
    assert len(ours) == 2
    assert ours == sorted(theirs)


def test_offsets_are_deleted_and_then_the_group(bootstrap: str, name: str) -> None:
    committed(bootstrap, name, 5, 6)
    printed = consumer_groups(
        bootstrap, "--delete-offsets", "--group", name, "--topic", f"{name}:0"
    )
    assert "Successful" in printed
    described = table(consumer_groups(bootstrap, "--describe", "--group", name))
    assert {row["PARTITION"]: row["CURRENT-OFFSET"] for row in described} == {"1": "6"}
    printed = consumer_groups(bootstrap, "--delete", "--group", name)
    assert "successful" in printed
    assert name not in consumer_groups(bootstrap, "--list").split()


def test_a_group_with_members_is_not_deleted(bootstrap: str, name: str, closing: Closing) -> None:
    member_of(bootstrap, name, closing)
    printed = consumer_groups(bootstrap, "--delete", "--group", name)
    assert "GroupNotEmptyException" in printed
    assert wire.describe(bootstrap, name).group_state == "Stable"


def verifiable(
    bootstrap: str, name: str, closing: Closing, *arguments: object
) -> VerifiableConsumer:
    """Start a VerifiableConsumer in the test's group."""
    made = VerifiableConsumer(bootstrap, name, name, *arguments)
    closing(made.kill)
    return made


@pytest.mark.parametrize("assignor", [RANGE, COOPERATIVE])
def test_static_java_consumers_restart_without_a_rebalance(
    bootstrap: str, name: str, closing: Closing, assignor: str
) -> None:
    create_topics(bootstrap, [name], 4)
    how = ("--assignment-strategy", assignor)
    stays = verifiable(bootstrap, name, closing, "--group-instance-id", "stays", *how)
    restarts = verifiable(bootstrap, name, closing, "--group-instance-id", "restarts", *how)
    until(
        lambda: owned_by_members(bootstrap, name) == 2, patient(60), "the group is Stable with both"
    )
    pair = (stays, restarts)
    until(lambda: all(len(c.assigned()) == 2 for c in pair), 20, "two partitions for each")
    before, told = restarts.assigned(), stays.names()
    generation = wire.generation_of(bootstrap, name)
    restarts.stop()
    assert "shutdown_complete" in restarts.names()

    again = verifiable(bootstrap, name, closing, "--group-instance-id", "restarts", *how)
    until(lambda: again.assigned() == before, patient(60), "the same partitions as before")
    assert wire.generation_of(bootstrap, name) == generation
    assert stays.names() == told


def owned_by_members(bootstrap: str, group_id: str) -> int:
    """Count the members of a Stable group; a group on its way counts none."""
    described = wire.describe(bootstrap, group_id)
    return len(described.members) if described.group_state == "Stable" else 0


def test_static_members_are_removed_in_one_batch_with_a_reason(
    bootstrap: str, name: str, closing: Closing
) -> None:
    # KIP-345 and KIP-800: LeaveGroup v5, errors per member.
    create_topics(bootstrap, [name], 4)
    members = []
    for instance_id in ("one", "two", "three"):
        member = Member(bootstrap, name, [name], group_instance_id=instance_id)
        closing(member.close)
        members.append(member)

    def instances() -> set[str]:
        return {m.group_instance_id for m in wire.describe(bootstrap, name).members}

    poll_until(
        members,
        lambda: instances() == {"one", "two", "three"} and all(m.assigned for m in members),
        30,
        "three members share the topic",
    )
    for member in members:
        member.close()
    printed = run_java(
        PROGRAMS / "RemoveMembers.java", bootstrap, name, "their machines are gone",
        "one", "nobody", "two",
    )  # fmt: skip
    assert printed.splitlines() == [
        "one removed",
        "nobody UnknownMemberIdException",
        "two removed",
    ]
    until(lambda: instances() == {"three"}, 20, "the third is left")
    printed = run_java(PROGRAMS / "RemoveMembers.java", bootstrap, name, "all gone")
    assert printed.splitlines() == ["all removed"]
    until(lambda: wire.describe(bootstrap, name).group_state == "Empty", 20, "nobody is left")
