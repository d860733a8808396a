"""What a leader derives from topics and configs for a streams group, before each group epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups import settings as group_settings
from protocol.groups.effects import TaskSettings
from protocol.groups.facts import TopicsCause
from protocol.groups.streams.configured import configure
from protocol.groups.streams.warming.warmups import note_settings

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.groups.streams.topology import StreamsTopology

STANDBY_REPLICAS = "streams.num.standby.replicas"
RACK_TAGS = "streams.rack.aware.assignment.tags"


def prepare(ctx: Context, runtime: ModernGroupRuntime) -> TopicsCause | None:
    """Configure the topology and read the configs; return why these need a new epoch, if so."""
    group: Any = runtime.group
    topology = group.topology
    if topology is None:
        return None
    configured = configured_topology(ctx, group, topology)
    if group.configured is not configured:
        group.configured, group.configured_of = configured, (topology, ctx.topics)
        runtime.own.endpoints.clear()
    standby_replicas = group_settings.integer(ctx, group.group_id, STANDBY_REPLICAS)
    rack_tags = group_settings.strings(ctx, group.group_id, RACK_TAGS)
    group.assignment_configs = {"num.standby.replicas": str(standby_replicas)}
    if rack_tags:
        group.assignment_configs["rack.aware.assignment.tags"] = ",".join(rack_tags)
    rows = tuple(configured.rows.values()) if configured.is_ready and configured.rows else ()
    group.settings = TaskSettings(rows, standby_replicas, rack_tags)
    note_settings(ctx, runtime)
    validated = configured.epoch if configured.is_ready else -1
    if validated != group.validated_topology_epoch:
        is_ready = configured.is_ready
        return TopicsCause.TOPOLOGY_READY if is_ready else TopicsCause.TOPOLOGY_NOT_READY
    is_other = group.assignment_configs != group.last_assignment_configs
    return TopicsCause.CONFIGS_CHANGED if is_other else None


def configured_topology(
    ctx: Context, group: Any | None, topology: StreamsTopology
) -> ConfiguredTopology:
    """Return a topology configured with the present topics; the group's own if it is the same."""
    if group is not None and group.configured_of is not None:
        of_topology, of_topics = group.configured_of
        if of_topology is topology and of_topics is ctx.topics:
            configured: ConfiguredTopology = group.configured
            return configured
    return configure(topology, ctx.topics)
