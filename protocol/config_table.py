"""Every config that a coordinator knows, one row each: Kafka's broker and group configs, and ours.

Those of share groups are in ``config_share``. Names, types, defaults and bounds are those of Kafka
4.3.1, or of 4.4.0 for what that adds; a default of our own is marked.
"""

from __future__ import annotations

from typing import Final

from protocol.config_rows import (
    HIGH,
    INT_MAX,
    KAFKAS_ASSIGNORS,
    LOW,
    ConfigRow,
    ConfigType,
    table,
    without_effect,
)
from protocol.config_rows import flag_row as _flag
from protocol.config_rows import int_row as _int
from protocol.config_rows import text_row as _text
from protocol.config_share import SHARE, SHARE_UNUSED

OFFSET_RESET: Final = (
    r"(?i)latest|earliest|by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d{1,9})?S)?)?"
)
"""A name, or a non-negative ISO 8601 duration in days, hours, minutes and seconds."""

HOST_NAME: Final = r"[0-9A-Za-z_-]{1,63}(\.[0-9A-Za-z_-]{1,63})*\.?"

_CLUSTER = (
    _text(
        "log.flush",
        "majority",
        "When a write is acknowledged: 'majority' once a majority of replicas has written and"
        " synced it, 'os' once it is written but not synced, as Kafka does.",
        choices=("majority", "os"),
        importance=HIGH,
    ),
    _int("replica.heartbeat.interval.ms", 50, 1,
         "How often a leader sends heartbeats to its standbys."),
    _int("replica.lease.ms", 150, 1,
         "How long a leader may respond without hearing from a majority; no other leader"
         " can be elected before that."),
    _int("replica.election.timeout.ms", 1000, 1,
         "How long a standby waits for a silent leader before it stands for election: between this"
         " and twice this. A broken connection is noticed at once and does not wait."),
    _int("replica.replace.after.ms", 600_000, 0,
         "How long the host of a coordinator may be away before the coordinator starts, empty, on"
         " another host. 0: it waits for its host."),
    _flag("auto.leader.rebalance.enable", True,
          "Move leadership back to preferred nodes for balance. Some clients rebalance on a move.",
          importance=HIGH),
    ConfigRow(
        name="leader.imbalance.check.interval.seconds",
        type=ConfigType.LONG,
        default=300,
        low=1,
        doc="How long all replicas must be in sync before leadership is moved for balance.",
        importance=HIGH,
    ),
    ConfigRow(
        name="cluster.secret",
        type=ConfigType.PASSWORD,
        default="",
        doc=(
            "The secret by which coordinators authenticate to each other; generated at the"
            " first start."
        ),
    ),
    _int("event.loop.watch.interval.ms", 0, 0,
         "How often a coordinator measures how long its event loop was blocked, for the"
         " metrics event-loop-held-time-ms-*; 0 is never. Each measurement costs about 10"
         " microseconds."),
    ConfigRow(
        name="incident.recording.max.bytes",
        type=ConfigType.LONG,
        default=0,
        low=0,
        high=1 << 30,
        doc=(
            "How many bytes of recent group events a coordinator keeps. They are written to a"
            " file when a handler raises, and by rollcall record; 0 keeps nothing. The file"
            " contains client ids, addresses and group ids, but no password."
        ),
        dynamic=True,
    ),
    _int("metrics.groups.max", 50, 0,
         "How many groups of a coordinator have metrics of their own: the most active ones.",
         high=1000, dynamic=True),
    _text("logging.format", "text",
          "The form of the lines in the log files of all processes: 'text', or 'json', which is an"
          " object a line with time, level, node, message, and group and member where known.",
          choices=("text", "json")),
    _text("broker.rack", None,
          "The rack of coordinators whose Ray node has none: a Ray node's rack is its"
          " environment variable ROLLCALL_RACK or its label ray.io/availability-zone."),
    _int("node.id", 0, 0, "This coordinator's node id.", importance=HIGH),
    _int("broker.id", -1, None, "The old name of node.id.", importance=HIGH, is_read=False),
    _int("socket.request.max.bytes", 104857600, 1, "The largest request accepted, in bytes.",
         importance=HIGH),
    _int("socket.listen.backlog.size", 4096, 1,
         "Connections that may wait to be accepted. Kafka's default is 50."),
    ConfigRow(
        name="connections.max.idle.ms",
        type=ConfigType.LONG,
        default=600000,
        doc="A connection without requests for this long is closed; a negative value means never.",
    ),
    _int("max.connections", INT_MAX, 0,
         "The maximum of connections to one coordinator; others wait in the backlog. The"
         " system's limit of open files lowers it.", dynamic=True),
    _int("max.connections.per.ip", INT_MAX, 0,
         "The maximum of connections to one coordinator from one address; others are closed.",
         dynamic=True),
    _text("max.connections.per.ip.overrides", "",
          "Other limits for some addresses: ADDRESS:COUNT,ADDRESS:COUNT. Host names are"
          " not supported.",
          pattern=r"([^,\s]+:\d+(,[^,\s]+:\d+)*)?", dynamic=True),
    _int("max.connection.creation.rate", INT_MAX, 0,
         "Connections that one coordinator accepts per second; others wait in the backlog.",
         dynamic=True),
    _int("queued.max.requests", 500, 1,
         "Requests that may wait for the coordinator; the sockets of further requests are"
         " not read.",
         importance=HIGH),
    ConfigRow(
        name="queued.max.request.bytes",
        type=ConfigType.LONG,
        default=134217728,
        doc=(
            "Bytes of requests, complete or not, that one coordinator holds; beyond it, large"
            " requests are not read. A request of socket.request.max.bytes always fits. -1,"
            " Kafka's default, is no limit."
        ),
    ),
    _flag("auto.create.topics.enable", True,
        "Whether a topic is created when a client first asks for it.",
          importance=HIGH),
    _flag("delete.topic.enable", True, "Whether topics can be deleted.", importance=HIGH),
    _int("num.partitions", 1, 1, "The default number of partitions of a new topic."),
    ConfigRow(
        name="default.replication.factor",
        type=ConfigType.INT,
        default=1,
        doc="The default replication factor of a new topic.",
    ),
    _int("min.insync.replicas", 1, 1,
        "Shown for topics only: the coordinators' log needs a majority.",
         importance=HIGH, dynamic=True, is_read=False),
    _int("fetch.max.bytes", 57671680, 1024, "The maximum size of a fetch response, in bytes.",
         is_read=False),
    _int("max.request.partition.size.limit", 2000, 1,
         "Partitions in one DescribeTopicPartitions response."),
    _int("max.incremental.fetch.session.cache.slots", 1000, 0, "Fetch sessions kept.",
         is_read=False),
)  # fmt: skip

