"""A coordinator registers itself, with its levels, also where an older version leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.coordinator.registration import Registration
from failover.catalogue.cluster_view import Node
from failover.catalogue.levels import SUPPORTED

OLDER = [Node(number, f"host{number}", 9092) for number in range(2)]
ME, OTHER = (node.with_levels(SUPPORTED) for node in OLDER)


def is_missing(controller_id: int, *shown: Node) -> bool:
    catalog = SimpleNamespace(nodes={node.node_id: node for node in shown})
    host: Any = SimpleNamespace(view=SimpleNamespace(catalog=catalog, controller_id=controller_id))
    control_plane: Any = SimpleNamespace()
    return Registration(ME, control_plane, lambda: host, lambda _: None).is_missing


@pytest.mark.parametrize(
    "leader, shown, missing",
    [
        (1, (OTHER,), True),
        (1, (OTHER, ME), False),
        (1, (OTHER, OLDER[0]), True),  # it was registered by an older version of itself
        (1, (OLDER[1], ME), False),
        (1, (OLDER[1], OLDER[0]), False),  # an older version leads, and writes no levels
        (1, (OLDER[1],), True),
        (1, (OLDER[1], Node(0, "elsewhere", 9092)), True),
        (0, (OTHER, OLDER[0]), True),  # it leads itself, and can write them
        (-1, (OTHER, OLDER[0]), True),
    ],
)
def test_it_is_registered_once_the_catalogue_shows_it_as_well_as_its_leader_can(
    leader: int, shown: tuple[Node, ...], missing: bool
) -> None:
    assert is_missing(leader, *shown) is missing
