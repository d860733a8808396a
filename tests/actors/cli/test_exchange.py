"""``rollcall backup``, ``restore`` and ``import``: what they print, and an operator's mistakes."""

from pathlib import Path

import pytest

from actors.cli.main import main
from actors.cluster.data_dir import CLUSTER_FILE, parse
from tests.actors.backup.backups import committed, write_backup

KAFKA = Path(__file__).parent.parent / "backup" / "kafka-4.3.1"


def ran(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main([*map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_backup_is_verified_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_backup(tmp_path / "b", {0: [committed("g", 1)]})
    code, out, _ = ran(capsys, "backup", "--verify", tmp_path / "b")
    assert code == 0
    assert "partition 0: 1 records, " in out
    assert ", offset 100, epoch 5, " in out
    assert f"{tmp_path / 'b'} is complete and intact" in out
    words = ("restore", tmp_path / "b", "--data-dir", tmp_path / "data")
    code, out, _ = ran(capsys, *words)
    assert code == 0
    assert f"rollcall up --data-dir {tmp_path / 'data'}" in out
    code, _, err = ran(capsys, *words)
    assert code == 2
    assert "restore to a new data directory" in err


def test_a_restored_cluster_may_have_another_number_of_replicas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_backup(tmp_path / "b", {0: [committed("g", 1)]}, partitions=3, replicas=1)
    words = ("restore", tmp_path / "b", "--data-dir", tmp_path / "data")
    assert ran(capsys, *words, "--replication-factor", "2")[0] == 0
    found = parse((tmp_path / "data" / CLUSTER_FILE).read_text(), "here")
    assert [len(nodes) for nodes in found.replica_nodes] == [2, 2, 2]


def test_log_directories_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("import", "--segments", KAFKA, "--to", tmp_path / "b", "--partitions", "2")
    code, out, _ = ran(capsys, *words)
    assert code == 0
    assert "share state partition 1: " in out
    assert "partition 2" not in out
    code, _, err = ran(capsys, *words)
    assert code == 2
    assert "already exists" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["backup", "--verify", "nowhere"], "is not a backup"),
        (["backup", "."], "already exists"),
        (["restore", "nowhere"], "is not a backup"),
        (["restore", "nowhere", "--replication-factor", "0"], "must be at least 1"),
        (["import", "--segments", "nowhere", "--to", "new"], "is not a directory"),
        (["import", "--segments", ".", "--to", "new"], "There is no __consumer_offsets in"),
        (["import", "--segments", ".", "--to", "new", "--partitions", "0"], "must be at least 1"),
        (["import", "--bootstrap-server", "x", "--to", "new"], "is not a bootstrap server"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = ran(capsys, *words)
    assert code in {1, 2}
    assert err.startswith("rollcall: ")
    assert err.count("\n") == 1
    assert why in err
    assert list(tmp_path.iterdir()) == []