_LISTENERS = (
    _text("listeners", ("PLAINTEXT://:9092",),
          "Where coordinators listen: PLAINTEXT://HOST:PORT. An empty host is the Ray node's"
          " address; {node.id} and {ray.node.address} are replaced by a coordinator's own. Of"
          " several coordinators on a host, by node id, the first listens on the port, the next on"
          " the port + 1 and so on; port 0 is any free port.", importance=HIGH, distinct=True),
    ConfigRow(name="advertised.listeners", type=ConfigType.LIST, default=None, importance=HIGH,
              doc="The addresses that clients are given, if not those of listeners: in the same"
              " form, with the same placeholders and consecutive ports. A port with {node.id} is"
              " used as it is."),
    ConfigRow(name="controller.listener.names", type=ConfigType.LIST, default=None,
              importance=HIGH,
              doc="The listeners of Kafka's controllers: they are not opened here."),
    _int("replica.port", 0, 0,
         "The port on which coordinators listen for each other; of several coordinators on a host,"
         " the next ones, by node id, have the following ports. 0 is any free port.", high=65535),
    _int("console.port", 0, 0,
         "The port of the console, on the host where Ray starts it. 0: a free port is chosen at the"
         " first start and kept.", high=65535),
    _text("console.hosts", (),
          "Host names under which browsers and Prometheus ask the console, if they use others than"
          " addresses, localhost, the names of the console's machine and those of listeners and"
          " advertised.listeners. Requests to other names are refused.", pattern=HOST_NAME),
    _flag("console.actions.enable", False,
          "Whether all who can reach the console may remove members from groups, drain and kill"
          " coordinators, and move leaders."),
)  # fmt: skip

