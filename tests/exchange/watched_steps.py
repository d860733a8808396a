"""What happens in groups of a watched Kafka, one thing after the other, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.stories.causes import Cause
from tests.exchange.watched_groups import (
    INSTANCE,
    JAVA,
    LONE,
    WatchedGroup,
    matching,
    topic_of,
)
from tests.exchange.watched_kafka import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Step(NamedTuple):
    """One thing that happens in a group (None: it comes of the one before), and what is told.

    ``cause`` is the one that its trace has; ``inferred`` a pattern of the evidence, "" if the
    records say it. ``kind``: the type that the group has then, "" if it is the same as before.
    """

    act: Callable[[WatchedGroup], None] | None
    told: str
    cause: Cause
    inferred: str = ""
    kind: str = ""


GONE: Final = "left or its session ended; it never committed"
_NEW: Final = "new in generation"
_SUBSCRIBES: Final = "subscribes to other topics"
_CHANGED: Final = "its topics have changed .inferred"
_HASH: Final = "hash is another one"
_WAITED: Final = "(; waited [^;]+)*"
"""A coordinator may take its time for a target, and members for their shares."""


_WITHOUT_CAUSE: Final = Step(
    WatchedGroup.rebalance_without_cause,
    "it was rebalanced, and the records do not say why .inferred",
    Cause.NOT_RECORDED,
    "neither a member nor the hash of the topics changed",
)
"""The last one of a group: what its coordinator writes after it does not follow."""


def _comes_and_goes(kind: str) -> tuple[Step, ...]:
    """Return what is told of the second and third member: one leaves, one vanishes."""
    return (
        Step(WatchedGroup.join, f"member {kind}-2 .*joined", Cause.JOINED),
        Step(WatchedGroup.leave, f"member {kind}-2 .*is gone .inferred", Cause.GONE, GONE),
        Step(WatchedGroup.join, f"member {kind}-3 .*joined", Cause.JOINED),
        Step(WatchedGroup.vanish, f"member {kind}-3 .*is gone .inferred", Cause.GONE, GONE),
    )


_CLASSIC: Final = (
    Step(WatchedGroup.join, "member older-1 .*joined", Cause.JOINED, _NEW),
    Step(
        WatchedGroup.subscribe_more,
        f"member older-1 .*{_SUBSCRIBES} .inferred.*; 4 partitions newly",
        Cause.SUBSCRIBED,
        "its subscription is another one",
    ),
    Step(
        WatchedGroup.enlarge,
        f"{_CHANGED}.*; 2 partitions newly",
        Cause.TOPICS_CHANGED,
        "2 partitions are assigned that nobody had",
    ),
    Step(WatchedGroup.join, "member older-2 .*joined", Cause.JOINED, _NEW),
    Step(
        None,
        "gave up partitions and joined again",
        Cause.GAVE_UP,
        r"\d partitions that had been taken away are assigned again",
    ),
    Step(WatchedGroup.leave, "member older-2 .*is gone .inferred", Cause.GONE, GONE),
)

_AS_BEFORE: Final = "the members and their subscriptions are those of the generation before"
_LONE: Final = (
    Step(WatchedGroup.join, "member .* joined", Cause.JOINED, _NEW),
    Step(
        WatchedGroup.join_again,
        "it was rebalanced, and the records do not say why",
        Cause.NOT_RECORDED,
        _AS_BEFORE,
    ),
    Step(
        WatchedGroup.change_assignor,
        "joined again",
        Cause.REJOINED,
        "the assignor was range, and is roundrobin",
    ),
    Step(WatchedGroup.join_static, f"member {INSTANCE} .*joined", Cause.JOINED, _NEW),
    Step(
        WatchedGroup.come_back,
        f"member {INSTANCE} .*came back under a new member id",
        Cause.STATIC_REPLACED,
        "its instance id has another member id",
    ),
    Step(
        WatchedGroup.come_back_changed,
        f"member {INSTANCE} .*came back with other protocols or topics",
        Cause.STATIC_CHANGED,
        "its instance id has another member id",
    ),
)

_CONSUMER: Final = (
    Step(WatchedGroup.join, r"member \S*modern-1 .*joined", Cause.JOINED),
    Step(
        WatchedGroup.subscribe_more,
        rf"member \S*modern-1 .*{_SUBSCRIBES}{_WAITED}; 4 partitions newly",
        Cause.SUBSCRIBED,
    ),
    Step(
        WatchedGroup.enlarge,
        f"{_CHANGED}.*; 2 partitions newly",
        Cause.TOPICS_CHANGED,
        _HASH,
    ),
    Step(
        WatchedGroup.subscribe_by_regex,
        rf"member \S*modern-1 .*{_SUBSCRIBES}",
        Cause.SUBSCRIBED,
    ),
    Step(
        WatchedGroup.create_matching,
        f"a regular expression matches other topics{_WAITED}; 1 partition newly",
        Cause.REGEX_RESOLVED,
    ),
    Step(WatchedGroup.join, r"member \S*modern-2 .*joined", Cause.JOINED),
    Step(WatchedGroup.leave, r"member \S*modern-2 .*is gone .inferred", Cause.GONE, GONE),
    Step(
        WatchedGroup.replace,
        rf"member static-modern-1 .*came back under a new member id{_WAITED}; \d",
        Cause.STATIC_REPLACED,
    ),
    Step(
        WatchedGroup.cling,
        r"member \S*modern-1 .*did not give up its partitions within its rebalance timeout",
        Cause.NOT_REVOKED,
        "it was to give up partitions for",
    ),
    Step(WatchedGroup.join_classic, "member modern-4 .*joined", Cause.JOINED),
    Step(
        WatchedGroup.leave_first,
        "it has changed its type",
        Cause.CONVERTED,
        "joined again for the first time since then",
        kind="classic",
    ),
)

_PARTIAL: Final = (
    Step(WatchedGroup.join, r"member \S*partial-1 .*joined", Cause.JOINED),
    _WITHOUT_CAUSE,
)

_SHARE_STATE: Final = f"more of its partitions may be assigned{_WAITED}; 4 partitions newly"
_SHARE: Final = (
    Step(WatchedGroup.join, "member .* joined", Cause.JOINED),
    Step(None, _SHARE_STATE, Cause.SHARE_STATE),
    *_comes_and_goes("share"),
    Step(WatchedGroup.enlarge, _CHANGED, Cause.TOPICS_CHANGED, _HASH),
    Step(WatchedGroup.subscribe_more, f"member .*{_SUBSCRIBES}", Cause.SUBSCRIBED),
    Step(WatchedGroup.join_java, f"member {JAVA} .*joined", Cause.JOINED),
    Step(WatchedGroup.leave_java, f"member {JAVA} .*is gone .inferred", Cause.GONE, GONE),
    _WITHOUT_CAUSE,
)

_READY: Final = f"all topics of its topology exist now{_WAITED}; 8 tasks newly"
_UNFIT: Final = "other numbers of partitions.*; 0 tasks moved; 8 without an owner now"
"""The internal topics have as many partitions as the topic had before."""

_STREAMS: Final = (
    Step(WatchedGroup.join, "member .* joined", Cause.JOINED),
    Step(None, _READY, Cause.TOPOLOGY_READY),
    *_comes_and_goes("streams"),
    Step(
        WatchedGroup.move_process,
        "member .*has another process, endpoint, host or tags",
        Cause.UPDATED,
    ),
    Step(
        WatchedGroup.want_standbys,
        "its assignment configs have changed",
        Cause.CONFIGS_CHANGED,
    ),
    Step(WatchedGroup.enlarge, _UNFIT, Cause.TOPOLOGY_NOT_READY),
)

_FLOWS: Final = (
    Step(WatchedGroup.join, "member .* joined", Cause.JOINED),
    Step(None, _READY, Cause.TOPOLOGY_READY),
    Step(WatchedGroup.enlarge_all, f"{_CHANGED}.*; 4 tasks newly", Cause.TOPICS_CHANGED, _HASH),
    Step(
        WatchedGroup.cling,
        "member flows-1 .*did not give up its partitions within its rebalance timeout",
        Cause.NOT_REVOKED,
        "it was to give up partitions for",
    ),
    _WITHOUT_CAUSE,
)

STEPS: Final[Mapping[str, tuple[str, tuple[Step, ...]]]] = {
    "older": ("classic", _CLASSIC),
    LONE: ("classic", _LONE),
    "modern": ("consumer", _CONSUMER),
    "partial": ("consumer", _PARTIAL),
    "share": ("share", _SHARE),
    "flows": ("streams", _FLOWS),
    "streams": ("streams", _STREAMS),
}
"""By the id of a group: its type, and what happens in it; the last one enlarges ``TOPIC``."""

TOPICS: Final = (TOPIC, *map(topic_of, STEPS), matching("modern"))
"""All topics of these groups."""

TRACED: Final = (
    ("classic", Cause.JOINED, True),
    ("consumer", Cause.JOINED, False),
    ("classic", Cause.LEFT, True),
    ("consumer", Cause.LEFT, True),
    ("classic", Cause.EXPIRED, True),
    ("consumer", Cause.EXPIRED, True),
)
"""Types of groups, causes of rebalances that are told of them, and whether these are inferred.

Members with processes of their own do this, in groups with the names of their types.
"""
