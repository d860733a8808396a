"""The rows of the API table: key, versions served, and every trait of a request.

The versions are those of Kafka 4.4. An API that is not in the table is not advertised, and a
request for it closes the connection: most APIs for transactions and delegation tokens. To add one,
see ``docs/how-to/add-a-request.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from protocol.wire import admin_messages as admin
from protocol.wire import admin_refusals, refusals
from protocol.wire import messages as m
from protocol.wire import share_fetch_messages as share
from protocol.wire.api import Acl
from protocol.wire.api_makers import (
    ALTER_CLUSTER,
    ALTER_CONFIGS,
    ALTER_TOPIC,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTION,
    NO_ACL,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ONCE,
    WRITE_TOPIC,
    by_name_until,
    catalog,
    costly,
    node,
    switched_off,
)
from protocol.wire.api_rows_groups import (
    ABOUT_GROUPS,
    MEMBERS,
    SHARE_GROUP_OFFSETS,
    SHARE_STATE,
)
from protocol.wire.errors import ErrorCode

_ABOUT_TOPICS: Final = (
    switched_off(
        replace(
            node((3, 13), (m.ProduceRequest, m.ProduceResponse), WRITE_TOPIC, refusals.produce),
            newest_by_name=12,
            advertised_min_version=0,  # librdkafka compresses for brokers with Produce 0
        )  # (KAFKA-18659)
    ),
    by_name_until(
        12, node((4, 18), (m.FetchRequest, m.FetchResponse), READ_TOPIC, refusals.fetch)
    ),
    node(
        (1, 11), (m.ListOffsetsRequest, m.ListOffsetsResponse), DESCRIBE_TOPIC,
        refusals.list_offsets,
    ),
    node((0, 13), (m.MetadataRequest, m.MetadataResponse), DESCRIBE_TOPIC, refusals.metadata),
    catalog(
        (2, 7), (m.CreateTopicsRequest, m.CreateTopicsResponse), CREATE_TOPIC,
        refusals.create_topics,
    ),
    catalog(
        (1, 6), (m.DeleteTopicsRequest, m.DeleteTopicsResponse), DELETE_TOPIC,
        refusals.delete_topics,
    ),
    switched_off(
        node(
            (0, 2), (admin.DeleteRecordsRequest, admin.DeleteRecordsResponse), DELETE_TOPIC,
            admin_refusals.delete_records,
        )
    ),
    node(
        (2, 4), (m.OffsetForLeaderEpochRequest, m.OffsetForLeaderEpochResponse), DESCRIBE_TOPIC,
        refusals.offset_for_leader_epoch,
    ),
    node((1, 2), (share.ShareFetchRequest, share.ShareFetchResponse), READ_GROUP),
    node((1, 2), (share.ShareAcknowledgeRequest, share.ShareAcknowledgeResponse), READ_GROUP),
    catalog(
        (0, 3), (m.CreatePartitionsRequest, m.CreatePartitionsResponse), ALTER_TOPIC,
        refusals.create_partitions,
    ),
    node(
        (0, 0), (m.DescribeTopicPartitionsRequest, m.DescribeTopicPartitionsResponse),
        DESCRIBE_TOPIC, refusals.describe_topic_partitions,
    ),
)  # fmt: skip

_ABOUT_CLUSTER: Final = (
    node(
        (0, 6), (m.FindCoordinatorRequest, m.FindCoordinatorResponse), DESCRIBE_GROUP,
        refusals.find_coordinator,
    ),
    node(
        (0, 5), (m.ApiVersionsRequest, m.ApiVersionsResponse), NO_ACL,
        lambda _request, why: api_versions_response(why.code),
    ),
    costly(
        node(
            (1, 4), (m.DescribeConfigsRequest, m.DescribeConfigsResponse), DESCRIBE_CONFIGS,
            refusals.describe_configs,
        )
    ),
    costly(
        catalog(
            (0, 2), (admin.AlterConfigsRequest, admin.AlterConfigsResponse), ALTER_CONFIGS,
            admin_refusals.alter_configs,
        )
    ),
    costly(
        catalog(
            (0, 1), (m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsResponse),
            ALTER_CONFIGS, refusals.incremental_alter_configs,
        )
    ),
    catalog(
        (0, 2), (admin.UpdateFeaturesRequest, admin.UpdateFeaturesResponse), ALTER_CLUSTER
    ),
    node((0, 2), (m.DescribeClusterRequest, m.DescribeClusterResponse), NO_ACL),
    node(
        (0, 1), (m.ListConfigResourcesRequest, m.ListConfigResourcesResponse),
        Acl("Cluster", "DescribeConfigs"),
    ),
)  # fmt: skip

_NOT_DONE_HERE: Final = tuple(
    switched_off(row)
    for row in (
        node((0, 1), (admin.SaslHandshakeRequest, admin.SaslHandshakeResponse), NO_ACL),
        node((0, 5), (admin.InitProducerIdRequest, admin.InitProducerIdResponse), WRITE_ONCE),
        node((1, 3), (admin.DescribeAclsRequest, admin.DescribeAclsResponse), DESCRIBE_CLUSTER),
        node(
            (1, 3), (admin.CreateAclsRequest, admin.CreateAclsResponse), ALTER_CLUSTER,
            admin_refusals.create_acls,
        ),
        node(
            (1, 3), (admin.DeleteAclsRequest, admin.DeleteAclsResponse), ALTER_CLUSTER,
            admin_refusals.delete_acls,
        ),
        node(
            (1, 5), (admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse),
            DESCRIBE_CLUSTER,
        ),
        node(
            (0, 2), (admin.ElectLeadersRequest, admin.ElectLeadersResponse), ALTER_CLUSTER,
            admin_refusals.elect_leaders,
        ),
        node(
            (0, 1),
            (admin.AlterPartitionReassignmentsRequest, admin.AlterPartitionReassignmentsResponse),
            ALTER_CLUSTER,
        ),
        node(
            (0, 0),
            (admin.ListPartitionReassignmentsRequest, admin.ListPartitionReassignmentsResponse),
            DESCRIBE_CLUSTER,
        ),
        node(
            (0, 1), (admin.DescribeClientQuotasRequest, admin.DescribeClientQuotasResponse),
            Acl("Cluster", "DescribeConfigs"),
        ),
        node(
            (0, 0),
            (
                admin.DescribeUserScramCredentialsRequest,
                admin.DescribeUserScramCredentialsResponse,
            ),
            DESCRIBE_CLUSTER,
        ),
        node(
            (0, 0), (admin.DescribeProducersRequest, admin.DescribeProducersResponse), READ_TOPIC,
            admin_refusals.describe_producers,
        ),
        node(
            (0, 2), (admin.ListTransactionsRequest, admin.ListTransactionsResponse),
            DESCRIBE_TRANSACTION,
        ),
    )
)  # fmt: skip

ROWS: Final = tuple(
    sorted(
        (
            *MEMBERS,
            *ABOUT_GROUPS,
            *SHARE_GROUP_OFFSETS,
            *SHARE_STATE,
            *_ABOUT_TOPICS,
            *_ABOUT_CLUSTER,
            *_NOT_DONE_HERE,
        ),
        key=lambda row: row.key,
    )
)
_ADVERTISED: Final = tuple(
    m.ApiVersion(
        api_key=row.key, min_version=row.advertised_min_version, max_version=row.max_version
    )
    for row in ROWS
)


def api_versions_response(code: ErrorCode = ErrorCode.none) -> m.ApiVersionsResponse:
    """Return the APIs served; with UNSUPPORTED_VERSION, the answer to a too new ApiVersions.

    With another error there are none, as in Kafka.
    """
    has_keys = code in (ErrorCode.none, ErrorCode.unsupported_version)
    keys = _ADVERTISED if has_keys else ()
    return m.ApiVersionsResponse(error_code=code, api_keys=keys, throttle_time=m.NO_THROTTLE)
