"""What groups paid, as figures, and which of very many groups a report has room for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pages.document import CostRow, Figure
from bench.report.sentences import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from bench.scenarios.record import GroupCosts

GROUPS_MAX: Final = 200
"""Groups in the table of costs; the others are one row."""

STORIES_MAX: Final = 24
STORIES_EACH_MAX: Final = 12
"""Groups drawn, of all runs and of each."""


REASONS_MAX: Final = 8
"""A verdict in one sentence has at most so many reasons, and counts the others."""


class FigureRow(NamedTuple):
    """What a group pays, how that of several groups is one, and the measure that limits it.

    ``is_cost``: less is better. Fewer members, or fewer partitions of one, are another group.
    """

    value: Callable[[GroupCosts], float]
    together: Callable[[Iterable[float]], float]
    measure: str
    is_cost: bool = True


FIGURES: Final = {
    "members": FigureRow(lambda each: each.members, sum, "members", is_cost=False),
    "rebalances": FigureRow(lambda each: each.rebalances, sum, "rebalances"),
    "unavailable member-s": FigureRow(
        lambda each: each.unavailable_member_ms / 1000, sum, "unavailable_member_seconds"
    ),
    "longest unowned s": FigureRow(lambda each: each.unowned_ms / 1000, max, "unowned_seconds"),
    "partitions moved": FigureRow(lambda each: each.moved, sum, "partitions_moved"),
    "failed members": FigureRow(lambda each: each.failed, sum, "failed_members"),
    "revoked from survivors": FigureRow(lambda each: each.revoked, sum, "survivor_revocations"),
    "most partitions": FigureRow(lambda each: each.most, max, "most_partitions", is_cost=False),
}
"""The figures of each group, under the names that the table of a verdict has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidGroup:
    """What one group paid; ``limits`` are by the settings of ``expect``, as far as there are any.

    ``kind`` says what its members are.
    """

    name: str
    kind: str
    costs: GroupCosts
    limits: Mapping[str, float] = field(default_factory=dict)

    def figures(self) -> tuple[Figure, ...]:
        """Return what the group paid, each figure with its limit."""
        return tuple(
            Figure(
                name=name,
                value=row.value(self.costs),
                limit=self.limits.get(f"{row.measure}_max"),
                least=self.limits.get(f"{row.measure}_min"),
                is_cost=row.is_cost,
            )
            for name, row in FIGURES.items()
        )


def cost_rows(groups: Sequence[PaidGroup], shown: Collection[str]) -> list[CostRow]:
    """Return a row for each group of ``shown``, and one for all others."""
    rows = [
        CostRow(
            group=each.name,
            kind=f"{members_words(each.costs.members)}, {each.kind}",
            figures=each.figures(),
        )
        for each in groups
        if each.name in shown
    ]
    others = [each for each in groups if each.name not in shown]
    if others:
        members = members_words(sum(each.costs.members for each in others))
        rows.append(
            CostRow(
                group=f"{len(others):,} other groups",
                kind=f"{members}; sums, and the longest of all",
                figures=tuple(
                    Figure(
                        name=name,
                        value=row.together(row.value(each.costs) for each in others),
                        is_cost=row.is_cost,
                    )
                    for name, row in FIGURES.items()
                ),
            )
        )
    return rows


def costliest(runs: Sequence[Sequence[PaidGroup]], most: int) -> list[str]:
    """Return the names of at most ``most`` groups of these runs, in their order.

    Those that exceed a limit come first, then those that pay most, whichever run it is: the same
    groups stand side by side.
    """
    paid: dict[str, tuple[bool, int]] = {}
    for groups in runs:
        for each in groups:
            is_over, unavailable_ms = paid.get(each.name, (False, 0))
            paid[each.name] = (
                is_over or not all(figure.is_within for figure in each.figures()),
                max(unavailable_ms, each.costs.unavailable_member_ms),
            )
    kept = {*sorted(paid, key=lambda name: paid[name], reverse=True)[:most]}
    return [name for name in paid if name in kept]


def members_words(count: int) -> str:
    """Return how many members there are, in words."""
    return "1 member" if count == 1 else f"{count:,} members"


def which_are_drawn(drawn: int, groups: int) -> str:
    """Say which groups :func:`costliest` chose to be drawn."""
    return (
        f"{drawn} of {groups} groups are drawn: those that exceed a limit, then those that cost"
        " most."
    )


def joined(reasons: Sequence[str]) -> str:
    """Return the first reasons of a verdict, and how many more there are, without a full stop."""
    return listed([each.rstrip(".") for each in reasons], REASONS_MAX)


def sentence_of(reasons: Sequence[str]) -> str:
    """Return the same as a sentence, whether the reasons are sentences or not."""
    return f"{joined(reasons)}."
