"""``rollcall log dump`` shows the log of a stopped coordinator, and changes nothing of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.cli.log.dump import partition_number
from actors.cluster.data_dir import hold_lock
from actors.errors import BadInputError
from protocol.record_types.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.records import Record, encode
from protocol.wire.embedded import encode_assignment, encode_subscription
from storage.batch import Batch
from storage.control import LEADER_CHANGE_KEY, VOTERS_CHANGE_KEY, leader_change, voters_change
from storage.messages import ReplicaKey
from tests.actors.backup.backups import committed, write_backup
from tests.actors.backup.test_recovering import append
from tests.actors.cli.test_exchange import ran

MEMBER = MemberMetadata(
    member_id="m",
    client_id="c",
    client_host="/127.0.0.1",
    session_timeout=1,
    subscription=encode_subscription(["t"]),
    assignment=encode_assignment([("t", 0)]),
)


def generation(protocol_type: str) -> tuple[bytes, bytes | None]:
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=7, protocol="p", leader="m", members=(MEMBER,)
    )
    return encode(Record(GroupMetadataKey("g"), value))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a node with a state of two offsets, a leader, voters, an offset and a deletion."""
    from actors.backup.restoring import prepare, restore_here

    rows = {0: [committed("a", 1), committed("b", 2)]}
    write_backup(tmp_path / "backup", rows, partitions=3, replicas=3)
    restore_here(prepare(tmp_path / "backup", None), tmp_path / "data")
    key, _ = committed("a", 1)
    voters = voters_change([ReplicaKey(1, "an-id")])
    for records, is_control in (
        ((LEADER_CHANGE_KEY, leader_change(1, [1, 2])), True),
        ((VOTERS_CHANGE_KEY, voters), True),
        (committed("a", 5), False),
        ((key, None), False),
        (generation("consumer"), False),
        (generation("connect"), False),
        ((b"\x00\x63x", b"\x00\x00"), False),
    ):
        end = 100 + sum(1 for _ in (tmp_path / "data").glob("appended-*"))
        append(tmp_path / "data", 1, 9, Batch(end, 9, 1_000, (records,), is_control))
        (tmp_path / "data" / f"appended-{end}").touch()
    return tmp_path / "data"


def dump(capsys: pytest.CaptureFixture[str], data: Path, *words: str) -> list[dict[str, Any]]:
    code, out, err = ran(
        capsys, "log", "dump", "0", "--data-dir", data, "--node", "1", "--json", *words
    )
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_state_and_log_are_decoded(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = dump(capsys, data)
    types = [(row["offset"], row["type"]) for row in rows]
    assert types[:2] == [(None, "OffsetCommit")] * 2
    assert types[2:] == [
        (100, "LeaderChange"),
        (101, "VotersChange"),
        (102, "OffsetCommit"),
        (103, "OffsetCommit"),
        (104, "GroupMetadata"),
        (105, "GroupMetadata"),
        (106, "(record type 99 is not known)"),
    ]
    assert rows[2]["value"]["leader_id"] == 1
    assert rows[3]["value"] == {"voters": [1]}
    assert rows[4]["key"]["group"] == "a"
    assert rows[4]["value"]["offset"] == 5
    assert (rows[4]["epoch"], rows[4]["time"]) == (9, "1970-01-01T00:00:01.000+00:00")
    assert rows[5]["value"] is None
    (member,) = rows[6]["value"]["members"]
    assert member["subscription"]["topics"] == ["t"]
    assert member["assignment"] == [["t", 0]]
    (other,) = rows[7]["value"]["members"]
    assert isinstance(other["assignment"], str), "only consumers' bytes have a known meaning"


def test_what_is_shown_can_be_limited(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["offset"] for row in dump(capsys, data, "--group", "a")] == [None, 102, 103]
    assert [row["offset"] for row in dump(capsys, data, "--offset", "105")] == [105, 106]
    assert len(dump(capsys, data, "--max-records", "3")) == 3


def test_people_get_a_line_for_each_record(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    words = ("log", "dump", "__consumer_offsets-0", "--data-dir", data, "--node", "1")
    code, out, err = ran(capsys, *words)
    assert code == 0
    assert "the state before offset 100, the log from 100 to 107" in err
    lines = out.splitlines()
    assert lines[0].startswith('state OffsetCommit group="a" topic=')
    assert lines[4].startswith('102 (epoch 9) 1970-01-01T00:00:01.000+00:00 OffsetCommit group="a"')
    assert lines[5].endswith("= deleted")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("0",), "several coordinators: give --node 0, 1, 2"),
        (("0", "--node", "7"), "has no coordinator 7, only 0, 1, 2"),
        (("2", "--node", "1", "--offset", "-1"), "--offset must be at least 0"),
        (("9", "--node", "1"), "has no records of partition 9"),
        (("nonsense", "--node", "1"), "'nonsense' is not a partition"),
    ],
)
def test_a_mistake_gets_one_sentence(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = ran(capsys, "log", "dump", *words, "--data-dir", data)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_running_clusters_log_is_left_alone(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_lock(str(data)):
        code, _, err = ran(capsys, "log", "dump", "0", "--node", "1", "--data-dir", data)
    assert code == 2
    assert "is in use by a running cluster" in err


def test_a_damaged_log_is_said_to_be_damaged(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "node-1" / "CURRENT").write_text("nonsense")
    code, _, err = ran(capsys, "log", "dump", "0", "--node", "1", "--data-dir", data)
    assert code == 1
    assert str(data / "node-1") in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("__consumer_offsets-3", 3),
        ("__share_group_state-2", 1_000_002),
        ("catalogue", -1),
    ],
)
def test_a_partition_is_named_in_several_ways(text: str, number: int) -> None:
    assert partition_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "x-1", "orders-0", "1.5", "٣", "9999999999"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        partition_number(text)
