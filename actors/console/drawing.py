"""What the pictures of a group show, as rectangles: who owns what, and the steps of a rebalance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.stories.sentence import named, seconds
from protocol.stories.story import StoryOutcome, Wait

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from actors.console.source import GroupDetail, Member
    from protocol.stories.story import Move, RebalanceStory

MEMBERS_DRAWN: Final = 40
UNITS_DRAWN: Final = 400
"""Rows and columns of the picture of ownership; further ones are counted."""

CELL: Final = 15
CELL_MIN: Final = 3
WIDTH: Final = 960
LABEL_MAX: Final = 32

STEPS: Final[Sequence[tuple[Wait | str, str]]] = (
    (Wait.INITIAL, "initial delay"),
    (Wait.EXPECTED, "expected members join"),
    (Wait.JOIN, "members join"),
    (Wait.INTERVAL, "assignment interval"),
    ("queue", "queue"),
    ("compute", "assignor"),
    (Wait.ASSIGNMENT, "the leader assigns"),
    (Wait.TARGET, "until the target is written"),
    (Wait.RECONCILE, "members take over"),
)
"""The steps of a rebalance in their order, and their names."""

ASSIGNED: Final = frozenset({StoryOutcome.STABLE, StoryOutcome.UNDER_WAY})
"""Outcomes with a new assignment."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A rectangle: ``kind`` is owned, moved (it came last), left (it went last) or nobody."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    """A text of the picture, and how much room there is for it."""

    x: int
    y: int
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class LastMoves:
    """What moved in the last rebalance that moved anything: the first moves, and how many more.

    ``is_unknown``: a later rebalance may have moved something, and nobody knows what.
    """

    by_unit: Mapping[str, Move]
    more: int = 0
    is_unknown: bool = False

    @property
    def count(self) -> int:
        """How many moves there were."""
        return len(self.by_unit) + self.more


@dataclass(frozen=True, slots=True)
class Ownership:
    """The picture of who owns what: members are its rows, partitions or tasks its columns."""

    width: int
    height: int
    cells: Sequence[Cell]
    rows: Sequence[Label]
    columns: Sequence[Label]
    hidden_members: int
    hidden_units: int
    moves: LastMoves


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """A part of a rebalance; begin and length are in thousandths of the picture's width."""

    name: str
    kind: str
    begin: int
    length: int
    took: str
    who: str = ""


def member_name(member: Member) -> str:
    """Return the name under which stories know a member that no other one is named like."""
    return member.instance_id or member.client_id or member.member_id


def by_number(unit: str) -> tuple[str, int]:
    """Return a key that sorts ``orders-2`` before ``orders-10``."""
    at = max(unit.rfind("-"), unit.rfind("_"))
    number = unit[at + 1 :]
    return (unit[:at], int(number[:18])) if at >= 0 and number.isdecimal() else (unit, -1)


def last_moves(stories: Sequence[RebalanceStory]) -> LastMoves:
    """Return what moved in the last rebalance that moved anything."""
    for story in reversed(stories):
        if story.moves or story.more_moves:
            moves = {each.unit: each for each in story.moves}
            return LastMoves(moves, len(story.moves) - len(moves) + story.more_moves)
        if story.moved is None and story.outcome in ASSIGNED:
            return LastMoves({}, is_unknown=True)
    return LastMoves({})


