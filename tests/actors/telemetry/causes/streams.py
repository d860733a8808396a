"""What makes a streams group rebalance: for each cause a group that clients have led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import StreamsTalk, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.protocol.groups.conversation import Conversation

QUIET_MS: Final = 60_000


def group(*names: str) -> StreamsTalk:
    """A Stable group of these members."""
    talk = StreamsTalk(is_offloaded=True)
    talk.advance(QUIET_MS)
    for name in names:
        talk.join(name)
    converge(talk, *(name.partition("=")[0] for name in names))
    return talk


def converge(talk: StreamsTalk, *names: str) -> None:
    """Let members own what they are assigned, a few times."""
    for _ in range(4):
        talk.work()
        for name in names:
            owned = {each.member_id: each.assignment for each in talk.describe().members}
            mine = owned[talk.id(name)]
            talk.owning(name, tasks(mine.active_tasks) or "", tasks(mine.standby_tasks) or "")
            talk.work()


def joined() -> StreamsTalk:
    talk = group("A")
    talk.join("B")
    talk.now += 20
    talk.work()
    talk.now += 700
    converge(talk, "A", "B")
    return talk


def left() -> StreamsTalk:
    talk = group("A", "B")
    talk.leave("B")
    converge(talk, "A")
    return talk


def session_expired() -> StreamsTalk:
    talk = group("A", "B")
    for _ in range(10):
        talk.advance(5_000)
        talk.beat("A")
    converge(talk, "A")
    return talk


def not_revoked() -> StreamsTalk:
    talk = group("A")
    talk.join("B")
    talk.work()
    for _ in range(14):
        talk.advance(5_000)
        talk.beat("A")  # never with what it still owns
        talk.beat("B")
    converge(talk, "B")
    return talk


def member_updated() -> StreamsTalk:
    talk = group("A", "B")
    talk.beat("B", process_id="another")
    converge(talk, "A", "B")
    return talk


def static_replaced() -> StreamsTalk:
    """A static member that comes back; it gets all that it had, and nothing else changes."""
    talk = group("A", "B=i")
    talk.leave("B", -2)
    talk.client("B").member_id = "B2"
    talk.join("B")
    converge(talk, "A", "B")
    return talk


def topics_changed() -> StreamsTalk:
    talk = group("A")
    talk.change_topics(**{"in": 4, "store-changelog": 4})
    talk.advance(0)
    converge(talk, "A")
    return talk


def topology_not_ready() -> StreamsTalk:
    talk = group("A")
    for count in (0, 3):
        talk.advance(5_000)
        talk.change_topics(**{"in": count})
        talk.advance(0)
        converge(talk, "A")
    return talk


def topology_ready() -> StreamsTalk:
    """They come back; only now the rebalance that took all tasks away has its end."""
    return topology_not_ready()


def configs_changed() -> StreamsTalk:
    talk = group("A")
    talk.shard.group_configs = {GROUP: {"streams.num.standby.replicas": "1"}}
    talk.advance(0)
    converge(talk, "A")
    return talk


def failover() -> StreamsTalk:
    talk = group("A")
    talk.join("B")
    talk.advance(400)
    talk.failover()
    talk.advance(100)
    converge(talk, "A", "B")
    return talk


SITUATIONS: Final[Mapping[Cause, Callable[[], Conversation]]] = {  # type: ignore[type-arg]
    Cause.JOINED: joined,
    Cause.LEFT: left,
    Cause.EXPIRED: session_expired,
    Cause.NOT_REVOKED: not_revoked,
    Cause.UPDATED: member_updated,
    Cause.STATIC_REPLACED: static_replaced,
    Cause.TOPICS_CHANGED: topics_changed,
    Cause.TOPOLOGY_READY: topology_ready,
    Cause.TOPOLOGY_NOT_READY: topology_not_ready,
    Cause.CONFIGS_CHANGED: configs_changed,
    Cause.FAILOVER: failover,
}
