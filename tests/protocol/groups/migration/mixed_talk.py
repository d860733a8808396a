"""A conversation about groups with members of both protocols: ConsumerTalk, and classic clients.

    talk = MixedTalk()
    talk.classic_group("A", "B")      # a Stable classic group
    talk.join("C")                    # ... that C's heartbeat makes a consumer group
    talk.follow("A")                  # A does what Heartbeat tells it to

A classic client keeps its member id, its generation and what it owns. An eager one gives up all it
owns before it joins; a cooperative one says what it keeps, and gives up what it no longer gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.wire.embedded import (
    EmbeddedSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    LeaveGroupRequest,
    MemberIdentity,
)
from tests.protocol.groups.classic.classic_talk import (
    ClassicClient,
    heartbeat,
    join_group,
    sync_group,
)
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, NOTHING, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EAGER = "range"
COOPERATIVE = "cooperative-sticky"
LOST = {
    ErrorCode.unknown_member_id,
    ErrorCode.illegal_generation,
    ErrorCode.fenced_instance_id,
    ErrorCode.inconsistent_group_protocol,
}


@dataclass
class SubscribedClient(ClassicClient):
    """What a classic client knows of itself, and what it consumes.

    ``waits_for`` is the kind of its parked request; ``has_joined``: SyncGroup is to follow;
    ``must_join``: it has given up partitions, and joins again so that others get them (KIP-429).
    """

    protocol: str = EAGER
    topics: tuple[str, ...] = ("a",)
    owned: frozenset[TopicPartition] = NOTHING
    error: ErrorCode = ErrorCode.none
    waits_for: str = ""
    leads: Any = None
    has_joined: bool = False
    must_join: bool = False
    session_ms: int = 10_000
    rebalance_ms: int = 60_000


class MixedTalk(ConsumerTalk):
    """ConsumerTalk in which classic clients speak as well."""

    def __post_init__(self) -> None:
        self.classics: dict[str, SubscribedClient] = {}
        super().__post_init__()

    def configs(self) -> dict[str, str]:
        return {"group.initial.rebalance.delay.ms": "0", **super().configs()}

    def classic(self, name: str, **fields: Any) -> SubscribedClient:
        """The classic client of that name; ``A=i`` on first use makes it a static member."""
        bare, _, instance = name.partition("=")
        client = self.classics.setdefault(bare, SubscribedClient(bare, instance or None))
        for key, value in fields.items():
            setattr(client, key, value)
        return client

    # -- what classic clients ask ----------------------------------------------------------------

    def join_group(self, name: str, *, version: int = 9, **fields: Any) -> Any:
        """JoinGroup, twice if a member id is required; the answer, None while it is parked."""
        client = self.classic(name, **fields)
        if client.protocol != COOPERATIVE:
            client.owned = NOTHING
        answer = self._join_group(client, version)
        if answer is not None and answer.error_code is ErrorCode.member_id_required:
            client.member_id = answer.member_id
            answer = self._join_group(client, version)
        return answer

    def _join_group(self, client: SubscribedClient, version: int) -> Any:
        metadata = encode_subscription(
            EmbeddedSubscription(
                topics=client.topics,
                owned_partitions=tuple(sorted(client.owned)),
                generation_id=client.generation,
            )
        )
        client.waits_for, client.must_join = "join", False
        timeouts = {"session_ms": client.session_ms, "rebalance_ms": client.rebalance_ms}
        message = join_group(client, [(client.protocol, metadata)], **timeouts)
        return self.say(client, message, version)

    def sync_group(self, name: str, **fields: Any) -> Any:
        """SyncGroup, with the leader's assignments; the answer, None while parked."""
        client = self.classic(name)
        assigned = _assign(client.leads, self.topics) if client.leads else {}
        shares = [(member_id, encode_assignment(owned)) for member_id, owned in assigned.items()]
        client.waits_for = "sync"
        fields = {"protocol_name": client.protocol, **fields}
        return self.say(client, sync_group(client, shares, **fields), 5)

    def heartbeat_group(self, name: str, **fields: Any) -> ErrorCode:
        """Heartbeat of a classic client; its error."""
        client = self.classic(name)
        return ErrorCode(self.say(client, heartbeat(client, **fields), 4).error_code)

    def leave_group(self, name: str) -> Any:
        """LeaveGroup of a classic client."""
        client = self.classic(name)
        identity = MemberIdentity(
            member_id=client.member_id, group_instance_id=client.instance, reason="done"
        )
        answer = self.ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), 5, client.name)
        self.forget(client)
        client.member_id = ""
        return answer

    def commit(self, name: str, topic: str = "a", index: int = 0, offset: int = 7) -> ErrorCode:
        """OffsetCommit of a client of either kind in its generation or member epoch."""
        if name in self.classics:
            client = self.classics[name]
            member_id, epoch, instance, version = (
                client.member_id,
                client.generation,
                client.instance,
                8,
            )
        else:
            other = self.client(name)
            member_id, epoch, instance, version = other.member_id, other.epoch, None, 9
        [code] = self.commit_offsets(
            topic,
            (index, offset, ""),
            version=version,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            group_instance_id=instance,
        )
        return ErrorCode(code)

    def follow(self, name: str) -> None:
        """Do what a classic client does next: heartbeat, and join and sync when told to."""
        client = self.classic(name)
        if client.waits_for:
            return
        if client.has_joined:
            self.sync_group(name)
            return
        code = self.heartbeat_group(name) if client.generation >= 0 else None
        if code is ErrorCode.none and not client.must_join:
            return
        self.catch_up(name)

    def catch_up(self, name: str) -> None:
        """Join and sync."""
        client = self.classic(name)
        self.join_group(name)
        if client.has_joined:
            self.sync_group(name)

    def learn(self, client: Any, answer: Any) -> None:
        if not isinstance(client, SubscribedClient):
            super().learn(client, answer)
            return
        kind, client.waits_for = client.waits_for, ""
        client.error = ErrorCode(answer.error_code)
        if client.error in LOST:
            self.forget(client)
            if client.error is ErrorCode.unknown_member_id:
                client.member_id = ""
        elif client.error is ErrorCode.none and kind == "join":
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.leads = answer.members if answer.leader == answer.member_id else None
            client.has_joined = True
        elif client.error is ErrorCode.none and kind == "sync":
            before, client.owned = (
                client.owned,
                frozenset(decode_assignment(answer.assignment) or ()),
            )
            client.must_join = not before <= client.owned
            client.leads, client.has_joined = None, False
        elif kind == "sync":
            client.leads, client.has_joined = None, False

    def forget(self, client: SubscribedClient) -> None:
        """The client has lost its generation, and what it owned with it."""
        client.generation, client.owned, client.leads = -1, NOTHING, None
        client.has_joined = False

    # -- whole stretches -------------------------------------------------------------------------

    def classic_group(self, *names: str, **fields: Any) -> None:
        """Bring a classic group of these members to Stable."""
        for name in names:
            self.join_group(name, **fields)
        bare = [name.partition("=")[0] for name in names]
        self.settle_classics(*bare)

    def settle_classics(self, *names: str, rounds: int = 20) -> None:
        """Let classic clients do what they are told until nobody is told anything."""
        for _ in range(rounds):
            self.settle()
            for name in sorted(names, key=lambda name: bool(self.classic(name).leads)):
                self.follow(name)
            if all(self.quiet(name) for name in names):
                return
        raise AssertionError(f"no rest: {[self.classic(name) for name in names]}")

    def quiet(self, name: str) -> bool:
        """Whether a classic client has nothing to do."""
        client = self.classic(name)
        if client.waits_for or client.has_joined or client.must_join or client.generation < 0:
            return False
        return self.heartbeat_group(name) is ErrorCode.none

    def settle_all(self, *names: str, rounds: int = 40) -> None:
        """Let clients of both kinds go on until nothing changes any more."""
        for _ in range(rounds):
            self.work()
            before = self._state_of(names)
            for name in names:
                if name in self.classics:
                    self.follow(name)
                else:
                    self.beat(name)
                self.work()
            if self._state_of(names) == before and all(
                self.quiet(name) for name in names if name in self.classics
            ):
                return
        raise AssertionError(f"no rest after {rounds} rounds: {self._state_of(names)}")

    def _state_of(self, names: Iterable[str]) -> list[Any]:
        return [
            (self.classics[name].generation, self.classics[name].owned)
            if name in self.classics
            else (self.client(name).epoch, self.client(name).owned, self.client(name).has_news)
            for name in names
        ]

    def shares(self, *names: str) -> list[int]:
        """How many partitions each of the clients owns; each partition is owned once."""
        owned = [
            (self.classics[name] if name in self.classics else self.client(name)).owned
            for name in names
        ]
        assert sum(map(len, owned)) == len(frozenset().union(*owned)), "owned twice"
        return [len(each) for each in owned]


def _assign(members: Iterable[Any], counts: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """Assign as a group's leader: topic by topic in ranges, but nothing that another still owns.

    Only cooperative members say what they own; what moves is given in the next rebalance.
    """
    subscriptions = {each.member_id: decode_subscription(each.metadata) for each in members}
    owner = {
        partition: member_id
        for member_id, subscription in subscriptions.items()
        if subscription is not None
        for partition in subscription.owned_partitions
    }
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
    for topic, count in sorted(counts.items()):
        wants = sorted(
            member_id
            for member_id, subscription in subscriptions.items()
            if subscription is not None and topic in subscription.topics
        )
        for index in range(count if wants else 0):
            member_id = wants[index * len(wants) // count]
            if owner.get((topic, index), member_id) == member_id:
                shares[member_id].append((topic, index))
    return shares
