"""``--reset-offsets`` by times and by files, and what it says of mistakes in them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import pytest

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.offsets import plans, targets
from actors.cli.offsets.plans import as_csv, read_plan
from actors.cli.offsets.times import duration_ms, timestamp_ms
from actors.errors import BadInputError
from tests.actors.cli.test_group_offsets import Client, empty_share_group, run, starts
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_900_000_000_000
YOUNGEST_MS = 1_700_000_000_000
"""When the youngest record of each topic but "quiet" was written."""


@pytest.fixture(autouse=True)
def _log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has the offsets 3 to 10; at a time, the last one, 9, or -1 after it."""

    def offsets_at(_client: object, partitions: Any, timestamp: int) -> dict[Any, int]:
        special = {admin.EARLIEST: 3, admin.LATEST: 10}
        found = special.get(timestamp, 9 if timestamp <= YOUNGEST_MS else -1)
        return dict.fromkeys(sorted(partitions), found)

    monkeypatch.setattr(admin, "offsets_at", offsets_at)
    monkeypatch.setattr(targets.time, "time_ns", lambda: NOW_MS * 1_000_000)


def new_offsets(*words: str) -> set[int]:
    code, rows = run(Client(ShareTalk()), "--reset-offsets", "--topic", "b", *words)
    assert code == 0
    return {row["new_offset"] for row in rows}


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (("--to-datetime", "2023-11-14T22:13:20.000"), 9),  # the youngest record's moment
        (("--to-datetime", "2023-11-14T23:13:20.000+01:00"), 9),
        (("--to-datetime", "2023-11-14T22:13:20.001Z"), 10),
        (("--by-duration", "P2314DT19H33M20S"), 9),  # so long ago
        (("--by-duration", "P2314DT19H33M19.999S"), 10),
        (("--by-duration", "P999999D"), 9),  # before 1970
    ],
)
def test_offsets_of_a_time_are_the_first_from_then_on_or_the_latest(
    words: tuple[str, str], offset: int
) -> None:
    assert new_offsets(*words) == {offset}


def test_share_groups_are_reset_by_time() -> None:
    client = Client(empty_share_group())
    words = ("--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    assert run(client, "--reset-offsets", *words)[0] == 0
    assert set(starts(client).values()) == {9}


def test_what_is_exported_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(GROUP, "b", 0, 4), (GROUP, "b", 1, 5)]
    file = tmp_path / "plan.csv"
    for group in (None, GROUP):
        file.write_text(as_csv(rows, group))
        assert read_plan(file, GROUP) == {GROUP: {("b", 0): 4, ("b", 1): 5}}
        assert new_offsets_of(file) == {0: 4, 1: 5}
    capsys.readouterr()


def new_offsets_of(file: Path) -> dict[int, int]:
    code, rows = run(Client(ShareTalk()), "--reset-offsets", "--from-file", str(file))
    assert code == 0
    return {row["partition"]: row["new_offset"] for row in rows}


def test_offsets_of_a_file_are_limited_to_the_log(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("b,0,1\nb,1,999\n")
    assert new_offsets_of(file) == {0: 3, 1: 10}


def test_a_group_id_may_hold_a_comma(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(as_csv([('a,"b"', "t", 0, 4)], None))
    assert read_plan(file, None) == {'a,"b"': {("t", 0): 4}}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"b,0\n", "line 1: this is not topic,partition,offset"),
        (b"b,0,1\nb,0,-1\n", "line 2: this is not"),
        (b"b,x,1\n", "line 1: this is not"),
        (b"b,0," + b"9" * 19, "line 1: this is not"),
        (b"g,b,0,1,2\n", "line 1: this is not"),
        (b",0,1\n", "line 1: this is not"),
        (b'"b,0,1\n', "line 1: unexpected end of data"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b"b,0,1\n" * 5, "is longer than"),
    ],
)
def test_a_bad_file_gets_one_sentence(
    tmp_path: Path, content: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILE_BYTES_MAX", 29)
    file = tmp_path / "plan.csv"
    file.write_bytes(content)
    with pytest.raises(BadInputError, match=sentence):
        read_plan(file, GROUP)


def test_a_row_without_a_group_needs_one_group(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("b,0,1\n")
    with pytest.raises(BadInputError, match="this is not group,topic,partition,offset"):
        read_plan(file, None)


def test_a_missing_file_and_a_missing_group_get_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    with pytest.raises(BadInputError, match="cannot be read: No such file"):
        new_offsets_of(file)
    file.write_text("other,b,0,1\n")
    with pytest.raises(ClientError, match=f"has no offsets of group {GROUP}"):
        new_offsets_of(file)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--topic", "b", "--from-file", "x"), "leave out --topic and --all-topics"),
        (("--topic", "b", "--to-latest", "--to-earliest"), "needs one of"),
        (("--topic", "b", "--to-latest", "--export"), "only one of --export and --json"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(BadInputError, match=sentence):
        run(Client(ShareTalk()), "--reset-offsets", *words)


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-01", "2026-13-01T00:00:00", "1969-12-31T23:59:59Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        timestamp_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("p1d", 86_400_000),
        ("-PT1M", -60_000),
        ("PT-0.5S", -500),
        ("PT1H-30M", 1_800_000),
        ("PT0S", 0),
    ],
)
def test_a_duration_is_read_as_java_does(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "P1Y", "P9999999999D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration_ms(text)