def ownership(group: GroupDetail) -> Ownership | None:
    """Return the picture of a group; None if nothing is to be owned."""
    owners: dict[str, list[Member]] = {}
    for member in group.members:
        for unit in member.owned:
            owners.setdefault(unit, []).append(member)
    units = sorted({*group.units, *owners}, key=by_number)
    if not units:
        return None
    last = last_moves(group.stories)
    moves = last.by_unit
    members = _in_order(group.members, moves)
    held = {unit for member in members[:MEMBERS_DRAWN] for unit in member.owned}
    shown_units = _units_shown(units, moves, held)
    rows = {member.member_id: at for at, member in enumerate(members[:MEMBERS_DRAWN])}
    names: dict[str, list[str]] = {}
    for member in group.members:
        names.setdefault(member_name(member), []).append(member.member_id)
        names.setdefault(member.member_id, []).append(member.member_id)
    cell = min(max(WIDTH // len(shown_units), CELL_MIN), CELL)
    drawn = list(_Grid(shown_units, owners, moves, rows, names, cell).cells())
    has_nobody = any(each.kind == "nobody" for each in drawn)
    labels = [Label(0, at * CELL, _short(members[at]), _long(members[at])) for at in rows.values()]
    if has_nobody:
        labels.append(Label(0, len(rows) * CELL, "nobody"))
    return Ownership(
        width=cell * len(shown_units),
        height=CELL * len(labels),
        cells=drawn,
        rows=labels,
        columns=list(_columns(shown_units, cell)),
        hidden_members=len(members) - len(rows),
        hidden_units=len(units) - len(shown_units),
        moves=last,
    )


def _in_order(members: Sequence[Member], moves: Mapping[str, Move]) -> list[Member]:
    """Return members by name; of many, those to whom something moved come first."""
    if len(members) <= MEMBERS_DRAWN:
        return sorted(members, key=lambda each: (member_name(each), each.member_id))
    touched = {name for move in moves.values() for name in (move.before, move.after) if name}

    def key(member: Member) -> tuple[bool, str, str]:
        is_touched = member.member_id in touched or member_name(member) in touched
        return (not is_touched, member_name(member), member.member_id)

    return sorted(members, key=key)


def _units_shown(
    units: Sequence[str], moves: Mapping[str, Move], held: Collection[str]
) -> Sequence[str]:
    """Return what is drawn: of too many those that moved, then what members have that are drawn."""
    if len(units) <= UNITS_DRAWN:
        return units
    first = sorted(units, key=lambda each: (each not in moves, each not in held, by_number(each)))
    return sorted(first[:UNITS_DRAWN], key=by_number)


@dataclass(frozen=True, slots=True)
class _Grid:
    """What the rectangles are made of; ``rows`` are those of members, by their ids."""

    units: Sequence[str]
    owners: Mapping[str, Sequence[Member]]
    moves: Mapping[str, Move]
    rows: Mapping[str, int]
    names: Mapping[str, Sequence[str]]
    cell: int

    def cells(self) -> Iterator[Cell]:
        size = (max(self.cell - 1, 2), CELL - 2)
        for column, unit in enumerate(self.units):
            x, move = column * self.cell, self.moves.get(unit)
            for member in self.owners.get(unit, ()):
                if member.member_id in self.rows:
                    came = "" if move is None else f", it came from {_owner(move.before)}"
                    title = f"{named(unit)}: {named(member_name(member))}{came}"
                    y = self.rows[member.member_id] * CELL
                    yield Cell(x, y, *size, "owned" if move is None else "moved", title)
            if not self.owners.get(unit):
                yield Cell(x, len(self.rows) * CELL, *size, "nobody", f"{named(unit)}: nobody")
            left = None if move is None else self._left(unit, move)
            if left is not None and move is not None:
                title = f"{named(unit)}: went from {_owner(move.before)} to {_owner(move.after)}"
                yield Cell(x, left * CELL, *size, "left", title)

    def _left(self, unit: str, move: Move) -> int | None:
        """Return the row of the member that a partition went from; None if there is no such row."""
        before = self.names.get(move.before, ())
        if len(before) != 1 or any(each.member_id in before for each in self.owners.get(unit, ())):
            return None
        return self.rows.get(before[0])


def _columns(units: Sequence[str], cell: int) -> Iterator[Label]:
    """Return the name of each topic where its first partition is."""
    before, free_from = "", 0
    for column, unit in enumerate(units):
        topic = by_number(unit)[0]
        if topic != before and column * cell >= free_from:
            text = _cut(topic)
            yield Label(column * cell, 0, text, named(topic))
            free_from = column * cell + 7 * len(text)
        before = topic


def steps(story: RebalanceStory) -> list[WaterfallStep]:
    """Return the steps of a rebalance, and as the last ones what nobody served meanwhile."""
    found: list[tuple[str, str, int, int, str]] = []
    waits = {each.what: each for each in story.waits}
    at_ms = 0
    for key, name in STEPS:
        who = ""
        if isinstance(key, Wait):
            wait = waits.get(key)
            took_ms = 0 if wait is None else wait.wait_ms
            if wait is not None and wait.who:
                more = len(wait.who) - 1 + wait.more
                who = named(wait.who[0].name) + (f" and {more} more" if more else "")
        else:
            took_ms = round((story.queue_ms if key == "queue" else story.assignor_ms) or 0)
        if took_ms > 0:
            found.append((name, str(key), at_ms, took_ms, who))
            at_ms += took_ms
    whole_ms = max(story.took_ms, at_ms, 1)
    if 0 < at_ms < story.took_ms:
        found.append(("the rest", "rest", at_ms, story.took_ms - at_ms, ""))
    for each in story.unserved:
        begin_ms = whole_ms - each.unserved_ms
        who = f"{each.count} of {named(each.who.name)}"
        found.append(("served by nobody", "unserved", begin_ms, each.unserved_ms, who))
    first_ms = min(0, *(begin_ms for _, _, begin_ms, _, _ in found), 0)
    per_ms = 1_000 / (whole_ms - first_ms)
    return [
        WaterfallStep(name, kind, round((begin - first_ms) * per_ms), max(round(took * per_ms), 2),
             seconds(took), who)
        for name, kind, begin, took, who in found
    ]  # fmt: skip


def _owner(name: str) -> str:
    return named(name) if name else "nobody"


def _short(member: Member) -> str:
    return _cut(member_name(member))


def _long(member: Member) -> str:
    return f"{named(member_name(member))}, {named(member.member_id)}"


def _cut(text: str) -> str:
    text = named(text)
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
