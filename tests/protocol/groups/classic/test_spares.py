"""Hot spares of classic groups (KIP-345's future works), beyond what ``spares.txt`` shows."""

from __future__ import annotations

import pytest

from protocol.groups.classic.spares import NO_PARTITIONS
from protocol.wire.embedded import (
    EmbeddedSubscription,
    decode_assigned,
    encode_assignment,
    encode_subscription,
)
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.conversation import GROUP


def subscribed(*owned: int) -> list[tuple[str, bytes]]:
    subscription = EmbeddedSubscription(
        topics=("a",), owned_partitions=tuple(("a", each) for each in owned)
    )
    return [("range", encode_subscription(subscription))]


def limited(talk: ClassicTalk, limit: int) -> None:
    talk.shard.group_configs = {GROUP: {"group.active.members": str(limit)}}


def stable(*names: str, limit: int = 0) -> ClassicTalk:
    """A Stable group in which each member has the partition of its place."""
    talk = ClassicTalk()
    limited(talk, limit)
    for name in names:
        talk.enter(name, protocols=subscribed())
    talk.advance(6_000)
    shares = {name: encode_assignment([("a", place)]) for place, name in enumerate(names)}
    for name in names:
        talk.sync(name, shares)
    return talk


def roster(talk: ClassicTalk) -> set[str]:
    """The members that the leader of the last generation was told of."""
    named = {client.member_id: name for name, client in talk.clients.items()}
    [told] = [
        each.message.members
        for each in talk.replies.values()
        if getattr(each.message, "members", ()) and hasattr(each.message, "generation_id")
    ][-1:]
    return {named[each.member_id] for each in told}


def test_a_client_of_any_version_can_read_the_assignment_of_a_spare() -> None:
    assert decode_assigned(NO_PARTITIONS) == decode_assigned(encode_assignment(()))
    assert bytes(2) + bytes(4) + b"\xff" * 4 == NO_PARTITIONS


@pytest.mark.parametrize("keeps", [False, True])
def test_a_cooperative_member_that_has_partitions_is_no_spare_when_the_number_is_lowered(
    keeps: bool,
) -> None:
    """Its leader does not know what it has, and would give it to others at once."""
    talk = stable("A", "B", "C")
    limited(talk, 1)
    for place, name in enumerate("ABC"):
        talk.join(name, protocols=subscribed(*([place] if keeps else [])), reason="again")
    assert roster(talk) == ({"A", "B", "C"} if keeps else {"A"})
    shares = {name: encode_assignment([("a", place)]) for place, name in enumerate("ABC")}
    for name in "ABC":
        talk.sync(name, shares)
    assert talk.last("C").assignment == (shares["C"] if keeps else NO_PARTITIONS)


def test_in_a_group_with_another_assignor_nobody_is_a_spare() -> None:
    """Kafka Streams reads user data of each assignment."""
    talk = ClassicTalk()
    limited(talk, 1)
    for name in "AB":
        talk.enter(name, protocols=[("stream", subscribed()[0][1])])
    talk.advance(6_000)
    assert roster(talk) == {"A", "B"}


def test_a_leader_that_leaves_is_followed_by_an_active_member_whoever_came_first() -> None:
    talk = stable("A", "B", "C", limit=2)
    assert talk.last("C").assignment == NO_PARTITIONS
    talk.join("D", protocols=subscribed())
    talk.join("D", protocols=subscribed())
    talk.leave("A")
    talk.leave("B")
    for name in "CD":
        talk.join(name, protocols=subscribed())
    assert roster(talk) == {"C", "D"}
    talk.sync("C", {"C": encode_assignment([("a", 0)]), "D": encode_assignment([("a", 1)])})
    assert talk.sync("D").assignment == encode_assignment([("a", 1)])
