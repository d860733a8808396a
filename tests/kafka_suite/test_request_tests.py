"""One case for each of Kafka 4.3.1's own group request tests."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.clients import servers, wire
from tests.kafka_suite import suite
from tests.kafka_suite.suite import Outcome
from tests.kafka_suite.warm_up import members_for, warm_up

HEARTBEATS = "ConsumerGroupHeartbeatRequestTest"
AT_ONCE = f"{HEARTBEATS}$WithAssignmentBatchingDisabledTest"
"""The same tests once more, against a server whose assignment interval is 0."""

HEARTBEAT_TESTS = (
    "testConsumerGroupHeartbeatFailureIfMemberIdMissingForVersionsAbove0",
    "testConsumerGroupHeartbeatIsAccessibleWhenNewGroupCoordinatorIsEnabled",
    "testConsumerGroupHeartbeatRebalance",
    "testConsumerGroupHeartbeatWithEmptySubscription",
    "testConsumerGroupHeartbeatWithInvalidRegularExpression",
    "testConsumerGroupHeartbeatWithRegularExpression",
    "testDuplicateFullHeartbeatDuringRevocation",
    "testDuplicateFullHeartbeatInStableState",
    "testDuplicateFullHeartbeatWhileWaitingForPartitions",
    "testDuplicateFullHeartbeatWithRevocationAck",
    "testEmptyConsumerGroupId",
    "testFencedMemberCanRejoinWithEpochZero",
    "testMemberIdGeneratedOnServerWhenApiVersionIs0",
    "testRejoiningStaticMemberGetsAssignmentsBackWhenNewGroupCoordinatorIsEnabled",
    "testUpdateConsumerGroupHeartbeatConfigSuccessful",
)
SESSION_TEST = "testStaticMemberRemovedAfterSessionTimeoutExpiryWhenNewGroupCoordinatorIsEnabled"
SWITCHED_OFF_TESTS = (
    "testConsumerGroupHeartbeatIsInaccessibleWhenDisabledByStaticConfig",
    "testConsumerGroupHeartbeatIsInaccessibleWhenFeatureFlagNotEnabled",
)
"""Two ways in Kafka to switch consumer groups off; here there is one, with the same answer."""

SHARE = "ShareGroupHeartbeatRequestTest"
SHARE_AT_ONCE = f"{SHARE}$WithAssignmentBatchingDisabledTest"
SHARE_TESTS = (
    "testFencedMemberCanRejoinWithEpochZero",
    "testMemberLeavingAndRejoining",
    "testPartitionAssignmentWithChangingTopics",
    "testShareGroupHeartbeatIsAccessibleWhenShareGroupIsEnabled",
    "testShareGroupHeartbeatWithMultipleMembers",
)
SHARE_SIZE_TEST = "testShareGroupMaxSizeConfigExceeded"
SHARE_SESSION_TEST = "testMemberJoiningAndExpiring"
SHARE_SWITCHED_OFF_TEST = "testShareGroupHeartbeatIsInAccessibleWhenConfigsDisabled"
STREAMS = "StreamsGroupHeartbeatRequestTest"
STREAMS_AT_ONCE = f"{STREAMS}$WithAssignmentBatchingDisabledTest"
STREAMS_TESTS = (
    "testDynamicGroupConfig",
    "testEmptyStreamsGroupId",
    "testFencedMemberCanRejoinWithEpochZero",
    "testInternalTopicsCreation",
    "testInvalidMemberEpoch",
    "testMemberLeaveHeartbeat",
    "testStreamsGroupHeartbeatForMultipleMembers",
    "testStreamsGroupHeartbeatIsAccessibleWhenNewGroupCoordinatorIsEnabledTopicNotExistFirst",
    "testStreamsGroupHeartbeatWithInvalidAPIVersion",
)
STREAMS_SESSION_TEST = "testMemberJoiningAndExpiring"
STREAMS_SWITCHED_OFF_TESTS = (
    "testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByFeatureConfig",
    "testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByStaticGroupCoordinatorProtocolConfig",
)
STREAMS_NOT_COORDINATOR = "testStreamsGroupHeartbeatIsInaccessibleWhenOffsetTopicNotExist"
RESTARTED = tuple(
    f"{kind}.testGroupCoordinatorChange"
    for kind in (SHARE, SHARE_AT_ONCE, STREAMS, STREAMS_AT_ONCE)
)
"""These stop the server and start it again."""

MIGRATION = "ConsumerProtocolMigrationTest"
MIGRATION_AT_ONCE = f"{MIGRATION}$WithAssignmentBatchingDisabledTest"
ONLINE_MIGRATION_TESTS = (
    "testOnlineMigrationWithCooperativeAssignmentStrategyAndDynamicMembers",
    "testOnlineMigrationWithCooperativeAssignmentStrategyAndStaticMembers",
    "testOnlineMigrationWithEagerAssignmentStrategyAndDynamicMembers",
    "testOnlineMigrationWithEagerAssignmentStrategyAndStaticMembers",
    "testOnlineMigrationWithNonEmptyUserDataInAssignment",
)
UPGRADE_TEST, DOWNGRADE_TEST = "testUpgradeMigrationPolicy", "testDowngradeMigrationPolicy"
DISABLED_MIGRATION_TESTS = (
    "testClassicMemberJoinToConsumerGroupWithDisabledMigrationPolicy",
    "testUpgradeWithDisabledMigrationPolicy",
)


def with_policy(policy: str, kinds: Sequence[str] = (MIGRATION, MIGRATION_AT_ONCE)) -> list[str]:
    """Name the tests of what an Empty group may become, whatever the policy."""
    tests = (
        "testDowngradeFromEmptyConsumerToClassicGroup",
        "testUpgradeFromEmptyClassicToConsumerGroup",
        "testUpgradeFromSimpleGroupToConsumerGroup",
    )
    return [f"{kind}.{test}With{policy}Policy" for kind in kinds for test in tests]


REQUIRED = (
    "ConsumerGroupDescribeRequestTest.testConsumerGroupDescribeIncludesPartitionsPendingRevocation",
    "ConsumerGroupDescribeRequestTest.testConsumerGroupDescribeWithMigrationMember",
    "ConsumerGroupDescribeRequestTest.testConsumerGroupDescribeWithNewGroupCoordinator",
    *(f"{AT_ONCE}.{test}" for test in HEARTBEAT_TESTS),
    "DeleteGroupsRequestTest.testDeleteGroupsWithNewConsumerGroupProtocol",
    "LeaveGroupRequestTest.testLeaveGroupWithNewConsumerGroupProtocolAndNewGroupCoordinator",
    "ListGroupsRequestTest.testListGroupsWithNewConsumerGroupProtocol",
    "OffsetCommitRequestTest.testOffsetCommitWithNewConsumerGroupProtocol",
    "OffsetDeleteRequestTest.testOffsetDeleteWithNewConsumerGroupProtocol",
    "OffsetFetchRequestTest.testCommittedOffsetsDeletedWhenTopicDeleted",
    "OffsetFetchRequestTest.testFetchOffsetWithRecreatedTopic",
    "OffsetFetchRequestTest.testMultiGroupsOffsetFetchWithNewConsumerGroupProtocol",
    "OffsetFetchRequestTest.testSingleGroupAllOffsetFetchWithNewConsumerGroupProtocol",
    "OffsetFetchRequestTest.testSingleGroupOffsetFetchWithNewConsumerGroupProtocol",
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
    "StreamsGroupDescribeRequestTest.testStreamsGroupDescribeGroupsWithNewGroupCoordinator",
    *(f"{STREAMS_AT_ONCE}.{test}" for test in STREAMS_TESTS),
)

# Each expects NOT_COORDINATOR for a group: it is asked of a server that does not lead the group.
NOT_COORDINATOR: Mapping[str, str] = {
    "OffsetFetchRequestTest.testGroupErrors": "unknown",
    f"{STREAMS}.{STREAMS_NOT_COORDINATOR}": "test-group",
    f"{STREAMS_AT_ONCE}.{STREAMS_NOT_COORDINATOR}": "test-group",
}

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.consumer.unsettled.heartbeat.interval.ms": "5000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.assignor.offload.enable": "false",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.unsettled.heartbeat.interval.ms": "5000",
    "group.min.session.timeout.ms": "6000",
    "group.share.assignor.offload.enable": "false",
}
"""Kafka 4.3.1 computes assignments within the heartbeat, and its tests ask for them there; it gives
every member the same heartbeat interval."""

LONG_INTERVAL = {
    "group.consumer.assignment.interval.ms": "60000",
    "group.consumer.max.assignment.interval.ms": "60000",
}
"""For tests that expect the interval not to be over, and take longer than Kafka's second if the
machine is busy: a member changes its subscription 40 requests after it joined, and gets no new
epoch; or a member leaves, and the group is still Assigning (Kafka computes its next target with the
next heartbeat, we as soon as the interval is over). Longer than a session has no use."""

OTHER_SERVERS: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "batching": (
        {
            "group.consumer.assignment.interval.ms": "1000",
            "group.streams.assignment.interval.ms": "1000",
        },
        (
            *(f"{HEARTBEATS}.{test}" for test in HEARTBEAT_TESTS),
            *(f"{STREAMS}.{test}" for test in STREAMS_TESTS),
        ),
    ),
    "short sessions of streams groups": (
        {
            "group.streams.heartbeat.interval.ms": "500",
            "group.streams.min.heartbeat.interval.ms": "500",
            "group.streams.session.timeout.ms": "501",
            "group.streams.min.session.timeout.ms": "501",
        },
        (f"{STREAMS}.{STREAMS_SESSION_TEST}", f"{STREAMS_AT_ONCE}.{STREAMS_SESSION_TEST}"),
    ),
    "short sessions": (
        {
            "group.consumer.min.session.timeout.ms": "5001",
            "group.consumer.session.timeout.ms": "5001",
        },
        (f"{HEARTBEATS}.{SESSION_TEST}", f"{AT_ONCE}.{SESSION_TEST}"),
    ),
    "migration, batching": (
        LONG_INTERVAL,
        tuple(f"{MIGRATION}.{test}" for test in ONLINE_MIGRATION_TESTS),
    ),
    "migration, at once": (
        {},
        (
            *(f"{MIGRATION_AT_ONCE}.{test}" for test in ONLINE_MIGRATION_TESTS),
            *with_policy("Bidirectional"),
        ),
    ),
    "no migration": (
        {"group.consumer.migration.policy": "disabled"},
        (
            *with_policy("Disabled"),
            *(
                f"{kind}.{test}"
                for kind in (MIGRATION, MIGRATION_AT_ONCE)
                for test in DISABLED_MIGRATION_TESTS
            ),
        ),
    ),
    "upgrades only": (
        {"group.consumer.migration.policy": "upgrade", **LONG_INTERVAL},
        (
            *with_policy("Upgrade"),
            f"{MIGRATION}.{UPGRADE_TEST}",
            f"{MIGRATION_AT_ONCE}.{UPGRADE_TEST}",
        ),
    ),
    "downgrades only": (
        {"group.consumer.migration.policy": "downgrade", **LONG_INTERVAL},
        (*with_policy("Downgrade"), f"{MIGRATION}.{DOWNGRADE_TEST}"),
    ),
    "downgrades only, at once": (
        {"group.consumer.migration.policy": "downgrade"},
        (f"{MIGRATION_AT_ONCE}.{DOWNGRADE_TEST}",),
    ),
    "share groups, batching": ({}, tuple(f"{SHARE}.{test}" for test in SHARE_TESTS)),
    "share groups, at once": (
        {"group.share.assignment.interval.ms": "0"},
        (
            *(f"{SHARE_AT_ONCE}.{test}" for test in SHARE_TESTS),
            "ShareGroupDescribeRequestTest.testShareGroupDescribe",
        ),
    ),
    "small share groups": (
        {"group.share.max.size": "2"},
        tuple(f"{kind}.{SHARE_SIZE_TEST}" for kind in (SHARE, SHARE_AT_ONCE)),
    ),
    "share groups, short sessions": (
        {
            "group.share.heartbeat.interval.ms": "500",
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.session.timeout.ms": "501",
            "group.share.min.session.timeout.ms": "501",
        },
        tuple(f"{kind}.{SHARE_SESSION_TEST}" for kind in (SHARE, SHARE_AT_ONCE)),
    ),
    "no share groups": (
        {"share.version": "0"},
        (
            *(f"{kind}.{SHARE_SWITCHED_OFF_TEST}" for kind in (SHARE, SHARE_AT_ONCE)),
            "ShareGroupDescribeRequestTest.testShareGroupDescribeIsInAccessibleWhenConfigsDisabled",
        ),
    ),
    "classic groups only": (
        {"group.coordinator.rebalance.protocols": "classic"},
        (
            "ConsumerGroupDescribeRequestTest.testConsumerGroupDescribeWhenFeatureFlagNotEnabled",
            *(f"{kind}.{test}" for kind in (HEARTBEATS, AT_ONCE) for test in SWITCHED_OFF_TESTS),
            "StreamsGroupDescribeRequestTest.testStreamsGroupDescribeWhenFeatureFlagNotEnabled",
            *(
                f"{kind}.{test}"
                for kind in (STREAMS, STREAMS_AT_ONCE)
                for test in STREAMS_SWITCHED_OFF_TESTS
            ),
        ),
    ),
}
"""Servers that some tests need: what they are started with beside SETTINGS, and the tests.

