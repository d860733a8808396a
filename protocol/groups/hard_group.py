"""The hard state of a group, as code for groups of any type sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.static.protocol import Entity


class HardGroup(Protocol):
    """The hard state of a group, whatever its type."""

    type_name: ClassVar[str]
    """The name of the group's :class:`~protocol.groups.group_type.GroupType`."""

    @property
    def has_members(self) -> bool:
        """Whether the log has members of the group."""

    @property
    def is_logged(self) -> bool:
        """Whether the log has records of the group itself, and not only committed offsets."""

    def record_keys(self, group_id: str) -> Iterable[Entity]:
        """Return the keys of all records of the group itself; the last one's removes it."""
