"""APIs of what is not there, answered as by a Kafka that has it switched off.

The answers are those of Apache Kafka 4.3.1 to the same questions, but for POLICY_VIOLATION where
Kafka would move a partition.
"""

from dataclasses import replace
from typing import Any

import pytest

from failover.apis.table import NODE_HANDLERS
from failover.apis.unused import LOG_DIR, NO_REASSIGNMENT, NO_SUCH_TOPIC, NOT_REASSIGNED
from failover.catalogue.cluster_view import ClusterView
from protocol.wire import admin_messages as m
from protocol.wire.apis import API, error_response
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from tests.failover.catalogue.catalogs import SECOND, T0, Keeper, answer, request, topic

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition


@pytest.fixture
def view() -> ClusterView:
    keeper = Keeper()
    keeper.create(topic("orders", assignments=[(0, (0, 2)), (1, (1, 2))]))
    return keeper.view()


@pytest.mark.parametrize(
    "key, code",
    [
        (29, ErrorCode.security_disabled),
        (30, ErrorCode.security_disabled),
        (31, ErrorCode.security_disabled),
        (17, ErrorCode.illegal_sasl_state),
    ],
)
def test_there_is_no_security(view: ClusterView, key: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        answer(view, key, blank(API[key].request))
    assert raised.value.code is code


def test_every_access_rule_gets_its_refusal() -> None:
    creations = tuple(blank(m.AclCreation, resource_name=name) for name in "ab")
    why = (ErrorCode.security_disabled, "why")
    created: Any = error_response(30, m.CreateAclsRequest(creations=creations), *why)
    assert [(one.error_code, one.error_message) for one in created.results] == [why] * 2
    filters = (blank(m.DeleteAclsFilter),) * 3
    deleted: Any = error_response(31, m.DeleteAclsRequest(filters=filters), *why)
    assert [(one.error_code, one.error_message) for one in deleted.filter_results] == [why] * 3


@pytest.mark.parametrize(
    "name, index, offset, expected",
    [
        ("orders", 0, 0, (NONE, 0)),
        ("orders", 0, -1, (NONE, 0)),
        ("orders", 0, 5, (ErrorCode.offset_out_of_range, -1)),
        ("orders", 0, -2, (ErrorCode.offset_out_of_range, -1)),
        ("orders", 1, 0, (ErrorCode.not_leader_or_follower, -1)),
        ("orders", 2, 0, (UNKNOWN, -1)),
        ("missing", 0, 0, (UNKNOWN, -1)),
        ("__consumer_offsets", 0, 0, (ErrorCode.invalid_topic_exception, -1)),
    ],
)
def test_there_are_no_records_to_delete(
    view: ClusterView, name: str, index: int, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    partition = m.DeleteRecordsPartition(partition_index=index, offset=offset)
    asked = m.DeleteRecordsTopic(name=name, partitions=(partition,))
    (found,) = answer(view, 21, m.DeleteRecordsRequest(topics=(asked,), timeout=SECOND)).topics
    (one,) = found.partitions
    assert (one.partition_index, one.error_code, one.low_watermark) == (index, *expected)


def test_log_directories_hold_the_empty_partitions_of_this_node(view: ClusterView) -> None:
    (everything,) = answer(view, 35, m.DescribeLogDirsRequest(topics=None)).results
    (orders,) = everything.topics
    assert (everything.log_dir, orders.name) == (LOG_DIR, "orders")
    assert [(one.partition_index, one.partition_size) for one in orders.partitions] == [(0, 0)]
    other = m.DescribableLogDirTopic(topic="missing")
    (nothing,) = answer(view, 35, m.DescribeLogDirsRequest(topics=(other,))).results
    assert nothing.topics == ()


def test_no_leader_is_elected_by_hand(view: ClusterView) -> None:
    asked = m.ElectLeadersTopic(topic="orders", partitions=(0, 1, 2))
    missing = m.ElectLeadersTopic(topic="missing", partitions=(0,))
    message = m.ElectLeadersRequest(election_type=0, topic_partitions=(asked, missing))
    response = answer(view, 43, message)
    assert response.error_code is NONE
    assert [
        (found.topic, one.partition_id, one.error_code)
        for found in response.replica_election_results
        for one in found.partition_result
    ] == [
        ("orders", 0, ErrorCode.election_not_needed),
        ("orders", 1, ErrorCode.election_not_needed),
        ("orders", 2, UNKNOWN),
        ("missing", 0, UNKNOWN),
    ]
    everything = answer(view, 43, m.ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert (everything.error_code, everything.replica_election_results) == (NONE, ())


@pytest.mark.parametrize(
    "name, index, replicas, expected",
    [
        ("orders", 0, (0, 2), (NONE, None)),
        ("orders", 0, (0, 1), (ErrorCode.policy_violation, NOT_REASSIGNED)),
        ("orders", 0, None, (ErrorCode.no_reassignment_in_progress, NO_REASSIGNMENT)),
        ("orders", 2, (0,), (UNKNOWN, NO_SUCH_TOPIC)),
        ("missing", 0, (0,), (UNKNOWN, NO_SUCH_TOPIC)),
    ],
)
def test_partitions_stay_where_they_are(
    view: ClusterView,
    name: str,
    index: int,
    replicas: tuple[int, ...] | None,
    expected: tuple[ErrorCode, str | None],
) -> None:
    partition = m.ReassignablePartition(partition_index=index, replicas=replicas)
    asked = m.ReassignableTopic(name=name, partitions=(partition,))
    response = answer(view, 45, m.AlterPartitionReassignmentsRequest(topics=(asked,)))
    (one,) = response.responses[0].partitions
    assert response.error_code is NONE
    assert (one.error_code, one.error_message) == expected


def test_there_are_no_reassignments_quotas_users_or_transactions(view: ClusterView) -> None:
    reassignments = answer(view, 46, m.ListPartitionReassignmentsRequest(topics=None))
    assert (reassignments.error_code, reassignments.topics) == (NONE, ())
    quotas = answer(view, 48, m.DescribeClientQuotasRequest(components=(), strict=False))
    assert (quotas.error_code, quotas.entries) == (NONE, ())
    users = answer(view, 50, m.DescribeUserScramCredentialsRequest(users=None))
    assert (users.error_code, users.results) == (NONE, ())
    named = m.DescribeUserScramCredentialsRequest(users=(m.UserName(name="u"),))
    (one,) = answer(view, 50, named).results
    assert (one.user, one.error_code) == ("u", ErrorCode.resource_not_found)
    asked = blank(m.ListTransactionsRequest, state_filters=("Ongoing", "Banana"))
    transactions = answer(view, 66, asked)
    assert (transactions.error_code, transactions.transaction_states) == (NONE, ())
    assert transactions.unknown_state_filters == ("Banana",)


def test_nobody_produces(view: ClusterView) -> None:
    asked = m.DescribeProducersTopic(name="orders", partition_indexes=(0, 1, 2))
    (found,) = answer(view, 61, m.DescribeProducersRequest(topics=(asked,))).topics
    assert [one.error_code for one in found.partitions] == [
        NONE, ErrorCode.not_leader_or_follower, UNKNOWN,
    ]  # fmt: skip
    assert all(one.active_producers == () for one in found.partitions)


def test_an_idempotent_producer_gets_an_id_of_its_own(view: ClusterView) -> None:
    message = m.InitProducerIdRequest(transactional_id=None, transaction_timeout=SECOND)
    ids = set()
    for ticket in range(3):
        for now_ms in (T0, T0 + 1):
            asked = request(22, message)
            response: Any = NODE_HANDLERS[22](view, replace(asked, ticket=ticket), now_ms)
            assert (response.error_code, response.producer_epoch) == (NONE, 0)
            assert 0 < response.producer_id < 2**63
            ids.add(response.producer_id)
    assert len(ids) == 6


def test_a_transactional_producer_is_refused_for_good(view: ClusterView) -> None:
    message = m.InitProducerIdRequest(transactional_id="t", transaction_timeout=SECOND)
    with pytest.raises(KafkaError) as raised:
        answer(view, 22, message)
    assert raised.value.code is ErrorCode.transactional_id_authorization_failed
