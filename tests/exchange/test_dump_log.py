"""Kafka's own tool reads a backup: every record of every partition that Kafka has, too."""

from pathlib import Path

from actors.backup.files import segment_path
from actors.backup.kafka_directories import read_directories
from actors.backup.kafka_state import write_import
from failover.partition_kinds import CATALOG, SHARE_STATE, kind_of
from tests.actors.backup.test_kafka_state import KAFKA, said
from tests.clients.java import run_java

TOOL = "org.apache.kafka.tools.DumpLogSegments"


def test_kafka_dump_log_decodes_a_backup(tmp_path: Path) -> None:
    manifest = write_import(read_directories([KAFKA], said), tmp_path / "b", 1, 1)
    for row in manifest.files:
        kind = kind_of(row.partition)
        if kind is CATALOG:
            continue
        decoder = "--share-group-state-decoder" if kind is SHARE_STATE else "--offsets-decoder"
        path = segment_path(tmp_path / "b", row.partition)
        lines = run_java(TOOL, decoder, "--deep-iteration", "--files", path).splitlines()
        assert len([line for line in lines if line.startswith("| offset: ")]) == row.records
        text = "\n".join(lines)
        assert '"group":"a-classic"' in text or kind is SHARE_STATE
        assert "isvalid: false" not in text
        assert "Could not deserialize" not in text
