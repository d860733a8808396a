"""Keeps the pages of groups at rest, so that coordinators need not describe them again and again.

A look at a group costs its coordinator little: it is answered from memory. A description takes
rounds that confirm leases. So a group at rest is described again only when a look differs, and
after ``KEPT_MS``, since commits of offsets show in no look.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.console.selection import AT_REST

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from actors.console.source import GroupDetail
    from protocol.groups.group_type import GroupLook

KEPT_MS: Final = 30_000
"""Committed offsets, and how many partitions topics have, are shown at most this late."""

KEPT_MAX: Final = 64
"""Groups that are kept, those that were looked at last."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """``look`` is the one before the description; ``read_ms`` is when offsets were read.

    ``is_settled``: the description before began with the same look, so the story of what had
    changed has been told since.
    """

    detail: GroupDetail
    look: GroupLook
    read_ms: int
    is_settled: bool


class KeptGroups:
    """What was described last, by group."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def group_type(self, group_id: str) -> str:
        """Return of which type a group was; empty: it is not kept."""
        kept = self._kept.get(group_id)
        return "" if kept is None else kept.detail.summary.group_type

    def unchanged(self, group_id: str, look: GroupLook) -> GroupDetail | None:
        """Return what is kept of a group at rest, if a look shows that it still holds."""
        kept = self._kept.get(group_id)
        if kept is None or not kept.is_settled or look.state not in AT_REST:
            return None
        is_same = _essence(look) == _essence(kept.look)
        return kept.detail if is_same and self._is_new(kept) else None

    def recent(self, group_id: str) -> GroupDetail | None:
        """Return what is kept of any group, if its offsets need not be read again."""
        kept = self._kept.get(group_id)
        return kept.detail if kept is not None and self._is_new(kept) else None

    def keep(self, group_id: str, detail: GroupDetail, look: GroupLook) -> None:
        """Keep a description with the look before it."""
        last = self._kept.pop(group_id, None)
        is_settled = last is not None and _essence(last.look) == _essence(look)
        read_ms = self._clock_ms()
        if last is not None and last.detail.offsets is detail.offsets:
            read_ms = last.read_ms  # they were not read again
        self._kept[group_id] = _Kept(detail, look, read_ms, is_settled)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def forget(self, group_id: str) -> None:
        """Keep nothing of a group."""
        self._kept.pop(group_id, None)

    def _is_new(self, kept: _Kept) -> bool:
        return self._clock_ms() - kept.read_ms < KEPT_MS


def _essence(look: GroupLook) -> tuple[str, int, int, Set[str]]:
    return look.state, look.members, look.rebalances, look.sessions.keys()
