"""The requests and responses by which members of share groups fetch records and acknowledge them.

In the newest version of Kafka 4.3.1 (KIP-932).
"""

from kio.schema.share_acknowledge.v2.request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kio.schema.share_acknowledge.v2.response import LeaderIdAndEpoch as AcknowledgeLeader
from kio.schema.share_acknowledge.v2.response import NodeEndpoint as AcknowledgeEndpoint
from kio.schema.share_acknowledge.v2.response import PartitionData as AcknowledgedPartition
from kio.schema.share_acknowledge.v2.response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kio.schema.share_fetch.v2.request import AcknowledgementBatch as FetchAcknowledgementBatch
from kio.schema.share_fetch.v2.request import FetchPartition as ShareFetchPartition
from kio.schema.share_fetch.v2.request import FetchTopic as ShareFetchTopic
from kio.schema.share_fetch.v2.request import ShareFetchRequest
from kio.schema.share_fetch.v2.response import LeaderIdAndEpoch as ShareFetchLeader
from kio.schema.share_fetch.v2.response import NodeEndpoint as ShareFetchEndpoint
from kio.schema.share_fetch.v2.response import PartitionData as ShareFetchedPartition
from kio.schema.share_fetch.v2.response import ShareFetchableTopicResponse, ShareFetchResponse

__all__ = (
    "AcknowledgeEndpoint",
    "AcknowledgeLeader",
    "AcknowledgePartition",
    "AcknowledgeTopic",
    "AcknowledgedPartition",
    "AcknowledgementBatch",
    "FetchAcknowledgementBatch",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareAcknowledgeTopicResponse",
    "ShareFetchEndpoint",
    "ShareFetchLeader",
    "ShareFetchPartition",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareFetchTopic",
    "ShareFetchableTopicResponse",
    "ShareFetchedPartition",
)
