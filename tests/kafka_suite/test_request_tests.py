"""One case for each of Kafka 4.3.1's own group request tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import servers, wire
from tests.kafka_suite import suite
from tests.kafka_suite.suite import Outcome

CONSUMER_PROTOCOL = "needs consumer-protocol groups (ConsumerGroupHeartbeat), not served yet"

EXCEPTED: Mapping[str, str] = {
    "DeleteGroupsRequestTest.testDeleteGroupsWithNewConsumerGroupProtocol": CONSUMER_PROTOCOL,
    "LeaveGroupRequestTest.testLeaveGroupWithNewConsumerGroupProtocolAndNewGroupCoordinator": (
        CONSUMER_PROTOCOL
    ),
    "ListGroupsRequestTest.testListGroupsWithNewConsumerGroupProtocol": CONSUMER_PROTOCOL,
    "OffsetCommitRequestTest.testOffsetCommitWithNewConsumerGroupProtocol": CONSUMER_PROTOCOL,
    "OffsetDeleteRequestTest.testOffsetDeleteWithNewConsumerGroupProtocol": CONSUMER_PROTOCOL,
    "OffsetFetchRequestTest.testCommittedOffsetsDeletedWhenTopicDeleted": CONSUMER_PROTOCOL,
    "OffsetFetchRequestTest.testFetchOffsetWithRecreatedTopic": CONSUMER_PROTOCOL,
    "OffsetFetchRequestTest.testMultiGroupsOffsetFetchWithNewConsumerGroupProtocol": (
        CONSUMER_PROTOCOL
    ),
    "OffsetFetchRequestTest.testSingleGroupAllOffsetFetchWithNewConsumerGroupProtocol": (
        CONSUMER_PROTOCOL
    ),
    "OffsetFetchRequestTest.testSingleGroupOffsetFetchWithNewConsumerGroupProtocol": (
        CONSUMER_PROTOCOL
    ),
}

REQUIRED = (
    "DeleteGroupsRequestTest.testDeleteGroupsWithOldConsumerGroupProtocol",
    "DescribeGroupsRequestTest.testDescribeGroupsWithOldConsumerGroupProtocol",
    "HeartbeatRequestTest.testHeartbeatWithOldConsumerGroupProtocol",
    "JoinGroupRequestTest.testJoinGroupWithOldConsumerGroupProtocol",
    "LeaveGroupRequestTest.testLeaveGroupWithOldConsumerGroupProtocolAndNewGroupCoordinator",
    "LeaveGroupRequestTest.testLeaveGroupWithOldConsumerGroupProtocolAndOldGroupCoordinator",
    "ListGroupsRequestTest.testListGroupsWithOldConsumerGroupProtocol",
    "OffsetCommitRequestTest.testOffsetCommitWithOldConsumerGroupProtocol",
    "OffsetDeleteRequestTest.testOffsetDeleteWithOldConsumerGroupProtocol",
    "OffsetFetchRequestTest.testMultiGroupsOffsetFetchWithOldConsumerGroupProtocol",
    "OffsetFetchRequestTest.testSingleGroupAllOffsetFetchWithOldConsumerGroupProtocol",
    "OffsetFetchRequestTest.testSingleGroupOffsetFetchWithOldConsumerGroupProtocol",
    "SyncGroupRequestTest.testSyncGroupWithOldConsumerGroupProtocol",
)

# Expects NOT_COORDINATOR for a group called "unknown": is asked of a server that does not lead it.
NOT_COORDINATOR = "OffsetFetchRequestTest.testGroupErrors"

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "6000",
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def kafkas_tests() -> Path:
    """Where Kafka's request tests are, built."""
    try:
        return suite.built()
    except suite.NoSuiteError as error:
        pytest.skip(str(error))


@contextmanager
def running(directory: Path, coordinators: int) -> Iterator[str]:
    """Start a server with the settings that Kafka's tests ask for."""
    settings = {**SETTINGS, "offsets.topic.num.partitions": str(coordinators)}
    server = servers.server(directory, settings, coordinators)
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.close()


@pytest.fixture(scope="module")
def outcomes(kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """What became of every test that has to pass, run in one go against one server."""
    with running(tmp_path_factory.mktemp("suite-server"), coordinators=1) as bootstrap:
        out = tmp_path_factory.mktemp("suite-out")
        return suite.run(kafkas_tests, bootstrap, REQUIRED, SETTINGS, out)


@pytest.mark.parametrize("test", REQUIRED)
def test_kafkas_own_test_passes(outcomes: Mapping[str, Outcome], test: str) -> None:
    outcome = outcomes.get(test)
    assert outcome is not None, "it was not run"
    assert outcome.verdict == "PASS", outcome.why


def test_a_server_that_does_not_coordinate_a_group_says_so_as_kafkas_test_expects(
    kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(tmp_path_factory.mktemp("other-server"), coordinators=2) as bootstrap:
        found = None if servers.is_kafka() else wire.coordinator_of(bootstrap, "unknown")
        asked = next(one for one in bootstrap.split(",") if found is None or one != found[1])
        out = tmp_path_factory.mktemp("suite-out")
        outcome = suite.run(kafkas_tests, asked, [NOT_COORDINATOR], SETTINGS, out)[NOT_COORDINATOR]
    assert outcome.verdict == "PASS", outcome.why


def test_every_test_of_these_classes_is_required_or_excepted_by_name(kafkas_tests: Path) -> None:
    assert suite.listed(kafkas_tests) == {*REQUIRED, *EXCEPTED, NOT_COORDINATOR}
