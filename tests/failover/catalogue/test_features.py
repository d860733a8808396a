"""UpdateFeatures (KIP-584) as Kafka's controller answers it, and the levels that nodes tell."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from failover.catalogue import features, levels
from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.catalogue.features import FAILED
from failover.catalogue.levels import (
    LEVELS,
    ROLLCALL_VERSION,
    SUPPORTED,
    Level,
    LevelRange,
    UnsupportedLevelError,
)
from failover.catalogue.records import FeatureKey, decode, encode, feature_record
from protocol.wire.admin_messages import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.wire.errors import ErrorCode
from tests.failover.catalogue.catalogs import Keeper
from tests.failover.catalogue.test_catalog_properties import replayed

UP, SAFE, UNSAFE = 1, 2, 3
INVALID = ErrorCode.invalid_update_version


def told(number: int, highest: int = SUPPORTED.highest, *, up: bool = True) -> Node:
    return Node(number, f"host{number}", 9092 + number, up).with_levels(LevelRange(0, highest))


def keeper_of(*highest: int, **configs: str) -> Keeper:
    """A catalogue of nodes whose programs support levels up to these."""
    keeper = Keeper(len(highest), **configs)
    for number, level in enumerate(highest):
        keeper.do(NodeChanged(told(number, level)))
    keeper.records.clear()
    return keeper


def update(keeper: Keeper, *changes: tuple[str, int, int], validate_only: bool = False) -> Any:
    """Ask UpdateFeatures (name, level, type); return the error."""
    message = UpdateFeaturesRequest(
        timeout=timedelta(seconds=1),
        feature_updates=tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in changes
        ),
        validate_only=validate_only,
    )
    answer = keeper.ask(57, message)
    return answer.error_code, answer.error_message


def finalized(keeper: Keeper) -> tuple[int, int]:
    image = keeper.catalog.image
    return image.level, image.features_epoch


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this program one of a later version: level 2 has a record more in a newer version."""
    second = Level(records={**LEVELS[1].records, ("groups", 5): 1}, files=LEVELS[1].files)
    monkeypatch.setattr(levels, "LEVELS", (*LEVELS, second))
    monkeypatch.setitem(features.SUPPORTED, ROLLCALL_VERSION, LevelRange(0, 2))


def test_a_level_that_all_nodes_support_is_finalized_and_lowered_again() -> None:
    keeper = keeper_of(1, 1, 1)
    assert finalized(keeper) == (0, 0)
    assert update(keeper, (ROLLCALL_VERSION, 1, UP)) == (ErrorCode.none, None)
    assert finalized(keeper) == (1, 1)
    assert [type(record.key) for record in keeper.records] == [FeatureKey]
    assert update(keeper, (ROLLCALL_VERSION, 0, SAFE)) == (ErrorCode.none, None)
    assert finalized(keeper) == (0, 2), "epochs do not fall: clients keep the newest"
    assert update(keeper, (ROLLCALL_VERSION, 1, UP)) == (ErrorCode.none, None)
    assert finalized(keeper) == (1, 3)


def test_the_same_level_again_writes_nothing() -> None:
    keeper = keeper_of(1)
    update(keeper, (ROLLCALL_VERSION, 1, UP))
    keeper.records.clear()
    for kind in (UP, SAFE, UNSAFE):
        assert update(keeper, (ROLLCALL_VERSION, 1, kind)) == (ErrorCode.none, None)
    assert update(keeper) == (ErrorCode.none, None)
    assert keeper.records == []


def test_a_question_changes_nothing() -> None:
    keeper = keeper_of(1, 0)
    refused = update(keeper, (ROLLCALL_VERSION, 1, UP), validate_only=True)
    assert refused == update(keeper, (ROLLCALL_VERSION, 1, UP))
    assert refused[0] is INVALID
    keeper.do(NodeChanged(told(1)))
    keeper.records.clear()
    assert update(keeper, (ROLLCALL_VERSION, 1, UP), validate_only=True) == (ErrorCode.none, None)
    assert keeper.records == [] and finalized(keeper) == (0, 0)


