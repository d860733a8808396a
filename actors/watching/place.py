"""Where the watching has come to, in a file: so the next one tells what came after that."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from actors.errors import BadInputError, FailureError
from protocol.stories.sentence import quoted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSION: Final = 1
PLACE_MAX: Final = 4 << 20
"""Characters of a file: a partition takes about thirty."""

_PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk that are no mistake of who chose the file."""

_PARTITIONS_MAX: Final = 1 << 31
_OFFSETS_MAX: Final = 1 << 63
_DIGITS_MAX: Final = 10


@dataclass(slots=True, kw_only=True)
class WatchPlace:
    """The next offset to tell of each partition, of this topic (by id) of this cluster."""

    cluster_id: str = ""
    topic_id: str = ""
    offsets: dict[int, int] = field(default_factory=dict)


class PlaceFile:
    """The file of a place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._draft = path.parent / f"{path.name}.new"
        self._written = ""

    def probe(self) -> None:
        """Look whether the file could be written. Raises BadInputError for a wrong choice."""
        try:
            self._draft.write_text("")
            self._draft.unlink()
        except OSError as error:
            if error.errno in _PASSING:
                return
            raise BadInputError(
                f"{self.path} cannot be written: {error.strerror}; give with --state a file in a"
                " directory that exists and can be written to"
            ) from None

    def load(self) -> WatchPlace | None:
        """Return the place; None if there is no file yet. Raises BadInputError."""
        try:
            with self.path.open() as file:
                text = file.read(PLACE_MAX + 1)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{self.path} cannot be read: {error}") from None
        try:
            return _place(text)
        except _NoPlaceError as error:
            raise BadInputError(
                f"{self.path} is no state of `rollcall watch`: {error}; give another file with"
                " --state, or remove it"
            ) from None

    def save(self, place: WatchPlace) -> None:
        """Replace the file, if the place has changed. Raises FailureError."""
        offsets = {str(number): place.offsets[number] for number in sorted(place.offsets)}
        text = json.dumps(
            {
                "version": VERSION,
                "cluster_id": place.cluster_id,
                "topic_id": place.topic_id,
                "offsets": offsets,
            }
        )
        if text == self._written:
            return
        try:
            self._draft.write_text(text)
            self._draft.replace(self.path)
        except OSError as error:
            raise FailureError(f"{self.path} cannot be written: {error.strerror}.") from None
        self._written = text


class PlaceKeeper:
    """Keeps the place of a watch that runs; a disk that fails for a while does not end it.

    ``noted`` takes a sentence when the file cannot be written, and when it can be again.
    """

    def __init__(self, file: PlaceFile, noted: Callable[[str], None]) -> None:
        self._file = file
        self._noted = noted
        self._is_failing = False

    def load(self) -> WatchPlace | None:
        """Return the place of before, if there is one. Raises BadInputError."""
        self._file.probe()
        return self._file.load()

    def save(self, place: WatchPlace) -> None:
        """Save the place, or say once that it is tried again with the next one."""
        was_failing = self._is_failing
        try:
            self._file.save(place)
        except FailureError as error:
            self._is_failing = True
            if not was_failing:
                self._noted(
                    f"{str(error).rstrip('.')}: trying again; what is told now may be told again"
                    " after the next start"
                )
            return
        self._is_failing = False
        if was_failing:
            self._noted(f"{self._file.path} is written again")


class _NoPlaceError(Exception):
    """The text of a file is no place; says why."""


def _place(text: str) -> WatchPlace:
    if len(text) > PLACE_MAX:
        _refuse(f"it is longer than {PLACE_MAX} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        _refuse("it is no JSON")
    if not isinstance(value, dict):
        _refuse("it is no JSON object")
    version = value.get("version")
    if type(version) is not int or version != VERSION:
        _refuse(f"its version is not {VERSION}")
    for name in ("cluster_id", "topic_id"):
        if not isinstance(value.get(name), str):
            _refuse(f"its {name} is no text")
    offsets = value.get("offsets")
    if not isinstance(offsets, dict):
        _refuse("its offsets are no object")
    return WatchPlace(
        cluster_id=value["cluster_id"],
        topic_id=value["topic_id"],
        offsets=dict(_offset(name, offset) for name, offset in offsets.items()),
    )


def _offset(name: str, offset: Any) -> tuple[int, int]:
    """Return a partition and its next offset."""
    is_number = name.isascii() and name.isdigit() and len(name) <= _DIGITS_MAX
    if not is_number or str(int(name)) != name or int(name) >= _PARTITIONS_MAX:
        _refuse(f"{quoted(name)} is the number of no partition")
    if type(offset) is not int or not 0 <= offset < _OFFSETS_MAX:
        _refuse(f"the offset of partition {name} is no number from 0 to 2^63 - 1")
    return int(name), offset


def _refuse(why: str) -> NoReturn:
    raise _NoPlaceError(why)
