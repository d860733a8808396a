"""Stories as JSON: written compactly, and read from anybody, with every value checked.

A field that has its default is left out. A reader ignores fields that it does not know and uses the
default of those that are missing, so versions can differ.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from protocol.stories.story import RebalanceStory

STORY_BYTES_MAX: Final = 32 * 1024
"""Bytes of a story; a longer one loses its events, then its moves, then who was awaited."""

_Value = TypeVar("_Value")


class BadStoryError(ValueError):
    """The text is no story."""


def write(story: RebalanceStory) -> bytes:
    """Return a story as JSON, at most ``STORY_BYTES_MAX`` bytes."""
    for shorten in (_with_all, _without_events, _without_moves, _without_names):
        story = shorten(story)
        data = _packed(story)
        if len(data) <= STORY_BYTES_MAX:
            break
    return data


def _with_all(story: RebalanceStory) -> RebalanceStory:
    return story


def _without_events(story: RebalanceStory) -> RebalanceStory:
    return replace(story, events=(), more_events=story.more_events + len(story.events))


def _without_moves(story: RebalanceStory) -> RebalanceStory:
    return replace(
        story,
        moves=(),
        more_moves=story.more_moves + len(story.moves),
        unserved=(),
        more_unserved=story.more_unserved + len(story.unserved),
    )


def _without_names(story: RebalanceStory) -> RebalanceStory:
    waits = [replace(each, who=(), more=each.more + len(each.who)) for each in story.waits]
    return replace(story, waits=tuple(waits))


def read(data: bytes | str) -> RebalanceStory:
    """Read a story; raises :class:`BadStoryError` if it is none."""
    if len(data) > 4 * STORY_BYTES_MAX:
        raise BadStoryError("it is too long")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadStoryError("it is no JSON") from error
    return read_value(value)


def read_value(value: object) -> RebalanceStory:
    """Read a story from decoded JSON."""
    return _read(RebalanceStory, value)


def read_as(kind: type[_Value], value: object) -> _Value:
    """Read another dataclass from decoded JSON, with the same checks."""
    return _read(kind, value)


def plain(value: Any) -> Any:
    """Return a value of a story as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {}
        for each in fields(value):
            part = getattr(value, each.name)
            if each.default is MISSING or part != each.default:
                found[each.name] = plain(part)
        return found
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 3)
    return value


def _packed(story: RebalanceStory) -> bytes:
    text = json.dumps(plain(story), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: type[_Value], value: object) -> _Value:
    if not isinstance(value, dict):
        raise BadStoryError(f"a {kind.__name__} is no object")
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    try:
        return kind(**{key: _as(hints[key], each) for key, each in value.items() if key in hints})
    except TypeError as error:
        raise BadStoryError(f"a {kind.__name__} lacks a field") from error


def _as(hint: Any, value: Any) -> Any:
    """Return a value of a field's type."""
    if isinstance(hint, UnionType):
        kind = next(each for each in get_args(hint) if each is not NoneType)
        return None if value is None else _as(kind, value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise BadStoryError("a list is none")
        return tuple(_as(get_args(hint)[0], each) for each in value)
    return _read(hint, value) if is_dataclass(hint) else _plain_as(hint, value)  # type: ignore[arg-type]


def _plain_as(hint: type[Any], value: Any) -> Any:
    if hint is float and type(value) is int:
        return float(value)
    is_word = issubclass(hint, StrEnum)
    if type(value) is not (str if is_word else hint):
        raise BadStoryError(f"{value!r:.100} is no {hint.__name__}")
    if not is_word:
        return value
    try:
        return hint(value)
    except ValueError as error:
        raise BadStoryError(f"{value!r:.100} is no {hint.__name__}") from error
