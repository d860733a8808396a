"""Which groups a page shows: filtered, sorted and cut here, since there may be ten thousand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.console.source import ListedGroup

ROWS_MAX: Final = 50
"""Groups on one page."""

TEXT_MAX: Final = 249
"""Characters of a filter that are looked at: as many as Kafka allows in the name of a topic."""

PAGE_MAX: Final = 1_000_000

AT_REST: Final = frozenset({"Empty", "Stable", "Dead", "NotReady"})
"""The states of groups that do not rebalance."""

SORTS: Final[Mapping[str, Callable[[ListedGroup], int | str | None]]] = MappingProxyType(
    {
        "lately": lambda each: each.lately,
        "group": lambda each: each.group_id,
        "type": lambda each: each.group_type,
        "state": lambda each: each.state,
        "members": lambda each: each.members,
        "lag": lambda each: each.lag,
    }
)
"""The columns to sort by; the first is the default."""

DESCENDS_FIRST: Final = frozenset({"lately", "members", "lag"})
"""Columns whose largest values are of interest."""


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """What is asked for by the query of an address; anything unknown in it counts as not given."""

    text: str = ""
    group_type: str = ""
    state: str = ""
    sort: str = "lately"
    descends: bool = True
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> GroupSelection:
        """Read a query."""
        sort = query.get("sort", "")
        sort = sort if sort in SORTS else "lately"
        order = query.get("order", "")
        descends = order == "desc" if order in ("asc", "desc") else sort in DESCENDS_FIRST
        number = query.get("page", "")
        is_number = number.isascii() and number.isdecimal() and len(number) < 8
        return cls(
            text=query.get("q", "")[:TEXT_MAX],
            group_type=query.get("type", "")[:TEXT_MAX],
            state=query.get("state", "")[:TEXT_MAX],
            sort=sort,
            descends=descends,
            page=min(max(int(number), 1), PAGE_MAX) if is_number else 1,
        )

    def query(self) -> str:
        """Return the query of an address that asks for this."""
        given = {
            "q": self.text,
            "type": self.group_type,
            "state": self.state,
            "sort": "" if self.sort == "lately" else self.sort,
            "order": ""
            if self.descends == (self.sort in DESCENDS_FIRST)
            else ("desc" if self.descends else "asc"),
            "page": "" if self.page == 1 else str(self.page),
        }
        return urlencode({name: value for name, value in given.items() if value})

    def on_page(self, page: int) -> GroupSelection:
        """Return the same on another page."""
        return replace(self, page=page)

    def by(self, sort: str) -> GroupSelection:
        """Return the same, sorted by a column; by the same column, the other way round."""
        descends = not self.descends if sort == self.sort else sort in DESCENDS_FIRST
        return replace(self, sort=sort, descends=descends, page=1)

    def takes(self, group: ListedGroup) -> bool:
        """Whether a group passes the filter; case does not matter."""
        if self.group_type and group.group_type.lower() != self.group_type.lower():
            return False
        if self.state == "rebalancing":
            if group.state in AT_REST:
                return False
        elif self.state and group.state.lower() != self.state.lower():
            return False
        return self.text.lower() in group.group_id.lower()


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows of one page, of ``found`` that pass the filter."""

    rows: Sequence[ListedGroup]
    found: int
    page: int
    pages: int


def select(groups: Sequence[ListedGroup], wanted: GroupSelection) -> Selected:
    """Return the rows that a page shows; a page behind the last one is the last one.

    Equal rows are sorted by their group's id; what is not known comes last either way.
    """
    found = sorted(filter(wanted.takes, groups), key=lambda each: each.group_id)
    key = SORTS[wanted.sort]
    known = [each for each in found if key(each) is not None]
    unknown = [each for each in found if key(each) is None]
    known.sort(key=key, reverse=wanted.descends)  # type: ignore[arg-type]  # one type per column
    rows = known + unknown
    pages = max((len(rows) + ROWS_MAX - 1) // ROWS_MAX, 1)
    page = min(wanted.page, pages)
    return Selected(rows[(page - 1) * ROWS_MAX : page * ROWS_MAX], len(rows), page, pages)
