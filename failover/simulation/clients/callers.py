"""Clients that are no members: they call every served API, on any node, at any time.

Only they use the *spare* groups and topics: simple consumers commit there, and offsets, groups and
topics are deleted again. :data:`CALLS` has a row for every API that members do not send.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource

from failover.catalogue.cluster_view import BROKER, GROUP, TOPIC
from failover.catalogue.levels import ROLLCALL_VERSION, SUPPORTED
from failover.partition_kinds import SHARE_STATE
from failover.simulation.clients import share_calls
from failover.simulation.clients.administrator import AdminCall
from failover.simulation.clients.streams_calls import STREAMS_GROUPS, StreamsCalls
from failover.simulation.kinds import is_modern
from protocol.groups.share_state import parts as share_parts
from protocol.wire import apis
from protocol.wire import messages as m
from protocol.wire.admin_messages import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.wire.apis import Route
from protocol.wire.convert import blank
from protocol.wire.operations import UpgradeType
from protocol.wire.streams_messages import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Values
    from failover.simulation.clients.administrator import Administrator
    from failover.simulation.clients.members import Clients
    from failover.simulation.nodes.network import Network
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World

SPARE_GROUPS: Final = tuple(f"spare-{number}" for number in range(4))
SPARE_TOPICS: Final = tuple(f"spare-topic-{number}" for number in range(3))
SPARE_PARTITIONS: Final = 2
LEVELS: Final = range(SUPPORTED.highest + 1)
UNKNOWN: Final = "nobody"
"""Names of a group and a topic that never exist."""

TIMEOUT: Final = timedelta(seconds=5)
QUICKLY_MS: Final = 4_000
"""A change is often checked again within this time."""

STREAMS_HEARTBEAT: Final = 88
MEMBERS_SEND: Final = frozenset({3, 8, 9, 10, 11, 12, 13, 14, 68, 76, 88})
"""What the members of :mod:`protocol.members` send themselves; :data:`CALLS` may have them, too."""


class CallerContext(Protocol):
    """What callers know about the cluster (:mod:`failover.simulation.cluster`)."""

    world: World
    network: Network
    values: Values
    clients: Clients
    administrator: Administrator
    processes: list[Process]


class Callers:
    """Chooses random calls and sends them; the checkers get the answers."""

    def __init__(self, cluster: CallerContext) -> None:
        self.cluster = cluster
        self.rng = cluster.world.random("callers")
        self.streams = StreamsCalls(cluster.world.random("streams callers"), SPARE_TOPICS)

    def begin(self) -> None:
        """Create the topics, and commit for each group."""
        for name in SPARE_TOPICS[:-1]:
            self.cluster.administrator.create_topic(name, SPARE_PARTITIONS)

    def call(self) -> None:
        """Send a request of a random API, and perhaps check soon what it changed."""
        key = self.rng.choice(KEYS)
        self.ask(key)
        if self.rng.random() < 0.5:
            wait_ms = int(self.rng.random() * QUICKLY_MS)
            self.cluster.world.after(wait_ms, self.ask, self.rng.choice(KEYS))

    def ask(self, key: int, then: Callable[[Any], None] = lambda _: None) -> None:
        """Send a request of one API: requests for a group mostly to its leader."""
        message = CALLS[key](self)
        if key == STREAMS_HEARTBEAT:
            then = partial(self.streams.answered, message)
        self.send(key, message, then)

    def send(self, key: int, message: Entity, then: Callable[[Any], None] = lambda _: None) -> None:
        """Send a request to a node that may be able to answer."""
        world, network = self.cluster.world, self.cluster.network
        node_id = self.rng.randrange(len(network.processes))
        route = apis.API[key].route
        names: Sequence[str] = ()
        if route is Route.GROUP:
            names = (apis.group_id(message),)
        elif route is Route.GROUPS:
            names = apis.group_ids(key, message)
        if names and self.rng.random() < 0.9:
            node_id = network.processes[node_id].leader_known(names[0])
        elif route is Route.SHARE_STATE and self.rng.random() < 0.9:
            node_id = self._leading(message, node_id)
        AdminCall(world, network, node_id, then).send(message)

    def _leading(self, message: Any, otherwise: int) -> int:
        """Return a node that leads the share state in a request."""
        cut = share_parts.split(message, self.cluster.world.settings.partitions)
        numbers = [SHARE_STATE.number(index) for index, _ in cut]
        leading = (p.node_id for p in self.cluster.processes if p.leads(numbers[0]) is not None)
        return next(leading, otherwise)

    # --- random choices

    def spare(self) -> str:
        """Return a random spare group."""
        return self.rng.choice(SPARE_GROUPS)

    def group(self) -> str:
        """Return a random group, most often one that exists."""
        return self.rng.choice((*SPARE_GROUPS, *self.cluster.clients.group_ids, UNKNOWN))

    def groups(self) -> tuple[str, ...]:
        """Return one or several random groups."""
        return tuple(dict.fromkeys(self.group() for _ in range(self.rng.randint(1, 4))))

    def topic(self) -> str:
        """Return a random topic, most often one that exists."""
        return self.rng.choice((*SPARE_TOPICS, *self.cluster.clients.partitions_of, UNKNOWN))

    def index(self) -> int:
        """Return a random partition of a spare topic, rarely one that does not exist."""
        return self.rng.randrange(SPARE_PARTITIONS + (self.rng.random() < 0.1))

    def topic_id(self, name: str) -> Any:
        """Return the id of a topic as the first running node knows it, None if it does not."""
        for process in self.cluster.processes:
            if process.host is not None:
                topic = process.host.view.catalog.topics.by_name(name)
                return None if topic is None else topic.topic_id
        return None


# --- offsets of simple consumers


def offset_commit(callers: Callers) -> Entity:
    """Commit for a spare group, as a simple consumer does."""
    row = m.OffsetCommitRequestPartition(
        partition_index=callers.index(),
        committed_offset=callers.cluster.values.draw(),
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    name = callers.rng.choice(SPARE_TOPICS)
    topic = m.OffsetCommitRequestTopic(topic_id=None, name=name, partitions=(row,))
    return m.OffsetCommitRequest(
        group_id=callers.spare(),
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(topic,),
        retention_time=timedelta(milliseconds=-1),
    )


def offset_fetch(callers: Callers) -> Entity:
    """Read everything that some groups have committed."""
    return m.OffsetFetchRequest(
        groups=tuple(
            m.OffsetFetchRequestGroup(group_id=name, topics=None) for name in callers.groups()
        )
    )


def offset_delete(callers: Callers) -> Entity:
    """Delete an offset of a spare group, or try to delete one of a group with members."""
    rows = (m.OffsetDeleteRequestPartition(partition_index=callers.index()),)
    if callers.rng.random() < 0.2:
        group_id = callers.group()
        name = group_id
    else:
        group_id, name = callers.spare(), callers.rng.choice(SPARE_TOPICS)
    topic = m.OffsetDeleteRequestTopic(name=name, partitions=rows)
    return m.OffsetDeleteRequest(group_id=group_id, topics=(topic,))


# --- groups


def leave_group(callers: Callers) -> Entity:
    """Remove members as an administrator does: static ones by name, and one that does not exist."""
    group_ids = [each for each in callers.cluster.clients.group_ids if not is_modern(each)]
    group_id = callers.rng.choice(group_ids) if group_ids else UNKNOWN
    specs = [spec for spec in callers.cluster.clients.specs if spec.config.group_id == group_id]
    members = []
    for spec in callers.rng.sample(specs, min(len(specs), 3)):
        driver, instance_id = spec.driver, spec.config.instance_id
        if instance_id is not None:
            members.append(m.MemberIdentity(member_id="", group_instance_id=instance_id))
        elif driver is not None and callers.rng.random() < 0.5:
            member_id = driver.member.member_id or UNKNOWN
            members.append(m.MemberIdentity(member_id=member_id, group_instance_id=None))
    members.append(m.MemberIdentity(member_id=UNKNOWN, group_instance_id=None))
    return m.LeaveGroupRequest(group_id=group_id, members=tuple(members))


def heartbeat(callers: Callers) -> Entity:
    """Send a heartbeat for a member that does not exist."""
    return m.HeartbeatRequest(
        group_id=callers.group(), generation_id=1, member_id=UNKNOWN, group_instance_id=None
    )


def delete_groups(callers: Callers) -> Entity:
    """Delete spare groups, and one that never existed."""
    share = callers.rng.choice(share_calls.SHARE_GROUPS)
    share = share if callers.rng.random() < 0.2 else UNKNOWN
    names = dict.fromkeys((callers.spare(), callers.spare(), share, UNKNOWN))
    return m.DeleteGroupsRequest(groups_names=tuple(names))


def describe_groups(callers: Callers) -> Entity:
    """Describe groups."""
    return m.DescribeGroupsRequest(groups=callers.groups(), include_authorized_operations=False)


def consumer_group_describe(callers: Callers) -> Entity:
    """Describe consumer groups, including groups of another type."""
    return m.ConsumerGroupDescribeRequest(
        group_ids=callers.groups(), include_authorized_operations=False
    )


def streams_group_heartbeat(callers: Callers) -> Entity:
    """Heartbeat as a member of a streams group."""
    return callers.streams.heartbeat()


def streams_group_describe(callers: Callers) -> Entity:
    """Describe streams groups, including groups of another type."""
    groups = dict.fromkeys((*STREAMS_GROUPS, callers.group()))
    return StreamsGroupDescribeRequest(group_ids=tuple(groups), include_authorized_operations=False)


def list_groups(callers: Callers) -> Entity:
    """List the groups of a node."""
    states = callers.rng.choice(((), ("Stable",), ("Empty",)))
    return m.ListGroupsRequest(states_filter=states, types_filter=())


# --- nodes and topics


def metadata(callers: Callers) -> Entity:
    """Ask for one topic, or for all."""
    topics = (m.MetadataRequestTopic(topic_id=None, name=callers.topic()),)
    return blank(
        m.MetadataRequest,
        topics=None if callers.rng.random() < 0.5 else topics,
        allow_auto_topic_creation=False,
    )


def find_coordinator(callers: Callers) -> Entity:
    """Ask for the coordinators of groups."""
    return m.FindCoordinatorRequest(key_type=0, coordinator_keys=callers.groups())


def fetch(callers: Callers) -> Entity:
    """Fetch records of a topic: there are none."""
    row = blank(m.FetchPartition, partition=callers.index(), partition_max_bytes=1 << 20)
    topic = callers.topic_id(callers.topic())
    return blank(
        m.FetchRequest,
        max_wait=timedelta(milliseconds=callers.rng.randint(0, 500)),
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=(blank(m.FetchTopic, topic_id=topic, partitions=(row,)),),
    )


def list_offsets(callers: Callers) -> Entity:
    """Ask for the newest offset of a partition."""
    row = m.ListOffsetsPartition(
        partition_index=callers.index(), current_leader_epoch=-1, timestamp=-1
    )
    topic = m.ListOffsetsTopic(name=callers.topic(), partitions=(row,))
    return blank(m.ListOffsetsRequest, topics=(topic,))


def offset_for_leader_epoch(callers: Callers) -> Entity:
    """Ask where a leader epoch ends."""
    row = m.OffsetForLeaderPartition(
        partition=callers.index(), current_leader_epoch=-1, leader_epoch=0
    )
    topic = m.OffsetForLeaderTopic(topic=callers.topic(), partitions=(row,))
    return blank(m.OffsetForLeaderEpochRequest, topics=(topic,))


def api_versions(_callers: Callers) -> Entity:
    """Ask which APIs are served."""
    return m.ApiVersionsRequest(client_software_name="callers", client_software_version="1")


def describe_cluster(_callers: Callers) -> Entity:
    """Ask which nodes there are."""
    return blank(m.DescribeClusterRequest, endpoint_type=1)


def describe_topic_partitions(callers: Callers) -> Entity:
    """Describe a topic's partitions, a few at a time."""
    return m.DescribeTopicPartitionsRequest(
        topics=(m.TopicRequest(name=callers.topic()),), response_partition_limit=3, cursor=None
    )