@pytest.mark.parametrize(
    "change, why",
    [
        ((ROLLCALL_VERSION, 1, 0), "The controller does not support the given upgrade type."),
        ((ROLLCALL_VERSION, 1, 4), "The controller does not support the given upgrade type."),
        ((ROLLCALL_VERSION, -1, SAFE), "A feature version cannot be less than 0."),
        ((ROLLCALL_VERSION, 2, UP), "The controller only supports versions 0-1."),
        ((ROLLCALL_VERSION, 1, SAFE), "Can't downgrade to a newer version."),
        (("group.version", 2, UP), "The controller only supports versions 0-1."),
        (
            ("group.version", 0, SAFE),
            "It follows the config group.coordinator.rebalance.protocols.",
        ),
        (
            ("group.version", 0, UP),
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        ),
        (("share.version", 0, UNSAFE), "It follows the config share.version."),
        (("metadata.version", 25, UP), "The controller does not support this feature."),
        (("nonsense", 0, SAFE), "The controller does not support this feature."),
    ],
)
def test_what_cannot_be_updated_is_refused_with_the_reason(
    change: tuple[str, int, int], why: str
) -> None:
    keeper = keeper_of(1, 1)
    name, level, _ = change
    assert update(keeper, change) == (
        INVALID,
        f"{FAILED}Invalid update version {level} for feature {name}. {why}",
    )
    assert keeper.records == []


def test_what_follows_a_config_may_be_asked_for_as_it_is() -> None:
    keeper = keeper_of(1)
    assert update(keeper, ("group.version", 1, UP), ("share.version", 1, UP))[0] is ErrorCode.none
    assert keeper.records == []


def test_one_feature_that_cannot_be_updated_refuses_all() -> None:
    keeper = keeper_of(1)
    code, _ = update(keeper, (ROLLCALL_VERSION, 1, UP), ("nonsense", 1, UP))
    assert code is INVALID and keeper.records == []


def test_the_refusal_names_the_nodes_that_do_not_support_a_level_also_those_that_are_down() -> None:
    keeper = keeper_of(1, 0, 1, 0)
    keeper.do(NodeChanged(Node(3, "host3", 9095, up=False)))
    _, sentence = update(keeper, (ROLLCALL_VERSION, 1, UP))
    assert sentence.endswith("It is not supported by node 1 (supports 0), node 3 (supports 0).")
    assert "\n" not in sentence


def test_a_refusal_names_only_some_of_very_many_nodes() -> None:
    _, sentence = update(keeper_of(*([0] * 25)), (ROLLCALL_VERSION, 1, UP))
    assert sentence.endswith("node 19 (supports 0), 5 more.")


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
@pytest.mark.usefixtures("later")
def test_a_downgrade_below_what_may_be_in_use_is_refused(kind: int) -> None:
    keeper = keeper_of(2, 2)
    assert update(keeper, (ROLLCALL_VERSION, 2, UP)) == (ErrorCode.none, None)
    code, sentence = update(keeper, (ROLLCALL_VERSION, 1, kind))
    assert code is INVALID
    assert sentence.endswith(
        "Refusing to perform the requested downgrade because level 1 cannot read what may be in "
        "use: version 1 of record type 5 of the groups."
    )
    assert finalized(keeper) == (2, 1)


@pytest.mark.usefixtures("later")
def test_in_a_mixed_cluster_the_level_that_all_nodes_support_may_be_finalized() -> None:
    keeper = keeper_of(2, 1, 2)
    assert update(keeper, (ROLLCALL_VERSION, 2, UP))[0] is INVALID
    assert update(keeper, (ROLLCALL_VERSION, 1, UP)) == (ErrorCode.none, None)
    keeper.do(NodeChanged(told(1, 2)))
    assert update(keeper, (ROLLCALL_VERSION, 2, UP)) == (ErrorCode.none, None)


def test_a_node_that_is_reported_down_keeps_the_levels_that_it_told() -> None:
    keeper = keeper_of(1)
    keeper.do(NodeChanged(Node(0, "host0", 9092, up=False)))
    assert keeper.catalog.image.nodes[0] == told(0, up=False)
    keeper.do(NodeChanged(Node(0, "host0", 9092)))  # an older program tells none
    assert keeper.catalog.image.nodes[0].levels == LevelRange(0, 0)


def test_features_are_in_the_log_and_in_its_snapshot() -> None:
    keeper = keeper_of(1)
    update(keeper, (ROLLCALL_VERSION, 1, UP))
    for records in (keeper.records, keeper.catalog.snapshot()):
        image = replayed(records).image
        assert (image.level, image.features_epoch) == (1, 1)
    record = feature_record(ROLLCALL_VERSION, 1, 1)
    assert decode(*encode(record)) == record


def test_a_program_refuses_a_level_of_a_later_version_in_one_sentence() -> None:
    for level in range(SUPPORTED.highest + 1):
        levels.check(level)
    with pytest.raises(UnsupportedLevelError, match="is finalized at level 2") as raised:
        levels.check(2)
    assert "install the version that the other hosts have" in str(raised.value)
    assert "\n" not in str(raised.value)