_SECURITY = (
    _text("security.inter.broker.protocol", "PLAINTEXT",
          "How coordinators connect to each other: PLAINTEXT, or SSL for TLS 1.2 or newer. With SSL"
          " both ends show a certificate, whatever ssl.client.auth is. Either way they prove that"
          " they know cluster.secret, and authenticate what they send.",
          choices=("PLAINTEXT", "SSL")),
    _text("ssl.keystore.type", "JKS",
          "The format of the file with the private key and its certificates. With"
          " security.inter.broker.protocol=SSL it must be PEM."),
    _text("ssl.keystore.location", None,
          "The path, the same on every host, of the PEM file with a coordinator's private key,"
          " without a password, its certificate and those that lead to a trusted one. A file that"
          " has changed is used for new connections."),
    _text("ssl.truststore.type", "JKS",
          "The format of the file with the trusted certificates. With"
          " security.inter.broker.protocol=SSL it must be PEM."),
    _text("ssl.truststore.location", None,
          "The path, the same on every host, of the PEM file with the certificates that are"
          " trusted to sign those of other coordinators. A file that has changed is used for new"
          " connections."),
    _text("ssl.endpoint.identification.algorithm", "https",
          "Whether a coordinator's certificate must name the address at which the others call it:"
          " https, or empty for no.", choices=("https", ""), importance=LOW),
)  # fmt: skip

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4096, None, "The longest metadata of a committed offset.",
         importance=HIGH),
    _int("offsets.commit.timeout.ms", 5000, 1, "How long an offset commit may wait for replicas.",
         importance=HIGH, is_read=False),
    _int("offsets.load.buffer.size", 5242880, 1, "Bytes read at a time when loading offsets.",
         importance=HIGH, is_read=False),
    ConfigRow(
        name="offsets.retention.check.interval.ms",
        type=ConfigType.LONG,
        default=600000,
        low=1,
        doc="How often to remove expired offsets.",
        importance=HIGH,
    ),
    _int("offsets.retention.minutes", 10080, 1,
         "How long offsets outlive their group, or their last commit where there is no group.",
         importance=HIGH),
    _int("offsets.topic.compression.codec", 0, None, "How __consumer_offsets is compressed.",
         importance=HIGH, is_read=False),
    _int("offsets.topic.num.partitions", 3, 1,
         "Partitions of __consumer_offsets, each with a coordinator; fixed at first start."
         " Kafka's default is 50.", importance=HIGH),
    ConfigRow(
        name="offsets.topic.replication.factor",
        type=ConfigType.SHORT,
        default=3,
        low=1,
        doc="Replicas of each coordinator's log, its leader included.",
        importance=HIGH,
    ),
    _int("offsets.topic.segment.bytes", 104857600, 1, "The segment size of __consumer_offsets.",
         importance=HIGH, is_read=False),
)  # fmt: skip

