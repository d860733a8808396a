"""Feature levels: which records and files may be written, by the finalized ``rollcall.version``.

Programs of several versions may be in one cluster, so a newer one must not write what an older one
cannot read. What is written therefore depends on the level that the catalogue has finalized
(KIP-584), which UpdateFeatures raises once all nodes support it. To change a record or a file: add
a level with the new version, and write it only if the catalogue's level permits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from failover.partition_kinds import CATALOG, GROUPS, SHARE_STATE
from storage.log import ForeignLogError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLLCALL_VERSION: Final = "rollcall.version"
"""Name of the feature whose levels these are; it corresponds to Kafka's ``metadata.version``."""


class LevelRange(NamedTuple):
    """The lowest and the highest level that a program supports."""

    lowest: int
    highest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.lowest <= level <= self.highest

    def __str__(self) -> str:
        lowest, highest = self
        return str(lowest) if lowest == highest else f"{lowest}-{highest}"


class UnsupportedLevelError(ForeignLogError):
    """The finalized level is none that this program supports, so that it may not serve."""

    def __init__(self, level: int) -> None:
        super().__init__(
            f"The cluster's {ROLLCALL_VERSION} is finalized at level {level}, and this version of "
            f"Rollcall supports {SUPPORTED}: install the version that the other hosts have."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One row: everything that may be written at a level.

    ``records`` has the newest version of the value of each record type, by the kind of partition
    (:mod:`failover.partition_kinds`) and the type's number. ``files`` has the format of each file.
    """

    records: Mapping[tuple[str, int], int]
    files: Mapping[str, int]


_OFFSET_COMMIT, _GROUP_METADATA = 1, 2
_CONSUMER = (3, 4, 5, 6, 7, 8, 16)
_SHARE = (10, 11, 12, 13, 14, 15)
_STREAMS = (17, 19, 20, 21, 22, 23)
_RECORDS: Final[Mapping[tuple[str, int], int]] = MappingProxyType(
    {
        (GROUPS.name, _OFFSET_COMMIT): 4,
        (GROUPS.name, _GROUP_METADATA): 3,
        **{(GROUPS.name, number): 0 for number in (*_CONSUMER, *_SHARE, *_STREAMS)},
        **{(SHARE_STATE.name, number): 0 for number in (0, 1)},
        **{(CATALOG.name, number): 0 for number in (100, 101, 102, 103, 104)},
    }
)
_FILES: Final = MappingProxyType({"cluster.json": 3, "meta.properties": 2, "manifest.json": 1})

LEVELS: Final = (
    Level(records=_RECORDS, files=_FILES),  # before there were levels
    Level(records=_RECORDS, files=_FILES),  # every program knows levels, and checks them
)
"""By number."""

SUPPORTED: Final = LevelRange(0, len(LEVELS) - 1)
"""The levels that this program supports."""

NOT_TOLD: Final = LevelRange(0, 0)
"""The levels of a node that has told none: its program is older than the levels."""


def lost_below(level: int, target: int) -> list[str]:
    """Return what may be in use at ``level`` and is not known at ``target``, which is lower."""
    upper, lower = LEVELS[level], LEVELS[target]
    records = [
        f"version {version} of record type {number} of the {kind}"
        for (kind, number), version in upper.records.items()
        if lower.records.get((kind, number), -1) < version
    ]
    files = [
        f"format {version} of {name}"
        for name, version in upper.files.items()
        if lower.files.get(name, -1) < version
    ]
    return records + files


def check(level: int) -> None:
    """Raise UnsupportedLevelError if this program may not serve a cluster at ``level``."""
    if level not in SUPPORTED:
        raise UnsupportedLevelError(level)
