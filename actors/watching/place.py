"""Where the watching has come to, in a file: so the next one tells what came after that."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.errors import BadInputError, FailureError

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1


@dataclass(slots=True, kw_only=True)
class WatchPlace:
    """The next offset to tell of each partition, of this topic (by id) of this cluster."""

    cluster_id: str = ""
    topic_id: str = ""
    offsets: dict[int, int] = field(default_factory=dict)


class PlaceFile:
    """The file of a place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def load(self) -> WatchPlace | None:
        """Return the place; None if there is no file yet. Raises BadInputError."""
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{self._path} cannot be read: {error}") from None
        try:
            return _place(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadInputError(
                f"{self._path} is no state of `rollcall watch`: give another file, or remove it"
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
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            draft.write_text(text)
            draft.replace(self._path)
        except OSError as error:
            raise FailureError(f"{self._path} cannot be written: {error.strerror}.") from None
        self._written = text


def _place(value: Any) -> WatchPlace:
    if value["version"] != VERSION:
        raise ValueError
    return WatchPlace(
        cluster_id=str(value["cluster_id"]),
        topic_id=str(value["topic_id"]),
        offsets={int(number): int(offset) for number, offset in value["offsets"].items()},
    )