_COORDINATOR = (
    _int("group.coordinator.append.linger.ms", -1, -1,
         "How long writes gather before they are appended; -1 adapts to the load.", is_read=False),
    _int("group.coordinator.background.threads", 2, 1, "Assignor workers.", importance=HIGH),
    _int("group.coordinator.background.timeout.ms", 30000, 1,
         "How long one run of an assignor may take; then its worker restarts."),
    _int("group.coordinator.cached.buffer.max.bytes", 1048588, 524288,
         "The largest write buffer that is kept for reuse.", dynamic=True, is_read=False),
    _text("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
          "The kinds of groups served.", choices=("consumer", "classic", "share", "streams"),
          distinct=True),
    _int("group.coordinator.threads", 4, 1,
         "Threads of the coordinator; it has one here.", importance=HIGH, is_read=False),
)  # fmt: skip

_CLASSIC = (
    _int("group.initial.rebalance.delay.ms", 3000, None,
         "How long the first rebalance of an empty group waits for more members."),
    _int("group.max.session.timeout.ms", 1800000, None, "The longest session timeout allowed."),
    _int("group.max.size", INT_MAX, 1, "The most members of one group."),
    _int("group.min.session.timeout.ms", 6000, None, "The shortest session timeout allowed."),
)  # fmt: skip


def _modern(kind: str) -> tuple[ConfigRow, ...]:
    """Return the configs that consumer, share and streams groups share."""
    prefix, noun = f"group.{kind}.", f"{kind} group"
    return (
        _int(f"{prefix}assignment.interval.ms", 1000, 0,
             f"The shortest time between two assignments of a {noun}.", dynamic=True),
        _flag(f"{prefix}assignor.offload.enable", True,
              f"Whether a {noun}'s assignments are computed by assignor workers (KIP-1263), or by"
              " the coordinator itself.", dynamic=True),
        _int(f"{prefix}heartbeat.interval.ms", 5000, 1,
             f"How often a {noun}'s members are told to heartbeat."),
        _int(f"{prefix}max.assignment.interval.ms", 15000, 0,
             f"The largest assignment interval that a {noun} may set."),
        _int(f"{prefix}max.heartbeat.interval.ms", 15000, 1,
             f"The largest heartbeat interval that a {noun} may set."),
        _int(f"{prefix}max.session.timeout.ms", 60000, 1,
             f"The largest session timeout that a {noun} may set."),
        _int(f"{prefix}min.assignment.interval.ms", 0, 0,
             f"The smallest assignment interval that a {noun} may set."),
        _int(f"{prefix}min.heartbeat.interval.ms", 5000, 1,
             f"The smallest heartbeat interval that a {noun} may set."),
        _int(f"{prefix}min.session.timeout.ms", 45000, 1,
             f"The smallest session timeout that a {noun} may set."),
        _int(f"{prefix}session.timeout.ms", 45000, 1,
             f"A {noun}'s member is removed after this long without a heartbeat."),
    )  # fmt: skip


_MODERN = (
    _flag("group.consumer.assignor.rack.aware.enable", False,
          "Whether partitions go to members on a rack of one of their replicas, where there are any"
          " (KIP-881's aim): before anything else, or by uniform2 after balance.", dynamic=True),
    _text("group.consumer.assignors", ("uniform", "range"),
          "The assignors of consumer groups, the first one being the default.",
          distinct=True, aliases=KAFKAS_ASSIGNORS),
    _int("group.consumer.max.size", INT_MAX, 1, "The most members of one consumer group."),
    _text("group.consumer.migration.policy", "bidirectional",
          "Which conversions between classic and consumer groups are allowed.",
          choices=("disabled", "downgrade", "upgrade", "bidirectional")),
    _int("group.consumer.regex.refresh.interval.ms", 600000, 10000,
         "How often subscribed regular expressions are resolved again.", internal=True),
    _int("group.consumer.unsettled.heartbeat.interval.ms", 250, 1,
         "How soon after the assignment interval a member is asked back that awaits partitions, if"
         " that is sooner than its heartbeat interval."),
)  # fmt: skip