# --- topics and configs that change


def create_topics(callers: Callers) -> Entity:
    """Create a spare topic."""
    topic = m.CreatableTopic(
        name=callers.rng.choice(SPARE_TOPICS),
        num_partitions=SPARE_PARTITIONS,
        replication_factor=-1,
        assignments=(),
        configs=(),
    )
    return blank(m.CreateTopicsRequest, topics=(topic,), timeout=TIMEOUT)


def create_partitions(callers: Callers) -> Entity:
    """Add partitions to a spare topic."""
    name, count = callers.rng.choice(SPARE_TOPICS), SPARE_PARTITIONS + callers.rng.randint(0, 3)
    topic = m.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return m.CreatePartitionsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def delete_topics(callers: Callers) -> Entity:
    """Delete the last spare topic: its committed offsets go as well."""
    name = SPARE_TOPICS[-1]
    callers.cluster.values.topic_deleted(name)
    topic = m.DeleteTopicState(name=name, topic_id=None)
    return m.DeleteTopicsRequest(topics=(topic,), timeout=TIMEOUT)


def describe_configs(callers: Callers) -> Entity:
    """Describe configs of a topic, a group or all nodes."""
    kind, name = callers.rng.choice(((TOPIC, callers.topic()), (GROUP, callers.group()), (4, "")))
    resource = m.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return blank(m.DescribeConfigsRequest, resources=(resource,))


