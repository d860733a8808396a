"""Convert a TOML table to a typed value: checked completely, with one sentence per mistake."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import ValidationError, convert, inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

MISTAKES_MAX: Final = 10
"""At most this many mistakes of one file are reported."""

_WORDS: Final = {
    "object": "a table", "array": "a list", "str": "text", "int": "a whole number",
    "float": "a number", "bool": "true or false",
}  # fmt: skip
"""The TOML names of msgspec's type names."""

_TYPES: Final = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
"""How msgspec names a type, or the types that a setting may have."""

_PART: Final = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.\.\.)\]")
_SOME_KEY: Final = "..."
"""How msgspec names the key of a mapping: not at all."""
_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)


class DrillError(Exception):
    """A drill is invalid as requested; the message says why in one sentence."""


def checked(
    kind: type[T],
    table: Mapping[str, Any],
    what: str,
    *,
    decoded: Callable[[type, Any], Any] | None = None,
    line_of: Callable[[Sequence[str | int]], int | None] = lambda _path: None,
) -> T:
    """Convert a TOML table to a ``kind``; ``what`` starts each sentence of the error.

    ``decoded`` reads values of types that msgspec does not know. ``line_of`` finds the line of a
    setting, where lines are told.

    Raises :class:`DrillError` with a sentence for each mistake. msgspec reports the first one: it
    is removed from a copy of the table, and the rest is checked again.
    """
    left = copy.deepcopy(dict(table))
    taken_out: set[_Path] = set()
    mistakes: list[str] = []

    def refusal(table: Mapping[str, Any]) -> str:
        try:
            convert(table, kind, dec_hook=decoded)
        except ValidationError as error:
            return str(error)
        return ""

    while len(mistakes) < MISTAKES_MAX:
        try:
            made = convert(left, kind, dec_hook=decoded)
        except ValidationError as error:
            mistake = _Mistake.of(str(error))
            if _SOME_KEY in mistake.path:
                mistake = replace(mistake, path=_with_key(left, mistake.path, refusal))
            if mistake.path in taken_out:
                break  # only the removed settings are missing
            line = line_of(mistake.path[:-1] if mistake.is_missing else mistake.path)
            place = what if line is None else f"{what}, line {line}"
            mistakes.append(f"{place}: {mistake.sentence(kind, left)}")
            taken_out.add(mistake.path)
            if not mistake.take_out(left):
                break
        else:
            if not mistakes:
                return made
            break
    raise DrillError(" ".join(mistakes))


_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Mistake:
    """A mistake that msgspec found, and where: at a setting, which may be missing or unknown."""

    text: str
    path: _Path
    is_unknown: bool = False
    is_missing: bool = False

    @classmethod
    def of(cls, message: str) -> _Mistake:
        """Parse a message of msgspec."""
        text, _, place = message.partition(" - at `$")
        path = tuple(int(n) if n else name or key for name, n, key in _PART.findall(place))
        named = _FIELD.search(text)
        if named is None:
            return cls(text, path)
        unknown = "unknown" in text
        return cls(text, (*path, named[1]), is_unknown=unknown, is_missing=not unknown)

    def sentence(self, kind: type, table: Mapping[str, Any]) -> str:
        """Return the sentence for the author of the file."""
        *within, name = self.path or ("the file",)
        place = _spoken(within)
        if self.is_unknown:
            return f"{place} has no setting {name!r}."
        if self.is_missing:
            return f"{place} lacks {name!r}."
        said = self.text[:1].lower() + self.text[1:]
        said = _TYPES.sub(lambda found: _in_words(found[1]), said)
        choices = _choices(inspect.type_info(kind), self.path)
        known = f" (there are {', '.join(choices)})" if choices else ""
        return f"{_spoken(self.path)} is {_at(table, self.path)!r}: {said}{known}."

    def take_out(self, table: dict[str, Any]) -> bool:
        """Remove it from ``table``, if the rest can be checked without it."""
        *within, name = self.path or ("",)
        parent = _at(table, within)
        if self.is_missing or not isinstance(parent, dict) or name not in parent:
            return False
        del parent[name]
        return True


def _with_key(table: dict[str, Any], path: _Path, refusal: Callable[[Any], str]) -> _Path:
    """Return the path with the key that msgspec did not name: it reports the first bad one."""
    place = path.index(_SOME_KEY)
    said = refusal(table)
    entries = list(_at(table, path[:place]).items())
    for number, (key, _) in enumerate(entries, 1):
        fewer = copy.deepcopy(table)
        *within, last = path[:place]
        _at(fewer, within)[last] = dict(entries[:number])
        if refusal(fewer) == said:
            return (*path[:place], key, *path[place + 1 :])
    raise AssertionError(said)


def _in_words(types: str) -> str:
    """Return msgspec's names of types in TOML's words; TOML has no null."""
    return " or ".join(_WORDS.get(each, each) for each in types.split(" | ") if each != "null")


def _at(table: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        table = table[part]
    return table


def _spoken(path: Iterable[str | int]) -> str:
    """Return a path in words: ``step 2: target``."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(part)
    return ": ".join(words) or "the file"


def _choices(info: inspect.Type, path: _Path) -> list[str]:
    """Return the values of the enumeration or of the tag at ``path``; none when it is neither."""
    for part in path:
        if isinstance(info, inspect.StructType):
            found = [row.type for row in info.fields if row.encode_name == part]
            if not found:
                return []
            info = found[0]
        elif isinstance(info, inspect.VarTupleType):
            info = info.item_type
        elif isinstance(info, inspect.UnionType):
            kinds = [each for each in info.types if isinstance(each, inspect.StructType)]
            return [str(each.tag) for each in kinds if each.tag_field == part]
    types = info.types if isinstance(info, inspect.UnionType) else (info,)  # may be left out
    enums = [each.cls for each in types if isinstance(each, inspect.EnumType)]
    return [str(value.value) for each in enums for value in each]
