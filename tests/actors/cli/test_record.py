"""``rollcall record``: what it asks of the coordinators, what it writes and what it says."""

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli import record
from actors.coordinator.coordinator import Recorded
from actors.deployment import actors
from actors.errors import BadInputError, FailureError

TEXT = Namespace(json=False)
CLUSTER: Any = SimpleNamespace(partitions=2)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[int, Recorded]:
    """Answer for the coordinators."""
    answers = {0: Recorded(b"zero", ()), 1: Recorded(b"one", ((1, "its state is too large"),))}
    monkeypatch.setattr(actors, "record", lambda node_id: answers[node_id])
    monkeypatch.setattr(record, "call_cluster", lambda _, question: question())
    return answers


def test_all_coordinators_are_written_to_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r"
    assert record.record(CLUSTER, None, out, TEXT) == 0
    assert out.read_bytes() == b"zeroone"
    assert out.stat().st_mode & 0o777 == 0o600
    said = capsys.readouterr()
    assert said.out == f"wrote {out}, 7 bytes\n"
    assert "partition 1 is not recorded: its state is too large" in said.err


def test_what_is_written_and_what_is_missing_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r"
    assert record.record(CLUSTER, None, out, Namespace(json=True)) == 0
    (partition,) = (said := json.loads(capsys.readouterr().out)).pop("missing")
    assert said == {"file": str(out), "bytes": 7}
    assert partition["why"] == "its state is too large"


def test_one_coordinator_is_asked(tmp_path: Path) -> None:
    assert record.record(CLUSTER, 0, tmp_path / "r", TEXT) == 0
    assert (tmp_path / "r").read_bytes() == b"zero"


def test_nothing_is_written_where_nothing_is_recorded(
    tmp_path: Path, cluster: dict[int, Recorded]
) -> None:
    cluster[0] = Recorded(b"", ())
    with pytest.raises(FailureError, match=r"set incident\.recording\.max\.bytes"):
        record.record(CLUSTER, 0, tmp_path / "r", TEXT)
    assert not (tmp_path / "r").exists()


def test_an_operators_mistake_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="There is no coordinator 2"):
        record.record(CLUSTER, 2, tmp_path / "r", TEXT)
    (tmp_path / "there").write_bytes(b"precious")
    with pytest.raises(BadInputError, match="already exists"):
        record.record(CLUSTER, 0, tmp_path / "there", TEXT)
    with pytest.raises(FailureError, match="cannot be written"):
        record.record(CLUSTER, 0, tmp_path / "no" / "directory", TEXT)
    assert (tmp_path / "there").read_bytes() == b"precious"
