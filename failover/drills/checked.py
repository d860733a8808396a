"""Convert a TOML table to a typed value: checked completely, with one sentence per mistake."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import ValidationError, convert, inspect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")

MISTAKES_MAX: Final = 10
"""At most this many mistakes of one file are reported."""

_WORDS: Final = {
    "object": "a table", "array": "a list", "str": "text", "int": "a whole number",
    "float": "a number", "bool": "true or false",
}  # fmt: skip
"""The TOML names of msgspec's type names."""

_PART: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)


class DrillError(Exception):
    """A drill is invalid as requested; the message says why in one sentence."""


def checked(kind: type[T], table: Mapping[str, Any], what: str) -> T:
    """Convert a TOML table to a ``kind``; ``what`` starts each sentence of the error.

    Raises :class:`DrillError` with a sentence for each mistake. msgspec reports the first one: it
    is removed from a copy of the table, and the rest is checked again.
    """
    left = copy.deepcopy(dict(table))
    taken_out: set[_Path] = set()
    mistakes: list[str] = []
    while len(mistakes) < MISTAKES_MAX:
        try:
            made = convert(left, kind)
        except ValidationError as error:
            mistake = _Mistake.of(str(error))
            if mistake.path in taken_out:
                break  # only the removed settings are missing
            mistakes.append(f"{what}: {mistake.sentence(kind, left)}")
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
        path = tuple(int(n) if n else name for name, n in _PART.findall(place))
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
        for term, word in _WORDS.items():
            said = said.replace(f"`{term}`", word)
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
    """Return the values of the enumeration at ``path``; none when it is no enumeration."""
    for part in path:
        if isinstance(info, inspect.StructType):
            info = next(row.type for row in info.fields if row.encode_name == part)
        elif isinstance(info, inspect.VarTupleType):
            info = info.item_type
    return [str(each.value) for each in info.cls] if isinstance(info, inspect.EnumType) else []
