"""Messages whose newest version dropped a field that older versions have: these keep both.

Topic ids replaced topic names in OffsetCommit 10 and OffsetFetch 10 (KIP-848), in Fetch 13 and in
Produce 13 (KIP-516). Here a topic has both: ``name`` (``topic`` in Fetch) is "" and ``topic_id``
None where the client's version has no such field. UpdateFeatures 2 has no results of features.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import kio.schema.fetch.v18.request as fetch_request
import kio.schema.fetch.v18.response as fetch_response
import kio.schema.metadata.v13.request as metadata_request
import kio.schema.metadata.v13.response as metadata_response
import kio.schema.offset_commit.v10.request as offset_commit_request
import kio.schema.offset_commit.v10.response as offset_commit_response
import kio.schema.offset_fetch.v10.request as offset_fetch_request
import kio.schema.offset_fetch.v10.response as offset_fetch_response
import kio.schema.produce.v13.request as produce_request
import kio.schema.produce.v13.response as produce_response
import kio.schema.update_features.v2.response as update_features_response
from kio.schema.update_features.v1.response import UpdatableFeatureResult

import protocol.wire.kafka_4_4.streams_group_heartbeat_response as streams_heartbeat_response
from protocol.wire.operations import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic(offset_commit_request.OffsetCommitRequestTopic):
    """A topic by name (versions 2-9) or by id (10)."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(offset_commit_request.OffsetCommitRequest):
    """``retention_time`` is minus one millisecond when unset; only versions 2-4 have it."""

    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: timedelta = field(
        default=timedelta(milliseconds=-1), metadata={"kafka_type": "timedelta_i64"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic(offset_commit_response.OffsetCommitResponseTopic):
    """Answers a topic under the name or the id that the request used."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(offset_commit_response.OffsetCommitResponse):
    """An error for each partition."""

    topics: tuple[OffsetCommitResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics(offset_fetch_request.OffsetFetchRequestTopics):
    """A topic by name (versions 1-9) or by id (10)."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup(offset_fetch_request.OffsetFetchRequestGroup):
    """One group; ``topics`` None requests all of them."""

    topics: tuple[OffsetFetchRequestTopics, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(offset_fetch_request.OffsetFetchRequest):
    """Versions 1-7 name a single group; here it becomes one entry of ``groups``."""

    groups: tuple[OffsetFetchRequestGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics(offset_fetch_response.OffsetFetchResponseTopics):
    """Answers a topic under the name or the id that the request used."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup(offset_fetch_response.OffsetFetchResponseGroup):
    """One group's committed offsets."""

    topics: tuple[OffsetFetchResponseTopics, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(offset_fetch_response.OffsetFetchResponse):
    """For versions 1-7 the single entry of ``groups`` is the whole answer."""

    groups: tuple[OffsetFetchResponseGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic(fetch_request.FetchTopic):
    """A topic by name (versions 4-12) or by id (from 13)."""

    topic: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic(fetch_request.ForgottenTopic):
    """A topic to drop from the fetch session, by name or by id."""

    topic: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(fetch_request.FetchRequest):
    """``replica_id`` (versions 4-14) is -1 for a consumer; later ones have it in a tagged field."""

    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    replica_id: int = field(default=-1, metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableTopicResponse(fetch_response.FetchableTopicResponse):
    """Answers a topic under the name or the id that the request used."""

    topic: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(fetch_response.FetchResponse):
    """The partitions' records; always empty here."""

    responses: tuple[FetchableTopicResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest(metadata_request.MetadataRequest):
    """``topics`` None requests all of them; version 0 uses an empty list for that."""

    include_cluster_authorized_operations: bool = field(
        default=False, metadata={"kafka_type": "bool"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse(metadata_response.MetadataResponse):
    """Only versions 8-10 have the cluster's authorized operations; later, DescribeCluster."""

    cluster_authorized_operations: int = field(default=NOT_ASKED, metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceData(produce_request.TopicProduceData):
    """A topic by name (versions 3-12) or by id (13)."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest(produce_request.ProduceRequest):
    """Records for partitions."""

    topic_data: tuple[TopicProduceData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceResponse(produce_response.TopicProduceResponse):
    """Answers a topic under the name or the id that the request used."""

    name: str = field(default="", metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse(produce_response.ProduceResponse):
    """The result for each partition."""

    responses: tuple[TopicProduceResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatResponse(streams_heartbeat_response.StreamsGroupHeartbeatResponse):
    """Version 0 has the acceptable recovery lag in fewer bits, and nothing reads it there."""

    acceptable_recovery_lag_legacy: int = field(default=0, metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(update_features_response.UpdateFeaturesResponse):
    """``results`` (versions 0 and 1) has a row for each feature of a request that succeeded."""

    results: tuple[UpdatableFeatureResult, ...] = ()
