"""What makes a consumer group rebalance: for each cause a group that clients have led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause
from protocol.wire.messages import LeaveGroupRequest, MemberIdentity
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.migration.mixed_talk import MixedTalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.protocol.groups.conversation import Conversation

QUIET_MS: Final = 60_000


def group(*names: str, in_place: bool = False) -> ConsumerTalk:
    """A Stable group of these members, whose assignor runs in a worker."""
    talk = ConsumerTalk(in_place=in_place)
    talk.advance(QUIET_MS)
    for name in names:
        talk.join(name)
    talk.converge(*(name.partition("=")[0] for name in names))
    return talk


def mixed(*classics: str, **fields: str) -> MixedTalk:
    """A Stable consumer group of C and of these classic members."""
    talk = MixedTalk(in_place=False)
    talk.advance(QUIET_MS)
    talk.classic_group(*classics, **fields)
    talk.join("C")
    talk.settle_all(*(name.partition("=")[0] for name in classics), "C")
    return talk


def later(talk: ConsumerTalk, milliseconds: int, *names: str) -> None:
    """Let time pass while these members send heartbeats."""
    for _ in range(0, milliseconds, 5_000):
        talk.advance(5_000)
        for name in names:
            talk.beat(name)


def joined() -> ConsumerTalk:
    talk = group("A")
    talk.join("B")
    talk.now += 20
    talk.work()
    talk.now += 700
    talk.converge("A", "B")
    return talk


def rejoined() -> MixedTalk:
    """A classic member that subscribes to other topics by joining again."""
    talk = mixed("A")
    talk.join_group("A", topics=("a", "b"))
    talk.settle_all("A", "C")
    return talk


def left() -> ConsumerTalk:
    talk = group("A", "B")
    talk.leave("B")
    talk.converge("A")
    return talk


def leave_group(talk: ConsumerTalk, member_id: str, reason: str) -> None:
    """LeaveGroup, which administrators send, and classic members."""
    identity = MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason)
    talk.ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), 5)


def admin_removed() -> ConsumerTalk:
    talk = group("A", "B")
    leave_group(talk, talk.id("B"), "member was removed by an admin: it hangs")
    talk.converge("A")
    return talk


def poll_timeout() -> ConsumerTalk:
    """The client of a classic member says so; one of the consumer protocol gives no reason."""
    talk = mixed("A", "B")
    leave_group(talk, talk.classic("A").member_id, "consumer poll timeout has expired.")
    talk.settle_all("B", "C")
    return talk


def session_expired() -> ConsumerTalk:
    talk = group("A", "B")
    later(talk, 50_000, "A")
    talk.converge("A")
    return talk


def not_rejoined() -> MixedTalk:
    """A classic member that is told to rejoin, sends heartbeats, and does not."""
    talk = mixed("A")
    talk.join("D")
    talk.work()
    for _ in range(14):
        talk.advance(5_000)
        talk.heartbeat_group("A")
        talk.beat("C")
        talk.beat("D")
    talk.settle_all("C", "D")
    return talk


def not_synced() -> MixedTalk:
    """A classic member that joins and does not fetch its assignment."""
    talk = mixed("A")
    talk.join_group("A", session_ms=300_000)
    for _ in range(14):
        talk.advance(5_000)
        talk.beat("C")
    talk.settle_all("C")
    return talk


def not_revoked() -> ConsumerTalk:
    talk = group("A")
    talk.join("B")
    talk.work()
    for _ in range(14):
        talk.advance(5_000)
        talk.heartbeat("A")  # never with what it still owns
        talk.beat("B")
    talk.converge("B")
    return talk


def subscription_changed() -> ConsumerTalk:
    talk = group("A", "B")
    talk.beat("B", subscribed_topic_names=("a", "b"))
    talk.converge("A", "B")
    return talk


def static_replaced() -> ConsumerTalk:
    """A static member that comes back; it gets all that it had, and nothing else changes."""
    talk = group("A", "B=i")
    talk.leave("B", -2)
    talk.join("B", member_id="m-B2")
    talk.converge("A", "B")
    return talk


def topics_changed() -> ConsumerTalk:
    talk = group("A")
    talk.set_topics(a=6, b=2)
    talk.converge("A")
    return talk


def regex_refreshed() -> ConsumerTalk:
    talk = ConsumerTalk(in_place=False)
    talk.advance(QUIET_MS)
    talk.join("A", None, regex="a.*")
    talk.converge("A")
    later(talk, 60_000, "A")
    talk.set_topics(a=4, ab=2, b=2)
    talk.converge("A")
    return talk


def type_changed() -> MixedTalk:
    """The classic group was rebalancing when a member of the consumer protocol came."""
    talk = MixedTalk(in_place=False)
    talk.advance(QUIET_MS)
    talk.classic_group("A", "B")
    talk.leave_group("B")
    talk.join("C", topics=())
    talk.settle_all("A", "C")
    return talk


def configs_changed() -> ConsumerTalk:
    """One of two active members becomes a spare; the config is the group's own."""
    talk = group("A", "B")
    talk.shard.group_configs = {GROUP: {"group.active.members": "1"}}
    talk.advance(0)
    talk.converge("A", "B")
    return talk


def failover() -> ConsumerTalk:
    """A member had joined, and the coordinator died before there was a target."""
    talk = group("A")
    talk.join("B")
    talk.advance(400)
    talk.failover()
    talk.advance(100)
    talk.converge("A", "B")
    return talk


SITUATIONS: Final[Mapping[Cause, Callable[[], Conversation]]] = {  # type: ignore[type-arg]
    Cause.JOINED: joined,
    Cause.REJOINED: rejoined,
    Cause.LEFT: left,
    Cause.ADMIN_REMOVED: admin_removed,
    Cause.POLL_TIMEOUT: poll_timeout,
    Cause.EXPIRED: session_expired,
    Cause.NOT_REJOINED: not_rejoined,
    Cause.NOT_SYNCED: not_synced,
    Cause.NOT_REVOKED: not_revoked,
    Cause.SUBSCRIBED: subscription_changed,
    Cause.STATIC_REPLACED: static_replaced,
    Cause.TOPICS_CHANGED: topics_changed,
    Cause.REGEX_RESOLVED: regex_refreshed,
    Cause.CONVERTED: type_changed,
    Cause.CONFIGS_CHANGED: configs_changed,
    Cause.FAILOVER: failover,
}
