"""Replays of streams groups: those of all modern groups, and their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.modern.replay import Replays
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.topology import StreamsTopology
from protocol.records import StreamsGroupTopologyKey
from protocol.tables import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context


class StreamsReplays(Replays[StreamsGroup]):
    """The replays that all modern types share; a group's epoch has more fields."""

    def epoch(self, ctx: Context, key: Any, value: Any) -> None:
        """Apply a group epoch, its validated topology and its configs."""
        Replays.epoch(self, ctx, key, value)
        if value is not None:
            group = self.found(ctx, key.group_id)
            group.validated_topology_epoch = value.validated_topology_epoch
            configs = value.last_assignment_configs or ()
            group.last_assignment_configs = {each.key: each.value for each in configs}


GROUPS: Final = StreamsReplays(StreamsGroup)
"""Finds the group of a record."""


def replay_topology(ctx: Context, key: StreamsGroupTopologyKey, value: Any) -> None:
    """Apply a group's topology."""
    if value is not None:
        GROUPS.found(ctx, key.group_id).put_topology(StreamsTopology.of(value))
        return
    group = GROUPS.find(ctx, key.group_id)
    if group is not None:
        group.put_topology(None)


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = merged(
    GROUPS.table(), {StreamsGroupTopologyKey: replay_topology}
)
