"""ApiVersions and FindCoordinator."""

from datetime import timedelta
from typing import Any

import pytest

from failover.apis.coordinators import NO_TRANSACTIONS
from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.catalogue.levels import ROLLCALL_VERSION
from failover.catalogue.records import feature_record
from failover.partition_kinds import SHARE_STATE
from protocol.wire import messages as m
from protocol.wire.apis import API, error_response
from protocol.wire.errors import ErrorCode, KafkaError
from tests.failover.catalogue.catalogs import Keeper, answer

NONE = ErrorCode.none
UNAVAILABLE = ErrorCode.coordinator_not_available
SHARE_KEY = "group:AAAAAAAAAAAAAAAAAAAAAQ:0"


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


def find(
    keeper: Keeper, *keys: str, key_type: int = 0, version: int = 6, **view: Any
) -> list[tuple[ErrorCode, int]]:
    message = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    response = answer(keeper.view(**view), 10, message, version)
    assert [one.key for one in response.coordinators] == list(keys)
    return [(one.error_code, one.node_id) for one in response.coordinators]


def test_groups_are_led_by_the_leader_of_their_partition(keeper: Keeper) -> None:
    # "a" to "c" hash to 97, 98, 99 in Java: partitions 1, 2, 0 of 3
    assert find(keeper, "a", "b", "c") == [(NONE, 1), (NONE, 2), (NONE, 0)]
    assert find(keeper, "a", leaders={1: 0}) == [(NONE, 0)]


def test_the_answer_holds_the_address(keeper: Keeper) -> None:
    message = m.FindCoordinatorRequest(key_type=0, coordinator_keys=("a",))
    (found,) = answer(keeper.view(), 10, message).coordinators
    assert (found.host, found.port) == ("host1", 9093)


def test_no_leader_or_one_that_is_down_is_not_available(keeper: Keeper) -> None:
    assert find(keeper, "a", leaders={}) == [(UNAVAILABLE, -1)]
    keeper.do(NodeChanged(Node(1, "host1", 9093, up=False)))
    assert find(keeper, "a", "b") == [(UNAVAILABLE, -1), (NONE, 2)]


@pytest.mark.parametrize(
    "key_type, version, key, code",
    [
        (1, 6, "transaction", ErrorCode.transactional_id_authorization_failed),
        (1, 0, "transaction", ErrorCode.transactional_id_authorization_failed),
        (2, 6, SHARE_KEY, NONE),
        (2, 6, "with:colons:AAAAAAAAAAAAAAAAAAAAAQ:-7", NONE),
        (2, 6, "group", ErrorCode.invalid_request),
        (2, 6, "group:AAAAAAAAAAAAAAAAAAAAAQ:x", ErrorCode.invalid_request),
        (2, 6, "group:AAAA:0", ErrorCode.invalid_request),
        (2, 5, SHARE_KEY, ErrorCode.invalid_request),
        (0, 6, "", NONE),
    ],
)
def test_a_share_coordinator_is_found_and_a_transaction_coordinator_is_not(
    keeper: Keeper, key_type: int, version: int, key: str, code: ErrorCode
) -> None:
    leaders = {0: 0, 1: 1, 2: 2, **dict.fromkeys(SHARE_STATE.numbers(3), 1)}
    ((got, node_id),) = find(keeper, key, key_type=key_type, version=version, leaders=leaders)
    assert got is code
    assert node_id == 1 or key_type != 2 or code is not NONE


def test_who_looks_for_transactions_is_told_why_not_and_held_off(keeper: Keeper) -> None:
    for key_type, throttle_ms, sentence in ((0, 0, None), (1, 1000, NO_TRANSACTIONS)):
        message = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a",))
        response = answer(keeper.view(), 10, message)
        assert response.throttle_time == timedelta(milliseconds=throttle_ms)
        assert response.coordinators[0].error_message == sentence


def test_an_unknown_key_type_fails_the_request(keeper: Keeper) -> None:
    with pytest.raises(KafkaError) as raised:
        find(keeper, "a", key_type=3)
    assert raised.value.code is ErrorCode.invalid_request


def test_api_versions_lists_exactly_what_is_served(keeper: Keeper) -> None:
    message = m.ApiVersionsRequest(client_software_name="x", client_software_version="1.0")
    response = answer(keeper.view(), 18, message)
    assert {(one.api_key, one.min_version, one.max_version) for one in response.api_keys} == {
        (api.key, api.advertised_min_version, api.max_version) for api in API.values()
    }


