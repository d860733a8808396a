"""The hard state of a group, as code for groups of any type sees it."""

from __future__ import annotations

from typing import ClassVar, Protocol


class HardGroup(Protocol):
    """The hard state of a group, whatever its type."""

    type_name: ClassVar[str]
    """The name of the group's :class:`~protocol.groups.group_type.GroupType`."""

    @property
    def has_members(self) -> bool:
        """Whether the log has members of the group."""
