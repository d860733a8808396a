"""Conversion between API versions: requests to the newest version, answers to the client's.

Field names and defaults do nearly all of it (see ``convert``). The rest is in the tables at the
end: APIs that once had one group, key or member and now have many.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kio.schema.update_features.v0.request import FeatureUpdateKey as FeatureUpdateKeyV0

from protocol.wire import messages as m
from protocol.wire.admin_messages import FeatureUpdateKey
from protocol.wire.apis import API
from protocol.wire.convert import Convert, converter
from protocol.wire.errors import ErrorCode
from protocol.wire.kafka_4_4.index import request_shape, response_shape
from protocol.wire.operations import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity


class UnsupportedVersionError(Exception):
    """A message has content that the other side's version cannot express."""


class ConversionPlan(NamedTuple):
    """How one version of a request or response is decoded and encoded.

    ``shape`` is kio's class, or one in its form; ``up`` copies it to the newest version and
    ``down`` back. Where the two are the same class, neither copies.
    """

    shape: type[Entity]
    up: Convert
    down: Convert


@cache
def request_plan(api_key: int, version: int) -> ConversionPlan:
    """Return the plan of a request."""
    newest = API[api_key].request
    return _plan(request_shape(api_key, version), newest, REQUESTS.get(api_key, ()))


@cache
def response_plan(api_key: int, version: int) -> ConversionPlan:
    """Return the plan of a response."""
    newest = API[api_key].response
    return _plan(response_shape(api_key, version), newest, RESPONSES.get(api_key, ()))


def _plan(shape: type[Entity], newest: type[Entity], rows: tuple[Special, ...]) -> ConversionPlan:
    up: dict[str, Convert] = {}
    down: dict[str, Convert] = {}
    for row in rows:
        if shape.__version__ <= row.last_version:
            up.update(row.up)
            down.update(row.down)
    return ConversionPlan(shape, converter(shape, newest, up), converter(newest, shape, down))


Fields: TypeAlias = "Mapping[str, Convert]"
_NONE: Final[Fields] = MappingProxyType({})


class Special(NamedTuple):
    """For versions up to ``last_version``: fields that are not simply copied.

    Each function takes the whole message and returns the field's value: ``up`` the newest version's
    fields from the old message, ``down`` the old version's fields from the newest message.
    """

    last_version: int
    up: Fields
    down: Fields = _NONE


def _one(items: Any, what: str) -> Any:
    """Return the only item; an old version has room for only one."""
    if len(items) != 1:
        raise UnsupportedVersionError(f"this version has room for one {what}, not {len(items)}")
    return items[0]


