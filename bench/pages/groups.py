"""What groups paid, as figures, and which of very many groups a report has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pages.document import CostRow, Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from bench.scenarios.record import GroupCosts
    from bench.scenarios.verdict import GroupVerdict

GROUPS_MAX: Final = 200
"""Groups in the table of costs; the others are one row."""

STORIES_MAX: Final = 24
STORIES_EACH_MAX: Final = 12
"""Groups drawn, of all runs and of each."""


class FigureRow(NamedTuple):
    """What a group pays, how that of several groups is one, and what in ``expect`` limits it."""

    value: Callable[[GroupCosts], float]
    together: Callable[[Iterable[float]], float]
    limit: str | None


FIGURES: Final = {
    "rebalances": FigureRow(lambda each: each.rebalances, sum, "rebalances_max"),
    "unavailable member-s": FigureRow(
        lambda each: each.unavailable_member_ms / 1000, sum, "unavailable_member_seconds_max"
    ),
    "longest unowned s": FigureRow(lambda each: each.unowned_ms / 1000, max, "unowned_seconds_max"),
    "partitions moved": FigureRow(lambda each: each.moved, sum, None),
    "failed members": FigureRow(lambda each: each.failed, sum, None),
}
"""The figures of each group, under the names that the table of a verdict has."""


def figures(row: GroupVerdict) -> tuple[Figure, ...]:
    """Return what one group paid, each figure with its limit."""
    return tuple(
        Figure(
            name=name,
            value=figure.value(row.costs),
            limit=None if figure.limit is None else getattr(row.group.expect, figure.limit),
        )
        for name, figure in FIGURES.items()
    )


def cost_rows(groups: Sequence[GroupVerdict], shown: Collection[str]) -> list[CostRow]:
    """Return a row for each group of ``shown``, and one for all others."""
    rows = [_row(each) for each in groups if each.group.name in shown]
    others = [each for each in groups if each.group.name not in shown]
    if others:
        members = sum(each.costs.members for each in others)
        rows.append(
            CostRow(
                group=f"{len(others):,} other groups",
                kind=f"{members:,} members; sums, and the longest of all",
                figures=tuple(
                    Figure(name=name, value=row.together(row.value(each.costs) for each in others))
                    for name, row in FIGURES.items()
                ),
            )
        )
    return rows


def costliest(runs: Sequence[Sequence[GroupVerdict]], most: int) -> list[str]:
    """Return the names of at most ``most`` groups of these runs, in their order.

    Those that exceed a limit come first, then those that pay most, whichever run it is: the same
    groups stand side by side.
    """
    paid: dict[str, tuple[bool, int]] = {}
    for groups in runs:
        for each in groups:
            is_over, unavailable_ms = paid.get(each.group.name, (False, 0))
            paid[each.group.name] = (
                is_over or bool(each.exceeded),
                max(unavailable_ms, each.costs.unavailable_member_ms),
            )
    kept = {*sorted(paid, key=lambda name: paid[name], reverse=True)[:most]}
    return [name for name in paid if name in kept]


def _row(row: GroupVerdict) -> CostRow:
    kind = f"{row.group.protocol}, {'static' if row.group.static else 'dynamic'}"
    return CostRow(
        group=row.group.name, kind=f"{row.costs.members:,} members, {kind}", figures=figures(row)
    )