_STREAMS = (
    _text("group.streams.assignors", ("sticky",),
          "The task assignors of streams groups, the first one being the default.",
          distinct=True, aliases=KAFKAS_ASSIGNORS),
    _int("group.streams.initial.rebalance.delay.ms", 3000, 0,
         "How long the first assignment of an empty streams group waits for more members."),
    _int("group.streams.max.size", INT_MAX, 1, "The most members of one streams group."),
    _int("group.streams.max.standby.replicas", 2, 0,
         "The most standby replicas that a streams group may set."),
    _int("group.streams.num.standby.replicas", 0, 0, "Standby replicas of each streams task."),
    _int("group.streams.unsettled.heartbeat.interval.ms", 250, 1,
         "How soon after the assignment interval a member is asked back that awaits tasks, if that"
         " is sooner than its heartbeat interval."),
    _text("group.streams.rack.aware.assignment.tags", (),
          "The client tags in which a task's standbys differ from it as far as possible.",
          importance=LOW),
    _int("group.streams.min.task.offset.interval.ms", 15000, 1,
         "The smallest task offset interval that a streams group may set.", internal=True),
    _int("group.streams.task.offset.interval.ms", 60000, 1,
         "How often members report the offsets of their tasks.", internal=True),
)  # fmt: skip

_STREAMS_WARMUP = (
    ConfigRow(name="group.streams.acceptable.recovery.lag", type=ConfigType.LONG, default=10000,
              low=0, doc="The lag below which a warm-up task has caught up.", internal=True),
    _int("group.streams.max.warmup.replicas", 20, 0,
         "The most warm-up replicas that a streams group may set.", internal=True),
    _int("group.streams.num.warmup.replicas", 2, 0, "Warm-up replicas of a streams group.",
         internal=True),
    ConfigRow(name="group.streams.topology.description.plugin.class", type=ConfigType.CLASS,
              default=None, is_read=False,
              doc="The class that keeps descriptions of streams groups' topologies (KIP-1331)."),
)  # fmt: skip

BROKER_CONFIGS: Final = table(
    _CLUSTER,
    _LISTENERS,
    _SECURITY,
    _OFFSETS,
    _COORDINATOR,
    _CLASSIC,
    _MODERN,
    _STREAMS,
    SHARE,
    SHARE_UNUSED,
    _STREAMS_WARMUP,
    _modern("consumer"),
    _modern("streams"),
    _modern("share"),
)


def _bounded(kind: str, name: str, doc: str) -> ConfigRow:
    """Return a group config whose default and bounds are broker configs."""
    row = BROKER_CONFIGS[f"group.{kind}.{name}"]
    assert isinstance(row.default, int)
    return _int(
        f"{kind}.{name}",
        row.default,
        None if row.low is None else int(row.low),
        doc,
        synonym=row.name,
        floor=f"group.{kind}.min.{name}",
        ceiling=f"group.{kind}.max.{name}",
    )


def _group_modern(kind: str) -> tuple[ConfigRow, ...]:
    return (
        _int(f"{kind}.assignment.interval.ms", 1000, -1,
             "The shortest time between two assignments; -1 is the broker's.",
             synonym=f"group.{kind}.assignment.interval.ms",
             floor=f"group.{kind}.min.assignment.interval.ms",
             ceiling=f"group.{kind}.max.assignment.interval.ms"),
        _flag(f"{kind}.assignor.offload.enable", True,
              "Whether assignments are computed by assignor workers (KIP-1263).",
              synonym=f"group.{kind}.assignor.offload.enable"),
        _bounded(kind, "heartbeat.interval.ms", "How often members are told to heartbeat."),
        _bounded(kind, "session.timeout.ms", "A member is removed after this long in silence."),
    )  # fmt: skip


_GROUP = (
    _flag("consumer.assignor.rack.aware.enable", False,
          "Whether partitions go to members on a rack of one of their replicas: first of all, or by"
          " uniform2 after balance.",
          synonym="group.consumer.assignor.rack.aware.enable"),
    _flag("consumer.static.takeover.enable", False,
          "Whether a static member that joins under a new member id takes over at once, as KIP-345"
          " promises, or is refused while the old one's session lasts, as in Kafka."),
    _bounded("share", "record.lock.duration.ms", "How long a record is acquired."),
)  # fmt: skip

