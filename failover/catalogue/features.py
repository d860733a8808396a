"""UpdateFeatures (KIP-584), and the features of the cluster with their finalized levels.

Levels of Kafka's features follow from configs, as ``kafka-features`` shows them; only
:data:`failover.catalogue.levels.ROLLCALL_VERSION` is finalized by UpdateFeatures. A request is
answered as by Kafka's controller: if one feature cannot be updated, none is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from failover.catalogue import levels
from failover.catalogue.levels import ROLLCALL_VERSION, LevelRange
from failover.catalogue.records import feature_record
from protocol.wire.admin_messages import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import NO_THROTTLE
from protocol.wire.operations import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.catalogue.state import CatalogState
    from protocol.config import Configs
    from protocol.groups.effects import Request

PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
BY_PROTOCOL: Final = {"consumer": "group.version", "streams": "streams.version"}
"""Kafka's features by the rebalance protocol that level 1 of each is (KIP-848, KIP-1071)."""

SHARE_VERSION: Final = "share.version"
"""Kafka's feature of share groups (KIP-932), and the config with its level."""

CONFIG_OF: Final = {**dict.fromkeys(BY_PROTOCOL.values(), PROTOCOLS), SHARE_VERSION: SHARE_VERSION}
"""The config that each of Kafka's features follows."""

SUPPORTED: Final = {
    **dict.fromkeys(CONFIG_OF, LevelRange(0, 1)),
    ROLLCALL_VERSION: levels.SUPPORTED,
}
"""The levels of each feature that this program supports."""

FAILED: Final = "The update failed for all features since the following feature had an error: "
UNKNOWN_TYPE: Final = "The controller does not support the given upgrade type."
NEGATIVE: Final = "A feature version cannot be less than 0."
NO_DOWNGRADE: Final = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)
NO_UPGRADE: Final = "Can't downgrade to a newer version."
NODES_NAMED: Final = 20
"""The most nodes that a refusal names."""


def finalized(configs: Configs, written: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized level of each feature, without those at level 0.

    ``configs`` are those of the node that is asked, ``written`` the levels in the catalogue.
    """
    protocols = configs.strings(PROTOCOLS)
    found = {name: 1 for protocol, name in BY_PROTOCOL.items() if protocol in protocols}
    found[SHARE_VERSION] = configs.integer(SHARE_VERSION)
    found[ROLLCALL_VERSION] = written.get(ROLLCALL_VERSION, 0)
    return {name: level for name, level in found.items() if level}


def update_features(catalog: CatalogState, request: Request) -> None:
    """Finalize the levels of features, or only check whether that is possible."""
    message = cast("UpdateFeaturesRequest", request.message)
    updates = {each.feature: each for each in message.feature_updates}
    try:
        changes = [each for each in updates.values() if _is_change(catalog, each)]
    except KafkaError as error:
        raise KafkaError(error.code, f"{FAILED}{error.message}") from None
    epoch = catalog.image.features_epoch + 1
    for each in () if message.validate_only else changes:
        catalog.emit(feature_record(each.feature, each.max_version_level, epoch))
    results = tuple(
        UpdatableFeatureResult(feature=name, error_code=ErrorCode.none, error_message=None)
        for name in updates
    )
    answer = UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, results=results
    )
    catalog.reply(request, answer)


def _is_change(catalog: CatalogState, update: FeatureUpdateKey) -> bool:
    """Return whether an update changes a level; raise KafkaError if it may not be done."""
    name, wanted = update.feature, update.max_version_level
    current = finalized(catalog.configs, catalog.image.features).get(name, 0)
    if why := _why_not(catalog, update, current):
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {wanted} for feature {name}. {why}",
        )
    return wanted != current


def _why_not(catalog: CatalogState, update: FeatureUpdateKey, current: int) -> str:
    """Return why an update is refused, a sentence; the checks are in Kafka's order."""
    name, wanted, kind = update.feature, update.max_version_level, update.upgrade_type
    if kind not in UpgradeType.__members__.values():
        return UNKNOWN_TYPE
    if wanted < 0:
        return NEGATIVE
    if why := _why_unsupported(catalog, name, wanted):
        return why
    if wanted < current:
        if kind == UpgradeType.UPGRADE:
            return NO_DOWNGRADE
    elif wanted > current and kind != UpgradeType.UPGRADE:
        return NO_UPGRADE
    return _why_fixed(name, current, wanted)


def _why_fixed(name: str, current: int, wanted: int) -> str:
    """Return why a level cannot be changed to another that all nodes support, a sentence."""
    if wanted == current:
        return ""
    if name in CONFIG_OF:
        return f"It follows the config {CONFIG_OF[name]}."
    lost = levels.lost_below(current, wanted) if wanted < current else []
    if not lost:
        return ""
    return (
        f"Refusing to perform the requested downgrade because level {wanted} cannot read what may "
        f"be in use: {', '.join(lost)}."
    )


def _why_unsupported(catalog: CatalogState, name: str, wanted: int) -> str:
    """Return which nodes do not support a level; nodes that are down count, too."""
    ours = SUPPORTED.get(name)
    if ours is None:
        return "The controller does not support this feature."
    if wanted not in ours:
        return f"The controller only supports versions {ours}."
    if name != ROLLCALL_VERSION:
        return ""
    nodes = catalog.image.nodes.items()
    lacking = [(node_id, node.levels) for node_id, node in nodes if wanted not in node.levels]
    if not lacking:
        return ""
    told = [f"node {node_id} (supports {theirs})" for node_id, theirs in lacking[:NODES_NAMED]]
    if len(lacking) > NODES_NAMED:
        told.append(f"{len(lacking) - NODES_NAMED} more")
    return f"It is not supported by {', '.join(told)}."


HANDLERS: Final[Mapping[int, Callable[[CatalogState, Request], None]]] = {57: update_features}