def incremental_alter_configs(callers: Callers) -> Entity:
    """Set a config that has no effect on members: of a topic, or of all nodes."""
    rng = callers.rng
    kind, name, config, value = rng.choice(
        (
            (TOPIC, rng.choice(SPARE_TOPICS), "retention.ms", str(rng.randint(1, 9) * 100_000)),
            (BROKER, "", "offset.metadata.max.bytes", str(rng.randint(4_000, 5_000))),
        )
    )
    change = m.AlterableConfig(name=config, config_operation=rng.choice((0, 0, 1)), value=value)
    resource = m.AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))
    return m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def alter_configs(callers: Callers) -> Entity:
    """Set all configs of a spare topic, or of all nodes, at once."""
    rng = callers.rng
    value = str(rng.randint(1, 9) * 100_000)
    change = blank(AlterableConfig, name="retention.ms", value=value)
    name = rng.choice(SPARE_TOPICS)
    resource = blank(
        AlterConfigsResource, resource_type=TOPIC, resource_name=name, configs=(change,)
    )
    return blank(apis.API[33].request, resources=(resource,))


def list_config_resources(_callers: Callers) -> Entity:
    """List the resources that have configs."""
    return m.ListConfigResourcesRequest(resource_types=())


def update_features(callers: Callers) -> Entity:
    """Raise or lower the finalized level, or only ask whether that can be done."""
    rng = callers.rng
    update = FeatureUpdateKey(
        feature=ROLLCALL_VERSION,
        max_version_level=rng.choice((*LEVELS, max(LEVELS) + 1)),
        upgrade_type=rng.choice(list(UpgradeType)),
    )
    is_question = rng.random() < 0.5
    return UpdateFeaturesRequest(
        timeout=TIMEOUT, feature_updates=(update,), validate_only=is_question
    )


