"""What the groups of one application paid: the copies together, and which of them is the worst."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.scenarios.record import GroupCosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.scenarios.scenario import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """What the scenario cost a group; ``exceeded`` says which limits that does not keep."""

    group: Group
    costs: GroupCosts
    exceeded: tuple[str, ...]


PaidRank = tuple[bool, int, int, int, int]
NOTHING_PAID: PaidRank = (False, 0, 0, 0, 0)


def paid_rank(each: GroupVerdict) -> PaidRank:
    """Return what orders groups by what they paid: those that exceed a limit are the worst."""
    costs = each.costs
    return (
        bool(each.exceeded),
        costs.failed,
        costs.unavailable_member_ms,
        costs.rebalances,
        costs.moved,
    )


@dataclass(frozen=True, slots=True)
class Application:
    """An application by the verdicts on all its copies; usually it is one group."""

    name: str
    copies: Sequence[GroupVerdict]

    @property
    def worst(self) -> GroupVerdict:
        """The copy that exceeds a limit, or else the one that paid most."""
        return max(self.copies, key=paid_rank)

    @property
    def worst_copy(self) -> str:
        """The name of the worst of several copies; "" if none of them paid anything."""
        worst = self.worst
        is_one = len(self.copies) > 1 and paid_rank(worst) > NOTHING_PAID
        return worst.group.name if is_one else ""

    @property
    def kind(self) -> str:
        """What its members are."""
        group = self.copies[0].group
        return f"{group.protocol}, {'static' if group.static else 'dynamic'}"

    @property
    def costs(self) -> GroupCosts:
        """What all copies paid."""
        return together(each.costs for each in self.copies)

    def exceeded(self) -> Iterator[str]:
        """Yield a sentence for each limit that the worst copy exceeds, and count the others."""
        yield from (f"{self.worst.group.name}: {sentence}" for sentence in self.worst.exceeded)
        others = sum(bool(each.exceeded) for each in self.copies) - 1
        if others > 0:
            yield f"{self.name}: {others} more of its {len(self.copies)} copies exceed a limit."


def applications(groups: Sequence[GroupVerdict]) -> list[Application]:
    """Return the applications of these groups, in their order."""
    found: dict[str, list[GroupVerdict]] = {}
    for each in groups:
        found.setdefault(each.group.application, []).append(each)
    return [Application(name, copies) for name, copies in found.items()]


def together(several: Iterable[GroupCosts]) -> GroupCosts:
    """Return the costs of several groups as one: sums, and the most of what is no sum."""
    costs = [*several]
    causes: Counter[str] = Counter()
    for each in costs:
        causes.update(each.causes)
    return GroupCosts(
        members=sum(each.members for each in costs),
        generation=max((each.generation for each in costs), default=0),
        rebalances=sum(each.rebalances for each in costs),
        causes=dict(causes),
        unavailable_member_ms=sum(each.unavailable_member_ms for each in costs),
        moved=sum(each.moved for each in costs),
        unowned_ms=max((each.unowned_ms for each in costs), default=0),
        failed=sum(each.failed for each in costs),
        revoked=sum(each.revoked for each in costs),
        unowned_before=sum(each.unowned_before for each in costs),
        most=max((each.most for each in costs), default=0),
    )
