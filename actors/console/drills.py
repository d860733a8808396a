"""The drills that the console offers: a row each, with what its page says and when it is offered.

:mod:`actors.deployment.drills` carries them out; names are the same there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.console.source import ShownNode, ShownPartition

RUNNING: Final = "Running"
DRAINING: Final = "Draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDrill:
    """A drill. ``states`` are those of nodes to which it is offered; none: it is of a partition."""

    name: str
    link: str
    title: str
    effect: str
    button: str
    states: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillLink:
    """A link to the page of a drill; ``about`` says the same to those who hear only the link."""

    address: str
    text: str
    about: str


ROWS: Final = (
    OfferedDrill(
        name="drain",
        link="Drain…",
        title="Drain a coordinator",
        effect="It hands all that it leads to others, and leads nothing until the drain ends or it"
        " is started again. Groups stay as they are; some clients look for their coordinator.",
        button="Drain it",
        states=frozenset({RUNNING}),
    ),
    OfferedDrill(
        name="end-drain",
        link="End drain…",
        title="End a drain",
        effect="It may lead again. What it led comes back later, when the balance asks for it.",
        button="End the drain",
        states=frozenset({DRAINING}),
    ),
    OfferedDrill(
        name="kill",
        link="Kill…",
        title="Kill a coordinator",
        effect="Its process ends at once, as by kill -9: others take over what it leads, and Ray"
        " starts it again. It is refused if a partition would lose its majority.",
        button="Kill it",
        states=frozenset({RUNNING, DRAINING}),
    ),
    OfferedDrill(
        name="move-leader",
        link="Move…",
        title="Move a leader",
        effect="A replica in sync leads from now on. One that holds no groups may soon go back to"
        " the node that it prefers.",
        button="Move it",
    ),
)
DRILLS: Final = {each.name: each for each in ROWS}


def targets(partition: ShownPartition) -> list[int]:
    """Return the nodes that could lead a partition instead."""
    if partition.leader is None or partition.number is None:
        return []
    return [node for node in partition.in_sync if node != partition.leader]


def links_of_node(node: ShownNode) -> Sequence[DrillLink]:
    """Return the drills that are offered for a node in its state."""
    return [
        _link(each, node.node_id, f"coordinator {node.node_id}")
        for each in ROWS
        if node.state in each.states
    ]


def links_of_partition(partition: ShownPartition) -> Sequence[DrillLink]:
    """Return the drills that are offered for a partition."""
    if partition.number is None or not targets(partition):
        return []
    return [_link(each, partition.number, partition.title) for each in ROWS if not each.states]


def _link(drill: OfferedDrill, of: int, subject: str) -> DrillLink:
    return DrillLink(
        address=f"/drill?do={drill.name}&of={of}",
        text=drill.link,
        about=f"{drill.link.removesuffix('…')} {subject}",
    )