SUPPORTED = [
    ("group.version", 0, 1),
    ("streams.version", 0, 1),
    ("share.version", 0, 1),
    ("rollcall.version", 0, 1),
]
GROUP_1, SHARE_1 = ("group.version", 1, 1), ("share.version", 1, 1)
STREAMS_1 = ("streams.version", 1, 1)


@pytest.mark.parametrize(
    "protocols, share, version, supported, finalized",
    [
        ("classic,consumer", 1, 4, SUPPORTED, [GROUP_1, SHARE_1]),
        ("classic,streams", 1, 4, SUPPORTED, [STREAMS_1, SHARE_1]),
        ("classic", 1, 4, SUPPORTED, [SHARE_1]),
        ("classic,consumer", 0, 4, SUPPORTED, [GROUP_1]),
        ("classic,consumer", 1, 3, [], [GROUP_1, SHARE_1]),  # KAFKA-17492: no level 0 before 4
    ],
)
def test_features_are_listed_by_their_levels(
    protocols: str, share: int, version: int, supported: list[object], finalized: list[object]
) -> None:
    keeper = Keeper(group_coordinator_rebalance_protocols=protocols, share_version=str(share))
    message = m.ApiVersionsRequest(client_software_name="x", client_software_version="1.0")
    response = answer(keeper.view(), 18, message, version)
    assert [
        (one.name, one.min_version, one.max_version) for one in response.supported_features
    ] == supported
    assert [
        (one.name, one.min_version_level, one.max_version_level)
        for one in response.finalized_features
    ] == finalized
    assert response.finalized_features_epoch == 0


def test_a_finalized_level_and_its_epoch_are_told_by_every_node(keeper: Keeper) -> None:
    for level, epoch in ((1, 1), (0, 2), (1, 3)):
        keeper.catalog.replay(feature_record(ROLLCALL_VERSION, level, epoch))
        message = m.ApiVersionsRequest(client_software_name="x", client_software_version="1.0")
        response = answer(keeper.view(), 18, message)
        told = {one.name: one.max_version_level for one in response.finalized_features}
        assert told.get(ROLLCALL_VERSION, 0) == level
        assert response.finalized_features_epoch == epoch


@pytest.mark.parametrize(
    "name, is_fine", [("a-b.c9", True), ("", False), ("-x", False), ("ä", False)]
)
def test_clients_have_proper_names_since_version_3(
    keeper: Keeper, name: str, is_fine: bool
) -> None:
    # KIP-511
    message = m.ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    answer(keeper.view(), 18, message, 2)
    if is_fine:
        answer(keeper.view(), 18, message, 3)
        return
    with pytest.raises(KafkaError) as raised:
        answer(keeper.view(), 18, message, 3)
    assert raised.value.code is ErrorCode.invalid_request


OK, INVALID = ErrorCode.none, ErrorCode.invalid_request
ELSEWHERE = ErrorCode.rebootstrap_required


@pytest.mark.parametrize(
    ("cluster", "node", "version", "code"),
    [
        (None, None, 5, OK),
        ("own", "own", 5, OK),
        ("other", "own", 5, ELSEWHERE),
        ("own", "other", 5, ELSEWHERE),
        ("own", None, 5, INVALID),  # both or neither
        (None, "own", 5, INVALID),
        ("", "own", 5, ELSEWHERE),
    ],
)
def test_a_client_that_meant_another_cluster_or_node_bootstraps_again(
    keeper: Keeper, cluster: str | None, node: str | None, version: int, code: ErrorCode
) -> None:
    # KIP-1242
    view = keeper.view()
    clusters = {"own": view.cluster_id, "other": f"not {view.cluster_id}"}
    nodes = {"own": view.node_id, "other": view.node_id + 1, None: -1}
    message = m.ApiVersionsRequest(
        client_software_name="x",
        client_software_version="1.0",
        cluster_id=clusters.get(cluster or "", cluster),
        node_id=nodes[node],
    )
    if code is OK:
        assert answer(view, 18, message, version).api_keys
        return
    with pytest.raises(KafkaError) as raised:
        answer(view, 18, message, version)
    assert raised.value.code is code
    assert error_response(18, message, code).api_keys == ()
