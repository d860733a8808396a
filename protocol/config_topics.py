"""Kafka's topic configs: stored for each topic and returned by DescribeConfigs.

Topics hold no records here, so none of these configs changes what the cluster does.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.config_rows import LONG_MAX, ConfigRow, ConfigType

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS = (
    ConfigRow(
        name="cleanup.policy",
        type=ConfigType.LIST,
        default=("delete",),
        choices=("compact", "delete"),
        doc="What happens to old records: delete them, compact them, or both.",
    ),
    ConfigRow(
        name="compression.gzip.level",
        type=ConfigType.INT,
        default=-1,
        low=-1,
        high=9,
        doc="The gzip level, when compression.type is gzip.",
    ),
    ConfigRow(
        name="compression.lz4.level",
        type=ConfigType.INT,
        default=9,
        low=1,
        high=17,
        doc="The lz4 level, when compression.type is lz4.",
    ),
    ConfigRow(
        name="compression.type",
        type=ConfigType.STRING,
        default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="How the topic's records are compressed; 'producer' keeps the producer's choice.",
    ),
    ConfigRow(
        name="compression.zstd.level",
        type=ConfigType.INT,
        default=3,
        low=-131072,
        high=22,
        doc="The zstd level, when compression.type is zstd.",
    ),
    ConfigRow(
        name="delete.retention.ms",
        type=ConfigType.LONG,
        default=86400000,
        low=0,
        doc="How long tombstones stay in a compacted topic.",
    ),
    ConfigRow(
        name="file.delete.delay.ms",
        type=ConfigType.LONG,
        default=60000,
        low=0,
        doc="How long a deleted segment's file stays on disk.",
    ),
    ConfigRow(
        name="flush.messages",
        type=ConfigType.LONG,
        default=LONG_MAX,
        low=1,
        doc="Records after which the log is synced.",
    ),
    ConfigRow(
        name="flush.ms",
        type=ConfigType.LONG,
        default=LONG_MAX,
        low=0,
        doc="Time after which the log is synced.",
    ),
    ConfigRow(
        name="follower.replication.throttled.replicas",
        type=ConfigType.LIST,
        default=(),
        doc="Followers whose replication is throttled.",
    ),
    ConfigRow(
        name="index.interval.bytes",
        type=ConfigType.INT,
        default=4096,
        low=0,
        doc="Bytes of log between two index entries.",
    ),
    ConfigRow(
        name="leader.replication.throttled.replicas",
        type=ConfigType.LIST,
        default=(),
        doc="Leaders whose replication is throttled.",
    ),
    ConfigRow(
        name="local.retention.bytes",
        type=ConfigType.LONG,
        default=-2,
        low=-2,
        doc="Bytes kept locally of a tiered partition; -2 follows retention.bytes.",
    ),
    ConfigRow(
        name="local.retention.ms",
        type=ConfigType.LONG,
        default=-2,
        low=-2,
        doc="Time kept locally of a tiered partition; -2 follows retention.ms.",
    ),
    ConfigRow(
        name="max.compaction.lag.ms",
        type=ConfigType.LONG,
        default=LONG_MAX,
        low=1,
        doc="The longest a record stays uncompacted.",
    ),
    ConfigRow(
        name="max.message.bytes",
        type=ConfigType.INT,
        default=1048588,
        low=0,
        doc="The largest record batch accepted.",
    ),
    ConfigRow(
        name="message.timestamp.after.max.ms",
        type=ConfigType.LONG,
        default=3600000,
        low=0,
        doc="How far a record's timestamp may lie ahead of the broker's.",
    ),
    ConfigRow(
        name="message.timestamp.before.max.ms",
        type=ConfigType.LONG,
        default=LONG_MAX,
        low=0,
        doc="How far a record's timestamp may lie behind the broker's.",
    ),
    ConfigRow(
        name="message.timestamp.type",
        type=ConfigType.STRING,
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whose clock a record's timestamp shows.",
    ),
    ConfigRow(
        name="min.cleanable.dirty.ratio",
        type=ConfigType.DOUBLE,
        default=0.5,
        low=0,
        high=1,
        doc="The uncompacted share of a log that starts a compaction.",
    ),
    ConfigRow(
        name="min.compaction.lag.ms",
        type=ConfigType.LONG,
        default=0,
        low=0,
        doc="The shortest a record stays uncompacted.",
    ),
    ConfigRow(
        name="min.insync.replicas",
        type=ConfigType.INT,
        default=1,
        low=1,
        doc="Replicas that must have written a record for acks=all.",
    ),
    ConfigRow(
        name="preallocate",
        type=ConfigType.BOOLEAN,
        default=False,
        doc="Whether a segment's file is allocated whole.",
    ),
    ConfigRow(
        name="remote.log.copy.disable",
        type=ConfigType.BOOLEAN,
        default=False,
        doc="Whether a tiered topic stops copying segments.",
    ),
    ConfigRow(
        name="remote.log.delete.on.disable",
        type=ConfigType.BOOLEAN,
        default=False,
        doc="Whether tiered segments go when tiering is switched off.",
    ),
    ConfigRow(
        name="remote.storage.enable",
        type=ConfigType.BOOLEAN,
        default=False,
        doc="Whether the topic is tiered.",
    ),
    ConfigRow(
        name="retention.bytes",
        type=ConfigType.LONG,
        default=-1,
        doc="Bytes of log kept per partition; -1 sets no limit.",
    ),
    ConfigRow(
        name="retention.ms",
        type=ConfigType.LONG,
        default=604800000,
        low=-1,
        doc="Time that records are kept; -1 sets no limit.",
    ),
    ConfigRow(
        name="segment.bytes",
        type=ConfigType.INT,
        default=1073741824,
        low=1048576,
        doc="The size of a log segment.",
    ),
    ConfigRow(
        name="segment.index.bytes",
        type=ConfigType.INT,
        default=10485760,
        low=4,
        doc="The size of a segment's index.",
    ),
    ConfigRow(
        name="segment.jitter.ms",
        type=ConfigType.LONG,
        default=0,
        low=0,
        doc="Random time taken off segment.ms.",
    ),
    ConfigRow(
        name="segment.ms",
        type=ConfigType.LONG,
        default=604800000,
        low=1,
        doc="Time after which a new segment is begun.",
    ),
    ConfigRow(
        name="unclean.leader.election.enable",
        type=ConfigType.BOOLEAN,
        default=False,
        doc="Whether a replica out of sync may become leader.",
    ),
)
TOPIC_CONFIGS: Final[Mapping[str, ConfigRow]] = MappingProxyType(
    {row.name: replace(row, is_read=False) for row in _ROWS}
)