Migration has its own: one of the heartbeats' tests leaves a config to the group that all tests use.
"""

PASSED = Outcome("PASS", "")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def kafkas_tests() -> Path:
    """Where Kafka's request tests are, built."""
    try:
        return suite.built()
    except suite.NoSuiteError as error:
        pytest.skip(str(error))


@contextmanager
def running(
    directory: Path,
    coordinators: int,
    tests: Sequence[str],
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Start a server with the settings that Kafka's tests ask for, and let it load all it needs."""
    settings = {**SETTINGS, **more, "offsets.topic.num.partitions": str(coordinators)}
    server = servers.server(directory, settings, coordinators)
    try:
        server.start()
        if not servers.is_kafka():
            warm_up(server.bootstrap, members_for(tests, more))
        yield server.bootstrap
    finally:
        server.close()


@pytest.fixture(scope="module")
def outcomes(kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """What became of every test that has to pass, run in one go against one server."""
    with running(tmp_path_factory.mktemp("suite-server"), 1, REQUIRED) as bootstrap:
        out = tmp_path_factory.mktemp("suite-out")
        return suite.run(kafkas_tests, bootstrap, REQUIRED, SETTINGS, out)


@pytest.mark.parametrize("test", REQUIRED, ids=REQUIRED)
def test_kafkas_own_test_passes(outcomes: Mapping[str, Outcome], test: str) -> None:
    outcome = outcomes.get(test)
    assert outcome is not None, "it was not run"
    assert outcome.verdict == "PASS", outcome.why


@pytest.mark.parametrize("name", OTHER_SERVERS)
def test_kafkas_own_tests_pass_against_a_server_that_is_set_up_for_them(
    kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    more, tests = OTHER_SERVERS[name]
    with running(tmp_path_factory.mktemp("set-up-server"), 1, tests, more) as bootstrap:
        out = tmp_path_factory.mktemp("suite-out")
        outcomes = suite.run(kafkas_tests, bootstrap, tests, {**SETTINGS, **more}, out)
    failed = {test: outcomes.get(test) for test in tests if outcomes.get(test) != PASSED}
    assert failed == {}


def test_a_server_that_does_not_coordinate_a_group_says_so_as_kafkas_tests_expect(
    kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    failed = {}
    with running(tmp_path_factory.mktemp("other-server"), 2, ()) as bootstrap:
        for test, group_id in NOT_COORDINATOR.items():
            found = None if servers.is_kafka() else wire.coordinator_of(bootstrap, group_id)
            asked = next(one for one in bootstrap.split(",") if found is None or one != found[1])
            out = tmp_path_factory.mktemp("suite-out")
            outcome = suite.run(kafkas_tests, asked, [test], SETTINGS, out)[test]
            if outcome.verdict != "PASS":
                failed[test] = outcome.why
    assert failed == {}


@pytest.mark.skipif(servers.is_kafka(), reason="the suite starts Kafka itself")
def test_kafkas_tests_pass_that_restart_the_server(
    kafkas_tests: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A server that has just started loads its assignor at the first assignment, which may take
    # longer than the default assignment interval: these tests create a topic within one interval.
    out = tmp_path_factory.mktemp("suite-out")
    extra = "".join(f"{name}={value}\\n" for name, value in SETTINGS.items())
    command = (
        "grep -v '^suite[.]' {props_file} > {data_dir}.conf;"
        f" printf '{extra}' >> {{data_dir}}.conf;"
        " grep -q share.assignment.interval {props_file}"
        " || echo group.share.assignment.interval.ms=5000 >> {data_dir}.conf;"
        f" exec {Path(sys.executable).parent}/rollcall up --config {{data_dir}}.conf"
        " --port {port} --data-dir {data_dir}"
    )
    outcomes = suite.run_starting(kafkas_tests, command, RESTARTED, out)
    failed = {test: outcomes.get(test) for test in RESTARTED if outcomes.get(test) != PASSED}
    assert failed == {}


def test_every_test_of_these_classes_is_required_by_name(kafkas_tests: Path) -> None:
    elsewhere = {test for _, tests in OTHER_SERVERS.values() for test in tests}
    named = {*REQUIRED, *elsewhere, *NOT_COORDINATOR, *RESTARTED}
    assert suite.listed(kafkas_tests) == named