NOT_DONE_HERE: Final = tuple(key for key, api in apis.API.items() if api.is_switched_off)


def _blank_of(key: int) -> Callable[[Callers], Entity]:
    return lambda _callers: blank(apis.API[key].request)


CALLS: Final[Mapping[int, Callable[[Callers], Entity]]] = {
    1: fetch,
    2: list_offsets,
    3: metadata,
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    12: heartbeat,
    13: leave_group,
    15: describe_groups,
    16: list_groups,
    18: api_versions,
    19: create_topics,
    20: delete_topics,
    33: alter_configs,
    **{key: _blank_of(key) for key in NOT_DONE_HERE},
    23: offset_for_leader_epoch,
    32: describe_configs,
    37: create_partitions,
    42: delete_groups,
    44: incremental_alter_configs,
    47: offset_delete,
    57: update_features,
    60: describe_cluster,
    69: consumer_group_describe,
    74: list_config_resources,
    75: describe_topic_partitions,
    STREAMS_HEARTBEAT: streams_group_heartbeat,
    89: streams_group_describe,
    **share_calls.CALLS,
}
"""One request of each API. Requests that change groups or offsets are chosen more often."""

OFTEN: Final = (
    *((8,) * 8),
    *(9, 9, 13, 15, 15, 16, 42, 42, 42, 42, 44, 47, 47, 47, 47, 69, 69),
    *((STREAMS_HEARTBEAT,) * 8),
    *(89, 89),
    *share_calls.OFTEN,
)
KEYS: Final = (*CALLS, *(key for key in CALLS if key not in NOT_DONE_HERE), *OFTEN)
"""The keys of :data:`CALLS`, for random choices."""
