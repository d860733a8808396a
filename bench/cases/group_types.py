"""The configs of servers whose groups of one type are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LONG_SESSION_MS: Final = "1500000"
TYPE_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "consumer": {},
    "share": {"group.share.max.size": "1000"},
    "streams": {"group.streams.num.standby.replicas": "1"},
}
"""By type; both servers have them."""

_LARGE_TARGETS: Final = {"message.max.bytes": "16777216"}
PEER_TYPE_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "consumer": {},
    "share": {
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        **_LARGE_TARGETS,
    },
    "streams": _LARGE_TARGETS,
}
"""For Kafka alone: its share state has as many partitions and replicas as its offsets, as ours.

The target of a share group of a thousand members that read a hundred topics each has more than two
megabytes, and so has that of a streams group of 50,000 tasks. Kafka writes all of it in one batch,
and with its default, one megabyte, it answers such heartbeats with UNKNOWN_SERVER_ERROR.
"""


def long_sessions(group_type: str) -> dict[str, str]:
    """Return the configs by which members stay in their groups while another server is measured."""
    names = ("max.session.timeout.ms", "session.timeout.ms")
    return {f"group.{group_type}.{name}": LONG_SESSION_MS for name in names}
