"""A `rollcall watch` beside a Kafka: started, waited for, and what it has told."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from actors.waiting import poll
from actors.watching.place import PlaceFile
from actors.watching.reader import Reader
from actors.watching.settings import read_settings
from bench.servers.rollcall import command
from bench.servers.server import StartError
from protocol.stories import json_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from actors.watching.reader import Found
    from protocol.stories.story import RebalanceStory

OK: Final = 0
START_S: Final = 60.0
BEHIND_S: Final = 120.0
"""How long the watching may need, after the load, to have read everything."""

STOP_S: Final = 60.0
STORIES, PLACE, REMARKS = "stories.jsonl", "place.json", "watch.err"


def counted(lines: Iterable[str]) -> dict[str, Any]:
    """Return what was told: stories by group and by cause, those that are inferred, and storms.

    A story that was told again, once its rebalance had ended, counts once.
    """
    stories: dict[tuple[int, int], RebalanceStory] = {}
    storms: Counter[str] = Counter()
    for line in lines:
        each = json.loads(line)
        if "storm" in each:
            storms[each["group_id"]] += 1
        else:
            story = json_form.read_value(each)
            stories[story.key] = story
    told = stories.values()
    return {
        "stories": len(told),
        "inferred": sum(bool(each.inferred) for each in told),
        "groups": dict(Counter(each.group_id for each in told)),
        "causes": dict(Counter(str(each.cause) for each in told).most_common()),
        "storms": dict(storms),
    }


@contextmanager
def watching(bootstrap: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start watching, and yield its process once it has read what is there."""
    for old in (STORIES, PLACE, REMARKS):
        (directory / old).unlink(missing_ok=True)
    words = ["watch", "--bootstrap", bootstrap, "--json", "--state", str(directory / PLACE)]
    with (directory / STORIES).open("wb") as out, (directory / REMARKS).open("wb") as err:
        process = subprocess.Popen(command(words), stdout=out, stderr=err)
    try:
        poll(lambda: "watching " in _said(directory) or process.poll() is not None, START_S)
        _check(process, directory)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_until_read(bootstrap: str, directory: Path, process: subprocess.Popen[bytes]) -> Found:
    """Wait until everything has been read; return what there is."""
    reader = Reader(read_settings(None, bootstrap), bootstrap)
    try:
        there = reader.find()
    finally:
        reader.close()
    file = PlaceFile(directory / PLACE)

    def is_read() -> bool:
        place = None if process.poll() is not None else file.load()
        return place is not None and all(
            place.offsets.get(each, 0) >= end for each, end in there.ends.items()
        )

    if not poll(is_read, BEHIND_S):
        _check(process, directory)
        raise StartError(f"the watching has not read everything {BEHIND_S:g} s later")
    return there


def stop_watching(process: subprocess.Popen[bytes]) -> None:
    """End it as an operator does. Raises StartError if it does not end well."""
    process.terminate()
    try:
        code = process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        raise StartError(f"the watching has not ended {STOP_S:g} s after SIGTERM") from None
    if code != OK:
        raise StartError(f"the watching ended with exit code {code}")


def _check(process: subprocess.Popen[bytes], directory: Path) -> None:
    """Raise StartError if the watching has ended, or has not begun."""
    if process.poll() is not None or "watching " not in _said(directory):
        last = _said(directory).strip().splitlines()[-1:]
        raise StartError(f"the watching has ended, or not begun: {' '.join(last) or 'no remark'}")


def _said(directory: Path) -> str:
    return (directory / REMARKS).read_text(errors="replace")
