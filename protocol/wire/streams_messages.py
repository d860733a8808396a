"""The requests and responses of streams groups (KIP-1071), in the newest version that kio has."""

from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import (
    Assignment as DescribedTasks,
)
from kio.schema.streams_group_describe.v0.response import (
    DescribedGroup as DescribedStreamsGroup,
)
from kio.schema.streams_group_describe.v0.response import (
    Endpoint as DescribedEndpoint,
)
from kio.schema.streams_group_describe.v0.response import (
    KeyValue as DescribedKeyValue,
)
from kio.schema.streams_group_describe.v0.response import (
    Member as DescribedStreamsMember,
)
from kio.schema.streams_group_describe.v0.response import (
    StreamsGroupDescribeResponse,
)
from kio.schema.streams_group_describe.v0.response import (
    Subtopology as DescribedSubtopology,
)
from kio.schema.streams_group_describe.v0.response import (
    TaskIds as DescribedTaskIds,
)
from kio.schema.streams_group_describe.v0.response import (
    TopicInfo as DescribedTopicInfo,
)
from kio.schema.streams_group_describe.v0.response import (
    Topology as DescribedTopology,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    CopartitionGroup as StreamsCopartitionGroup,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    Endpoint as StreamsUserEndpoint,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    KeyValue as StreamsConfig,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    StreamsGroupHeartbeatRequest,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    Subtopology as StreamsSubtopology,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    TaskIds as OwnedTaskIds,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    TopicInfo as StreamsTopicInfo,
)
from kio.schema.streams_group_heartbeat.v0.request import (
    Topology as StreamsTopology,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    Endpoint as ReportedEndpoint,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponse,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    Status as StreamsStatus,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    TaskIds as AssignedTaskIds,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    TopicPartition as EndpointTopicPartitions,
)

__all__ = (
    "AssignedTaskIds",
    "DescribedEndpoint",
    "DescribedKeyValue",
    "DescribedStreamsGroup",
    "DescribedStreamsMember",
    "DescribedSubtopology",
    "DescribedTaskIds",
    "DescribedTasks",
    "DescribedTopicInfo",
    "DescribedTopology",
    "EndpointToPartitions",
    "EndpointTopicPartitions",
    "OwnedTaskIds",
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
