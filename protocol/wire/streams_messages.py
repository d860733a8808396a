"""The requests and responses of streams groups (KIP-1071), in the newest version."""

from protocol.wire.kafka_4_4.streams_group_describe_request import StreamsGroupDescribeRequest
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    Assignment as DescribedTasks,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    DescribedGroup as DescribedStreamsGroup,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    Endpoint as DescribedEndpoint,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    KeyValue as DescribedKeyValue,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    Member as DescribedStreamsMember,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    StreamsGroupDescribeResponse,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    Subtopology as DescribedSubtopology,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    TaskIds as DescribedTaskIds,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    TaskOffset as DescribedTaskOffset,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    TopicInfo as DescribedTopicInfo,
)
from protocol.wire.kafka_4_4.streams_group_describe_response import (
    Topology as DescribedTopology,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    CopartitionGroup as StreamsCopartitionGroup,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    Endpoint as StreamsUserEndpoint,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    KeyValue as StreamsConfig,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    Subtopology as StreamsSubtopology,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    TaskIds as OwnedTaskIds,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    TaskOffset as OwnedTaskOffset,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    TopicInfo as StreamsTopicInfo,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import (
    Topology as StreamsTopology,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import (
    Endpoint as ReportedEndpoint,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import (
    EndpointToPartitions,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import (
    Status as StreamsStatus,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import (
    TaskIds as AssignedTaskIds,
)
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import (
    TopicPartition as EndpointTopicPartitions,
)
from protocol.wire.superset import StreamsGroupHeartbeatResponse

__all__ = (
    "AssignedTaskIds",
    "DescribedEndpoint",
    "DescribedKeyValue",
    "DescribedStreamsGroup",
    "DescribedStreamsMember",
    "DescribedSubtopology",
    "DescribedTaskIds",
    "DescribedTaskOffset",
    "DescribedTasks",
    "DescribedTopicInfo",
    "DescribedTopology",
    "EndpointToPartitions",
    "EndpointTopicPartitions",
    "OwnedTaskIds",
    "OwnedTaskOffset",
    "ReportedEndpoint",
    "StreamsConfig",
    "StreamsCopartitionGroup",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsStatus",
    "StreamsSubtopology",
    "StreamsTopicInfo",
    "StreamsTopology",
    "StreamsUserEndpoint",
)
