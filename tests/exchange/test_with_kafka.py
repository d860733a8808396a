"""Groups of a real Kafka 4.3.1 move to Rollcall, through a backup and its restore, and back.

What Kafka's tools print of the groups stays the same on the way: states, members, static ones too,
assignments and offsets. Members of modern groups go on where they are, in one epoch more. The
scenario that ``rollcall rehearse --from-group`` makes of a group is the same on both sides.
The commands are those of ``docs/operations.md``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.backup.files import read_partition, verify
from bench.scenarios.files import parse
from bench.scenarios.scenario import WorkloadKind
from tests.clients import servers
from tests.clients.java import java
from tests.clients.tools.side_by_side import SHARE, STREAMS, Tools
from tests.conftest import NewCluster, rollcall
from tests.exchange.groups_of_all_types import (
    KAFKA_SETTINGS,
    KINDS,
    SETTINGS,
    Groups,
    create_groups,
)
from tests.waiting import patient, until

CONSUMER = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOOLS = {"share": SHARE, "streams": STREAMS}
VIEWS = (("--offsets",), ("--members", "--verbose"), ("--state",))
TOPIC = "orders"
EXPORTED = ("classic", "simple", "consumer", "share")
"""Groups that Kafka's tools can describe there: the topics of streams groups are not exported."""

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="it starts a Kafka by itself"),
]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[servers.KafkaServer]:
    java()
    with ExitStack() as stack:
        server = servers.KafkaServer(tmp_path / "kafka", KAFKA_SETTINGS)
        stack.callback(server.close)
        server.start()
        yield server


def done(*words: str | Path) -> str:
    """Run a command that succeeds; return what it prints."""
    ran = rollcall(*words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def described(groups: Groups, bootstrap: str, kinds: Sequence[str] = KINDS) -> dict[str, list[str]]:
    """Return what Kafka's tools print of the groups, once their coordinators are loaded."""
    tools = Tools(bootstrap)
    try:
        found = {}
        for kind in kinds:
            tool = TOOLS.get(kind, CONSUMER)
            for view in VIEWS:
                words = ("--describe", "--group", groups.group(kind), *view)

                def run(tool: str = tool, words: tuple[str, ...] = words) -> list[str]:
                    printed = tools.run(tool, *words)
                    is_there = any(each.startswith(groups.prefix) for each in printed)
                    return printed if is_there or "simple" in words[2] else []

                found[f"{kind} {view[0]}"] = until(run, patient(60), f"{words} are described")
        return found
    finally:
        tools.close()


def without_epochs(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out the numbers of modern members: a server of another kind begins one new epoch."""
    return {
        view: [re.sub(r"(?<= )\d+(?= )", "N", line) for line in lines]
        if view in ("consumer --members", "share --members", "streams --members")
        else lines
        for view, lines in found.items()
    }


def scenarios(groups: Groups, bootstrap: str) -> dict[str, str]:
    """Return the scenarios that are made of the groups that run."""
    return {
        kind: done("rehearse", "--from-group", groups.group(kind), "--bootstrap", bootstrap)
        for kind in ("classic", "consumer", "share", "streams")
    }


def is_rehearsed(scenario: str, file: Path) -> None:
    """The scenario of the group with two static members is a file that runs, and is clean."""
    file.write_text(scenario)
    made = parse(file.stem, scenario)
    (group,) = made.groups
    assert (group.static, group.workload) == (True, WorkloadKind.STATEFUL_SET)
    assert (group.replicas, made.partitions_of()) == (2, {TOPIC: 4})
    said = done("rehearse", file, "--simulate")
    assert re.search(rf"^{group.name} +2  classic, static +\d+ +0 ", said, re.MULTILINE), said
    assert said.endswith("\nclean\n")


def rows(backup: Path) -> dict[int, list[tuple[bytes, bytes | None]]]:
    return {row.partition: list(read_partition(backup, row)) for row in verify(backup).files}


def test_groups_move_from_kafka_to_rollcall_and_back(
    kafka: servers.KafkaServer, new_cluster: NewCluster, tmp_path: Path
) -> None:
    first = create_groups(kafka.bootstrap, "first", TOPIC, is_kafka=True)
    on_kafka = described(first, kafka.bootstrap)
    assert "first-classic" in " ".join(on_kafka["classic --members"])
    imported_there = scenarios(first, kafka.bootstrap)
    is_rehearsed(imported_there["classic"], tmp_path / "imported.toml")

    imported, segments = tmp_path / "imported", tmp_path / "segments"
    three = ("--partitions", "3")
    done("import", "--bootstrap-server", kafka.bootstrap, "--to", imported, *three)
    done("import", "--segments", tmp_path / "kafka" / "logs", "--to", segments, *three)
    assert rows(segments) == rows(imported)

    done("restore", imported, "--data-dir", tmp_path / "data")
    cluster = new_cluster(settings=SETTINGS).start()
    first.go_on_at(cluster.bootstrap)
    assert without_epochs(described(first, cluster.bootstrap)) == without_epochs(on_kafka)
    assert scenarios(first, cluster.bootstrap) == imported_there

    second = create_groups(cluster.bootstrap, "second", TOPIC, is_kafka=False)
    third = Groups(cluster.bootstrap, "third", TOPIC)
    third.create_simple()
    before = {one.prefix: described(one, cluster.bootstrap) for one in (first, second)}
    offsets = described(third, cluster.bootstrap, ["simple"])
    said = done("backup", tmp_path / "backup", "--data-dir", cluster.data_dir)
    assert "is complete and intact" in said
    cluster.stop()
    shutil.rmtree(cluster.data_dir)

    done("backup", "--verify", tmp_path / "backup")
    done("restore", tmp_path / "backup", "--data-dir", tmp_path / "data")
    cluster.start()
    after = {one.prefix: described(one, cluster.bootstrap) for one in (first, second)}
    assert after == before

    only = ("--offsets-only", "--group", third.group("simple"))
    export = ("export", tmp_path / "backup", "--bootstrap-server", kafka.bootstrap)
    assert done(*export, *only) == f"{third.group('simple')}: 1 offsets\n"
    assert described(third, kafka.bootstrap, ["simple"]) == offsets
    refused = rollcall(*export)
    assert refused.returncode == 2
    assert "has groups of the backup: first-classic, " in refused.stderr
    chosen = [word for kind in KINDS for word in ("--group", second.group(kind))]
    assert "Now let Kafka load" in done(*export, *chosen)
    kafka.stop()
    kafka.start()
    assert described(second, kafka.bootstrap, EXPORTED)
