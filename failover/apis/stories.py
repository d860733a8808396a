"""The history of a group's rebalances, as a config of the group that is only read.

DescribeConfigs of a group has the entry only if it is asked for by its name, so no tool that lists
configs meets it. Its value is JSON: what this node remembers, and from when on. Every node answers
with what it knows itself; ``rollcall explain`` asks all of them (``docs/explain.md``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from failover.catalogue.config_entries import ConfigSource
from failover.partition_kinds import GROUPS
from failover.routing import partition_for
from protocol.config_rows import ConfigType
from protocol.wire.messages import DescribeConfigsResourceResult

if TYPE_CHECKING:
    from failover.catalogue.cluster_view import ClusterView

STORIES: Final = "rollcall.rebalances"
"""The name of the entry."""

TEXT_BYTES_MAX: Final = 32_000
"""The most bytes of a value before version 4 of DescribeConfigs, whose strings are short."""

LONG_BYTES_MAX: Final = 1 << 20
"""The same from version 4 on."""

LONG_SINCE: Final = 4
HEAD_BYTES: Final = 200


def stories_entry(
    view: ClusterView, group_id: str, api_version: int
) -> DescribeConfigsResourceResult:
    """Return what this node remembers of a group: the newest stories that fit, the oldest first."""
    known = view.history.of_group(group_id)
    room = (LONG_BYTES_MAX if api_version >= LONG_SINCE else TEXT_BYTES_MAX) - HEAD_BYTES
    kept: list[bytes] = []
    for entry in reversed(known.entries):
        room -= len(entry.data) + 1
        if room < 0:
            break
        kept.append(entry.data)
    count = view.configs.integer("offsets.topic.num.partitions")
    number = GROUPS.number(partition_for(group_id, count))
    head = {
        "node_id": view.node_id,
        "is_leader": view.leaders.get(number) == view.node_id,
        "since_ms": known.since_ms,
        "dropped": known.dropped + len(known.entries) - len(kept),
    }
    stories = b",".join(reversed(kept)).decode("utf-8", "replace")
    return DescribeConfigsResourceResult(
        name=STORIES,
        value=f'{json.dumps(head)[:-1]}, "stories": [{stories}]}}',
        read_only=True,
        config_source=ConfigSource.GROUP,
        is_sensitive=False,
        synonyms=(),
        config_type=ConfigType.STRING,
        documentation="The group's last rebalances, as this node knows them: see rollcall explain.",
    )
