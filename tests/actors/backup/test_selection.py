"""What of a backup is exported: the log directories of a Kafka 4.3.1, imported, as an example."""

from pathlib import Path

import pytest

from actors.backup.kafka_directories import read_directories
from actors.backup.kafka_state import write_import
from actors.backup.manifest import Manifest
from actors.backup.selection import select
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import GROUPS, SHARE_STATE
from tests.actors.backup.backups import committed, write_backup
from tests.actors.backup.test_kafka_state import KAFKA, OFFSETS, said

GROUP_IDS = {f"a-{kind}" for kind in ("classic", "consumer", "share", "simple", "streams")}


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    path = tmp_path_factory.mktemp("import") / "b"
    return path, write_import(read_directories([KAFKA], said), path, 3, 1)


def test_everything_is_exported_if_nothing_is_chosen(backup: tuple[Path, Manifest]) -> None:
    found = select(*backup, ())
    assert found.groups == GROUP_IDS
    for kind in (GROUPS, SHARE_STATE):
        numbers = kind.numbers(3)
        assert len(found.rows[kind]) == sum(backup[1].file_of(one).records for one in numbers)
    assert {
        (group_id, *at): offset
        for group_id, offsets in found.offsets.items()
        for at, offset in offsets.items()
    } == OFFSETS
    assert set(found.topics.values()) == {"orders"}


@pytest.mark.parametrize("group_id", sorted(GROUP_IDS))
def test_the_records_of_one_group_are_exported(
    backup: tuple[Path, Manifest], group_id: str
) -> None:
    found = select(*backup, {group_id})
    assert found.groups == {group_id}
    assert found.rows[GROUPS]
    assert bool(found.rows[SHARE_STATE]) == (group_id == "a-share")
    assert set(found.topics.values()) == {"orders"}
    assert found.offsets.keys() == found.groups - {"a-share"}


def test_a_group_that_is_not_there_is_a_mistake(backup: tuple[Path, Manifest]) -> None:
    with pytest.raises(BadInputError, match="There is no group other in"):
        select(*backup, {"a-classic", "other"})


def test_a_record_of_an_unknown_type_is_not_exported(tmp_path: Path) -> None:
    rows = {0: [committed("g", 1), (b"\x7f\x00key", b"value")]}
    manifest = write_backup(tmp_path / "b", rows)
    with pytest.raises(FailureError, match="export it with the version that wrote it"):
        select(tmp_path / "b", manifest, {"g"})