_GROUP_SHARE = (
    _text("share.auto.offset.reset", "latest",
          "Where a share partition starts: latest, earliest, or by_duration:<ISO 8601 duration>.",
          pattern=OFFSET_RESET),
    _bounded("share", "delivery.count.limit", "How often a record is delivered at most."),
    _text("share.isolation.level", "read_uncommitted",
          "Whether records of open or aborted transactions are delivered.",
          choices=("read_committed", "read_uncommitted")),
    _bounded("share", "partition.max.record.locks", "Records acquired at once per partition."),
    _flag("share.renew.acknowledge.enable", True, "Whether members may renew a record's lock."),
    _flag("errors.deadletterqueue.copy.record.enable", False,
          "Whether what is written of a record that could not be delivered has its key and value."),
    _text("errors.deadletterqueue.topic.name", "",
          "The topic in which records are noted that could not be delivered; empty: none."),
)  # fmt: skip

_GROUP_STREAMS = (
    _text("streams.assignor.name", None,
          "The group's task assignor; not set: the first of group.streams.assignors."),
    _int("streams.initial.rebalance.delay.ms", 3000, 0,
         "How long the first assignment waits for more members.",
         synonym="group.streams.initial.rebalance.delay.ms"),
    _int("streams.num.standby.replicas", 0, 0, "Standby replicas of each task.",
         synonym="group.streams.num.standby.replicas",
         ceiling="group.streams.max.standby.replicas"),
    _text("streams.rack.aware.assignment.tags", (),
          "The client tags in which a task's standbys differ from it as far as possible.",
          importance=LOW, synonym="group.streams.rack.aware.assignment.tags"),
    _int("streams.task.offset.interval.ms", 60000, 1,
         "How often members report the offsets of their tasks.", internal=True,
         synonym="group.streams.task.offset.interval.ms",
         floor="group.streams.min.task.offset.interval.ms"),
)  # fmt: skip

_GROUP_STREAMS_WARMUP = (
    ConfigRow(name="streams.acceptable.recovery.lag", type=ConfigType.LONG, default=10000, low=0,
              doc="The lag below which a warm-up task has caught up.", internal=True,
              synonym="group.streams.acceptable.recovery.lag"),
    _int("streams.num.warmup.replicas", 2, 0, "Warm-up replicas of the group.", internal=True,
         synonym="group.streams.num.warmup.replicas",
         ceiling="group.streams.max.warmup.replicas"),
)  # fmt: skip

_GROUP_FLEET = (
    _text("group.expected.instance.ids", (),
          "The group instance ids of the members that the first assignment of the group waits for,"
          " in place of an initial rebalance delay (KIP-345's pre-registration)."),
    _int("group.expected.instance.wait.ms", 60_000, 0,
         "How long the first assignment waits for them at most; in a classic group, at most for the"
         " first member's rebalance timeout and for 4 minutes.", high=3_600_000),
    _int("group.active.members", 0, 0,
         "How many members get partitions or tasks; further ones are spares, of which one takes"
         " over when an active member is gone. 0: all members are active."),
    _int("group.instance.assignment.retention.ms", 0, 0,
         "For how long after the session of a static member of a consumer group has expired its"
         " instance id gets its earlier partitions back, if it returns. 0: not at all."),
)  # fmt: skip

GROUP_CONFIGS: Final = table(
    _group_modern("consumer"),
    _group_modern("streams"),
    _group_modern("share"),
    _GROUP,
    _GROUP_FLEET,
    _GROUP_STREAMS,
    without_effect(*_GROUP_SHARE),
    _GROUP_STREAMS_WARMUP,
)
