"""What makes a share group rebalance: for each cause a group that clients have led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.share.share_talk import ShareTalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.protocol.groups.conversation import Conversation

QUIET_MS: Final = 60_000


def group(*names: str) -> ShareTalk:
    """A Stable group of these members."""
    talk = ShareTalk(in_place=False)
    talk.advance(QUIET_MS)
    for name in names:
        talk.join(name)
    settle(talk, *names)
    return talk


def settle(talk: ShareTalk, *names: str) -> None:
    """Go on until partitions are initialized and everybody has a share."""
    for _ in range(3):
        talk.converge(*names)
        talk.advance(100)


def joined() -> ShareTalk:
    talk = group("A")
    talk.join("B")
    talk.now += 20
    talk.work()
    talk.now += 700
    settle(talk, "A", "B")
    return talk


def left() -> ShareTalk:
    talk = group("A", "B")
    talk.leave("B")
    settle(talk, "A")
    return talk


def session_expired() -> ShareTalk:
    talk = group("A", "B")
    for _ in range(10):
        talk.advance(5_000)
        talk.beat("A")
    settle(talk, "A")
    return talk


def subscription_changed() -> ShareTalk:
    talk = group("A", "B")
    talk.beat("B", subscribed_topic_names=("a", "b"))
    settle(talk, "A", "B")
    return talk


def topics_changed() -> ShareTalk:
    talk = group("A")
    talk.set_topics(a=6, b=2)
    settle(talk, "A")
    return talk


def share_state() -> ShareTalk:
    return group("A")


def configs_changed() -> ShareTalk:
    """One of two active members becomes a spare; the config is the group's own."""
    talk = group("A", "B")
    talk.shard.group_configs = {GROUP: {"group.active.members": "1"}}
    talk.advance(0)
    settle(talk, "A", "B")
    return talk


def failover() -> ShareTalk:
    talk = group("A")
    talk.join("B")
    talk.advance(400)
    talk.failover()
    talk.advance(100)
    settle(talk, "A", "B")
    return talk


SITUATIONS: Final[Mapping[Cause, Callable[[], Conversation]]] = {  # type: ignore[type-arg]
    Cause.JOINED: joined,
    Cause.LEFT: left,
    Cause.EXPIRED: session_expired,
    Cause.SUBSCRIBED: subscription_changed,
    Cause.TOPICS_CHANGED: topics_changed,
    Cause.SHARE_STATE: share_state,
    Cause.CONFIGS_CHANGED: configs_changed,
    Cause.FAILOVER: failover,
}
