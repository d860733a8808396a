"""A place that cannot be written: refused at the start, and lived with later."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from actors.errors import BadInputError, ExitCode, FailureError
from actors.watching import session as sessions
from actors.watching.place import PlaceFile
from actors.watching.reader import ReadBatch
from actors.watching.session import Options, WatchSession
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, SaidError, Told, watched
from tests.protocol.watching.records import generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.watching.reader import Found
    from protocol.stories.story import RebalanceStory


class UnreadLog(Log):
    """A log at which nobody may look."""

    def find(self) -> Found:
        raise AssertionError("the brokers were asked")


class Disk:
    """The writing of files, which fails while there is an ``error``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        self.saves = 0
        write = Path.write_text

        def write_text(path: Path, text: str, *args: Any, **options: Any) -> int:
            self.saves += bool(text)
            if self.error:
                raise OSError(self.error, os.strerror(self.error))
            return write(path, text, *args, **options)

        monkeypatch.setattr(Path, "write_text", write_text)

    def fails(self, error: int) -> Callable[[], ReadBatch]:
        """Return what lets the writing fail from now on; 0: it succeeds again."""

        def act() -> ReadBatch:
            self.error = error
            return ReadBatch((), (), ())

        return act


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(sessions, "SAVE_S", 0.0)
    return Disk(monkeypatch)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing/place", "No such file or directory"),
        ("file/place", "Not a directory"),
        ("x" * 253, "File name too long"),
        ("taken", "Is a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken.new").mkdir()
    with pytest.raises(BadInputError) as raised:
        watched(UnreadLog(), place=PlaceFile(tmp_path / name))
    assert raised.value.exit_code is ExitCode.BAD_INPUT
    assert str(raised.value) == (
        f"{tmp_path / name} cannot be written: {why}; give with --state a file in a directory that"
        " exists and can be written to"
    )


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS])
def test_a_directory_that_may_not_be_written_to_is_refused(
    tmp_path: Path, disk: Disk, error: int
) -> None:
    disk.error = error
    with pytest.raises(BadInputError, match=r"cannot be written: .*; give with --state"):
        watched(UnreadLog(), place=PlaceFile(tmp_path / "place"))


def test_a_bad_place_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("{")
    with pytest.raises(BadInputError, match="is no state of"):
        watched(UnreadLog(), place=PlaceFile(tmp_path / "place"))


def test_looking_whether_a_place_can_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    place = PlaceFile(tmp_path / "place")
    place.probe()
    assert list(tmp_path.iterdir()) == []
    watched(Log(*START), place=place)
    text = (tmp_path / "place").read_text()
    place.probe()
    assert [each.name for each in tmp_path.iterdir()] == ["place"]
    assert (tmp_path / "place").read_text() == text


def full(place: str) -> str:
    return (
        f"{place} cannot be written: No space left on device: trying again; what is told now may be"
        " told again after the next start"
    )


def test_a_disk_that_is_full_for_a_while_ends_nothing(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "place"
    log = Log(*START)
    log.script = [
        None,
        disk.fails(errno.ENOSPC),
        lambda: log.append(generation(2, A, B)),
        lambda: log.append(generation(3, B)),
        disk.fails(0),
        None,
        disk.fails(errno.EIO),
        lambda: log.append(generation(4, A, B)),
    ]
    told, _ = watched(log, place=PlaceFile(path))
    assert told.sentences == ["generation 1 → 2", "generation 2 → 3", "generation 3 → 4"]
    assert told.notes == [
        full(f"{path}"),
        f"{path} is written again",
        full(f"{path}").replace("No space left on device", "Input/output error"),
    ]
    disk.error = 0
    saved = PlaceFile(path).load()
    assert saved is not None
    assert saved.offsets == {0: 4}, "the last place that could be saved"
    again = Log(*START, generation(2, A, B), generation(3, B), generation(4, A, B))
    assert watched(again, place=PlaceFile(path))[0].sentences == ["generation 3 → 4"]


def test_a_disk_that_is_full_at_the_start_is_no_mistake(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "place"
    disk.error = errno.ENOSPC
    log = Log(*START)
    log.script = [lambda: log.append(generation(2, A, B)), disk.fails(0), None]
    told, _ = watched(log, place=PlaceFile(path))
    assert told.sentences == ["generation 1 → 2"]
    assert told.notes == [full(f"{path}"), f"{path} is written again"]


def test_what_ended_it_is_said_though_the_place_cannot_be_saved(tmp_path: Path, disk: Disk) -> None:
    log, told = Log(*START), Told()

    def fail() -> ReadBatch:
        disk.error = errno.ENOSPC
        log.errors = [SaidError("_FATAL", is_fatal=True)]
        return log.append(generation(2, A, B))

    log.script = [fail]
    options = Options(bootstrap=BOOTSTRAP, place=PlaceFile(tmp_path / "place"))
    with pytest.raises(FailureError, match="the consumer cannot go on"):
        WatchSession(log, options, told).run(log.stop)
    assert told.notes == [full(f"{tmp_path / 'place'}")]


def test_a_place_is_written_only_if_it_has_changed(tmp_path: Path, disk: Disk) -> None:
    log = Log(*START)
    log.script = [None] * 5
    watched(log, place=PlaceFile(tmp_path / "place"))
    assert disk.saves == 1


def test_what_nobody_was_told_is_told_after_the_next_start(tmp_path: Path) -> None:
    """A pipe that closes ends it in the middle of telling."""
    place = PlaceFile(tmp_path / "place")

    class Closed(Told):
        def told(self, stories: Iterable[RebalanceStory]) -> None:
            super().told(stories)
            if len(self.sentences) > 1:
                raise BrokenPipeError

    log, told = Log(*START), Closed()
    log.script = [
        lambda: log.append(generation(2, A, B)),
        lambda: log.append(generation(3, B), generation(4, A, B)),
    ]
    with pytest.raises(BrokenPipeError):
        WatchSession(log, Options(bootstrap=BOOTSTRAP, place=place), told).run(log.stop)
    again = Log(*START, generation(2, A, B), generation(3, B), generation(4, A, B))
    assert watched(again, place=place)[0].sentences == ["generation 2 → 3", "generation 3 → 4"]
