"""``docs/how-to/plan-a-fleet.md``: in which types of group each config has an effect."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from protocol.groups.classic.spares import ASSIGNORS
from protocol.groups.consumer import group as consumer
from protocol.groups.fleet import expected, retention, spares
from protocol.groups.share import group as share
from protocol.groups.streams import group as streams

KINDS: Final = (consumer.KIND, share.KIND, streams.KIND)
TEXT: Final = (Path(__file__).parents[4] / "docs" / "how-to" / "plan-a-fleet.md").read_text()


def row(config: str) -> list[str]:
    """The cells of a config: of classic, consumer, share and streams groups."""
    rows = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| ")]
    (found,) = (cells for cells in rows if cells[0].strip() == f"`{config}`" and len(cells) == 5)
    return [cell.strip() for cell in found[1:]]


def told(traits: list[bool]) -> list[str]:
    return ["yes" if each else "-" for each in traits]


def test_groups_with_static_members_can_expect_them() -> None:
    assert row(expected.IDS) == ["yes", *told([each.has_static_members for each in KINDS])]


def test_the_spares_of_a_classic_group_need_an_assignor_of_kafkas() -> None:
    assert row(spares.ACTIVE_MEMBERS) == ["with Kafka's own assignors", *["yes"] * 3]
    assert ", ".join(f"`{each}`" for each in ASSIGNORS) in TEXT


def test_some_groups_keep_assignments() -> None:
    assert row(retention.RETENTION_MS) == ["-", *told([each.keeps_assignments for each in KINDS])]