def _fetch_groups(old: Any) -> tuple[m.OffsetFetchRequestGroup, ...]:
    topics = old.topics
    if topics is not None:
        topics = tuple(
            m.OffsetFetchRequestTopics(
                topic_id=None, name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in topics
        )
    return (m.OffsetFetchRequestGroup(group_id=old.group_id, topics=topics),)


def _fetched_groups(old: Any) -> tuple[m.OffsetFetchResponseGroup, ...]:
    topics = tuple(
        m.OffsetFetchResponseTopics(
            topic_id=None,
            name=topic.name,
            partitions=tuple(
                m.OffsetFetchResponsePartitions(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=getattr(each, "committed_leader_epoch", -1),
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ),
        )
        for topic in old.topics
    )
    code = getattr(old, "error_code", ErrorCode.none)
    return (m.OffsetFetchResponseGroup(group_id="", topics=topics, error_code=code),)


def _coordinators(old: Any) -> tuple[m.Coordinator, ...]:
    return (
        m.Coordinator(
            key="",
            node_id=old.node_id,
            host=old.host,
            port=old.port,
            error_code=old.error_code,
            error_message=getattr(old, "error_message", None),
        ),
    )


def _coordinator(field: str) -> Convert:
    return lambda new: getattr(_one(new.coordinators, "key"), field)


def _left_error(new: Any) -> ErrorCode:
    """Return the only member's error when there is no top-level error."""
    if new.error_code != ErrorCode.none or not new.members:
        return new.error_code  # type: ignore[no-any-return]
    return _one(new.members, "member").error_code  # type: ignore[no-any-return]


def _names(new: Any) -> tuple[str, ...]:
    if any(topic.name is None for topic in new.topics):
        raise UnsupportedVersionError("this version deletes topics by name only")
    return tuple(topic.name for topic in new.topics)


def _feature_updates(old: Any) -> tuple[FeatureUpdateKey, ...]:
    return tuple(
        FeatureUpdateKey(
            feature=each.feature,
            max_version_level=each.max_version_level,
            upgrade_type=UpgradeType.SAFE_DOWNGRADE
            if each.allow_downgrade
            else UpgradeType.UPGRADE,
        )
        for each in old.feature_updates
    )


def _feature_updates_v0(new: Any) -> tuple[FeatureUpdateKeyV0, ...]:
    return tuple(
        FeatureUpdateKeyV0(
            feature=each.feature,
            max_version_level=each.max_version_level,
            allow_downgrade=each.upgrade_type != UpgradeType.UPGRADE,
        )
        for each in new.feature_updates
    )


REQUESTS: Final[Mapping[int, tuple[Special, ...]]] = MappingProxyType(
    {
        3: (  # version 0 asks for all topics by an empty list, later ones by null
            Special(0, {"topics": lambda old: _metadata_topics(old.topics)}),
        ),
        9: (  # one group until KIP-709
            Special(
                7,
                {"groups": _fetch_groups},
                {
                    "group_id": lambda new: _one(new.groups, "group").group_id,
                    "topics": lambda new: _one(new.groups, "group").topics,
                },
            ),
        ),
        10: (  # one key until KIP-699
            Special(
                3,
                {"coordinator_keys": lambda old: (old.key,)},
                {"key": lambda new: _one(new.coordinator_keys, "key")},
            ),
        ),
        11: (  # version 0 rebalances within the session timeout
            Special(0, {"rebalance_timeout": lambda old: old.session_timeout}),
        ),
        13: (  # one member until KIP-345
            Special(
                2,
                {"members": lambda old: (m.MemberIdentity(member_id=old.member_id),)},
                {"member_id": lambda new: _one(new.members, "member").member_id},
            ),
        ),
        20: (  # names only until KIP-516
            Special(
                5,
                {
                    "topics": lambda old: tuple(
                        m.DeleteTopicState(name=name, topic_id=None) for name in old.topic_names
                    )
                },
                {"topic_names": _names},
            ),
        ),
        57: (  # version 0 has no type of downgrade
            Special(
                0, {"feature_updates": _feature_updates}, {"feature_updates": _feature_updates_v0}
            ),
        ),
    }
)

RESPONSES: Final[Mapping[int, tuple[Special, ...]]] = MappingProxyType(
    {
        9: (
            Special(
                7,
                {"groups": _fetched_groups},
                {
                    "topics": lambda new: _one(new.groups, "group").topics,
                    "error_code": lambda new: _one(new.groups, "group").error_code,
                },
            ),
        ),
        10: (
            Special(
                3,
                {"coordinators": _coordinators},
                {
                    field: _coordinator(field)
                    for field in ("error_code", "error_message", "node_id", "host", "port")
                },
            ),
        ),
        13: (Special(2, _NONE, {"error_code": _left_error}),),
        88: (  # the lag has another type, and another default, since version 1
            Special(
                0,
                {
                    "acceptable_recovery_lag_legacy": lambda old: old.acceptable_recovery_lag,
                    "acceptable_recovery_lag": lambda _: -1,
                },
                {"acceptable_recovery_lag": lambda new: new.acceptable_recovery_lag_legacy},
            ),
        ),
    }
)


def _metadata_topics(topics: Any) -> tuple[m.MetadataRequestTopic, ...] | None:
    if not topics:
        return None
    return tuple(m.MetadataRequestTopic(topic_id=None, name=topic.name) for topic in topics)
