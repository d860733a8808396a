"""The broker configs of share groups and of the share coordinator (KIP-932, KIP-1191).

Records are not here yet, so most of them are without effect.
"""

from __future__ import annotations

from typing import Final

from protocol.config_rows import HIGH, KAFKAS_ASSIGNORS, LOW, ConfigRow, ConfigType, without_effect
from protocol.config_rows import flag_row as _flag
from protocol.config_rows import int_row as _int
from protocol.config_rows import text_row as _text

SHARE: Final = (
    _text("group.share.assignors", ("simple",), "The assignors of share groups.",
          distinct=True, aliases=KAFKAS_ASSIGNORS),
    _int("group.share.initialize.retry.interval.ms", 30000, 1,
         "How often initializing share state is tried again.", importance=LOW, internal=True),
    _int("group.share.max.size", 200, 1, "The most members of one share group.", high=1000),
    _int("group.share.record.lock.duration.ms", 30000, 1000, "How long a record is acquired.",
         high=3600000),
    _int("group.share.min.record.lock.duration.ms", 15000, 1000,
         "The shortest lock duration that a share group may set.", high=30000),
    _int("group.share.max.record.lock.duration.ms", 60000, 30000,
         "The longest lock duration that a share group may set.", high=3600000),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, 0,
         "Updates of a partition's share state between two snapshots.", high=500),
    _int("share.version", 1, 0,
         "The level of Kafka's feature of that name: 0 switches share groups off.", high=1),
)  # fmt: skip

_SHARE_RECORDS = (
    _int("group.share.delivery.count.limit", 5, 2, "How often a record is delivered at most.",
         high=10),
    _int("group.share.min.delivery.count.limit", 2, 2,
         "The smallest delivery count limit that a share group may set.", high=5),
    _int("group.share.max.delivery.count.limit", 10, 5,
         "The largest delivery count limit that a share group may set.", high=25),
    _int("group.share.partition.max.record.locks", 2000, 100,
         "Records acquired at once per share partition.", high=10000),
    _int("group.share.min.partition.max.record.locks", 100, 100,
         "The smallest such limit that a share group may set.", high=2000),
    _int("group.share.max.partition.max.record.locks", 4000, 2000,
         "The largest such limit that a share group may set.", high=10000),
    _int("group.share.max.share.sessions", 2000, 1,
         "Share sessions of one coordinator: at least group.share.max.size."),
    _text("group.share.persister.class.name",
          "org.apache.kafka.server.share.persister.DefaultStatePersister",
          "The class that calls the share coordinator.", internal=True),
    _int("share.fetch.purgatory.purge.interval.requests", 1000, None,
         "After how many requests share fetches that wait are looked through."),
)  # fmt: skip

_DEAD_LETTERS = (
    _flag("errors.deadletterqueue.auto.create.topics.enable", False,
          "Whether topics for records that could not be delivered are created."),
    _text("errors.deadletterqueue.topic.name.prefix", "dlq.",
          "What the names of such topics begin with."),
    _text("group.share.dlq.manager.class.name",
          "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
          "The class that writes such records.", internal=True),
)  # fmt: skip

_STATE_TOPIC = (
    _int("share.coordinator.state.topic.compression.codec", 0, None,
         "How __share_group_state is compressed.", importance=HIGH),
    ConfigRow(name="share.coordinator.state.topic.min.isr", type=ConfigType.SHORT, default=2, low=1,
              doc="min.insync.replicas of __share_group_state.", importance=HIGH),
    _int("share.coordinator.state.topic.num.partitions", 50, 1,
         "Partitions of __share_group_state: here offsets.topic.num.partitions counts.",
         importance=HIGH),
    _int("share.coordinator.state.topic.prune.interval.ms", 300000, 1,
         "How often records that are no longer needed are deleted from __share_group_state.",
         importance=LOW, internal=True),
    ConfigRow(name="share.coordinator.state.topic.replication.factor", type=ConfigType.SHORT,
              default=3, low=1, importance=HIGH,
              doc="Replicas of __share_group_state: here offsets.topic.replication.factor counts."),
    _int("share.coordinator.state.topic.segment.bytes", 104857600, 1,
         "The segment size of __share_group_state.", importance=HIGH),
)  # fmt: skip

_SHARE_COORDINATOR = (
    _int("share.coordinator.append.linger.ms", -1, -1,
         "How long writes gather before they are appended; -1 adapts to the load."),
    _int("share.coordinator.cached.buffer.max.bytes", 1048588, 524288,
         "The largest write buffer that is kept for reuse.", dynamic=True),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300000, 1,
         "How often a snapshot is written of a partition that does not change.",
         importance=LOW, internal=True),
    _int("share.coordinator.load.buffer.size", 5242880, 1,
         "Bytes read at a time when loading share state.", importance=HIGH),
    _int("share.coordinator.threads", 1, 1, "Threads of the share coordinator."),
    _int("share.coordinator.write.timeout.ms", 5000, 1,
         "How long a write of share state may wait for replicas.", importance=HIGH),
)  # fmt: skip

SHARE_UNUSED: Final = without_effect(
    *_SHARE_RECORDS, *_DEAD_LETTERS, *_STATE_TOPIC, *_SHARE_COORDINATOR
)
"""What only Kafka needs."""
