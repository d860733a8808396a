"""What makes a classic group rebalance: for each cause a group that clients have led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause
from protocol.wire.embedded import EmbeddedSubscription, encode_assignment, encode_subscription
from protocol.wire.messages import MemberIdentity
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.migration.mixed_talk import MixedTalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.protocol.groups.conversation import Conversation

QUIET_MS: Final = 60_000
"""How long a group has been quiet: its coordinator is not new any more."""


def subscription(*topics: str) -> tuple[str, bytes]:
    """A protocol with a subscription, as JoinGroup has it."""
    return "range", encode_subscription(EmbeddedSubscription(topics=topics, owned_partitions=()))


def group(*names: str) -> ClassicTalk:
    """A Stable group of these members, which share four partitions."""
    talk = ClassicTalk()
    talk.advance(QUIET_MS)
    for name in names:
        client, _, instance = name.partition("=")
        talk.enter(client, instance=instance or None, protocols=[subscription("a")])
    talk.advance(3_000)
    while talk.state == "PreparingRebalance":
        talk.advance(3_000)
    finish(talk, *(name.partition("=")[0] for name in names))
    return talk


def finish(talk: ClassicTalk, *names: str) -> None:
    """Let all send SyncGroup, the leader with an assignment: partitions in turn."""
    shares = {
        name: encode_assignment([("a", index) for index in range(4) if index % len(names) == turn])
        for turn, name in enumerate(names)
    }
    for name in sorted(names, key=lambda name: talk.id(name) == talk.group.leader_id):
        talk.sync(name, shares if talk.id(name) == talk.group.leader_id else None)


def again(talk: ClassicTalk, name: str, *topics: str, reason: str | None = None) -> None:
    """Join again, with a subscription to these topics."""
    talk.join(name, protocols=[subscription(*topics or ("a",))], reason=reason)


def joined() -> ClassicTalk:
    talk = group("A", "B")
    talk.enter("C", protocols=[subscription("a")])
    talk.advance(1_000)
    again(talk, "A")
    talk.advance(1_500)
    again(talk, "B")
    finish(talk, "A", "B", "C")
    return talk


def rejoined() -> ClassicTalk:
    """A follower that offers its protocols with other data of its own."""
    talk = group("A", "B")
    mine = encode_subscription(
        EmbeddedSubscription(topics=("a",), owned_partitions=(("a", 1),), generation_id=1)
    )
    talk.join("B", protocols=[("range", mine)])
    again(talk, "A")
    finish(talk, "A", "B")
    return talk


def left(reason: str | None = "the consumer is being closed") -> ClassicTalk:
    talk = group("A", "B")
    talk.leave("B", reason=reason)
    again(talk, "A")
    finish(talk, "A")
    return talk


def admin_removed() -> ClassicTalk:
    talk = group("A", "B=i")
    reason = "member was removed by an admin: it hangs"
    talk.remove(MemberIdentity(member_id="", group_instance_id="i", reason=reason))
    again(talk, "A")
    finish(talk, "A")
    return talk


def poll_timeout() -> ClassicTalk:
    return left("consumer poll timeout has expired.")


def session_expired() -> ClassicTalk:
    talk = group("A", "B")
    for _ in range(4):
        talk.advance(4_000)
        talk.heartbeat("A")
    again(talk, "A")
    finish(talk, "A")
    return talk


def not_synced() -> ClassicTalk:
    talk = group("A", "B")
    again(talk, "A")
    again(talk, "B")
    talk.sync("A", {})
    for _ in range(16):
        talk.advance(4_000)
        talk.heartbeat("A")
        talk.heartbeat("B")
    again(talk, "A")
    finish(talk, "A")
    return talk


def subscription_changed() -> ClassicTalk:
    talk = group("A", "B")
    again(talk, "B", "a", "b")
    again(talk, "A")
    finish(talk, "A", "B")
    return talk


def leader_rejoined(reason: str | None = None) -> ClassicTalk:
    talk = group("A", "B")
    again(talk, "A", reason=reason)
    again(talk, "B")
    finish(talk, "A", "B")
    return talk


def gave_up() -> ClassicTalk:
    return leader_rejoined("need to revoke partitions [a-1] as indicated by the current assignment")


def enforced() -> ClassicTalk:
    return leader_rejoined("rebalance enforced by user")


def topics_changed() -> ClassicTalk:
    return leader_rejoined("cached metadata has changed from (version1: {a=4}) to (version2)")


def failover() -> ClassicTalk:
    """A client that lost its coordinator, and joins the next one, as kafkajs and sarama do."""
    talk = group("A", "B")
    talk.failover()
    talk.advance(2_000)
    again(talk, "A", reason="rebalance failed due to NotCoordinatorException")
    again(talk, "B")
    finish(talk, "A", "B")
    return talk


def static_replaced() -> ClassicTalk:
    """One that comes back while the group awaits an assignment."""
    talk = group("A", "B=i")
    again(talk, "A")
    again(talk, "B")
    talk.join("B", member_id="", protocols=[subscription("a")])
    again(talk, "A")
    finish(talk, "A", "B")
    return talk


def static_changed() -> ClassicTalk:
    talk = group("A", "B=i")
    talk.join("B", member_id="", protocols=[subscription("a", "b")])
    again(talk, "A")
    finish(talk, "A", "B")
    return talk


def type_changed() -> MixedTalk:
    """The last member of the consumer protocol leaves; a new leader finds nobody who leads."""
    talk = MixedTalk({"group.consumer.migration.policy": "bidirectional"})
    talk.advance(QUIET_MS)
    talk.classic_group("A", "B")
    talk.join("C")
    talk.settle_all("A", "B", "C")
    talk.leave("C")
    talk.settle_classics("A", "B")
    return talk


def over_capacity() -> ClassicTalk:
    """group.max.size was lowered, and a new leader finds the group too large."""
    talk = group("A", "B")
    talk.overrides = {"group.max.size": "1"}
    talk.failover()
    talk.advance(1_000)
    again(talk, "A")
    again(talk, "B")  # it is refused
    talk.advance(60_000)
    finish(talk, "A")
    return talk


SITUATIONS: Final[Mapping[Cause, Callable[[], Conversation]]] = {  # type: ignore[type-arg]
    Cause.JOINED: joined,
    Cause.REJOINED: rejoined,
    Cause.LEFT: left,
    Cause.ADMIN_REMOVED: admin_removed,
    Cause.POLL_TIMEOUT: poll_timeout,
    Cause.EXPIRED: session_expired,
    Cause.NOT_SYNCED: not_synced,
    Cause.SUBSCRIBED: subscription_changed,
    Cause.LEADER_REJOINED: leader_rejoined,
    Cause.GAVE_UP: gave_up,
    Cause.ENFORCED: enforced,
    Cause.STATIC_REPLACED: static_replaced,
    Cause.STATIC_CHANGED: static_changed,
    Cause.TOPICS_CHANGED: topics_changed,
    Cause.CONVERTED: type_changed,
    Cause.OVER_CAPACITY: over_capacity,
    Cause.FAILOVER: failover,
}
