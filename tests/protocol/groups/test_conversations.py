"""Random conversations over both protocols with one group: any request, any order, any moment.

Requests are drawn without regard for sense: any member, any epoch, either protocol;
configs, topics, time and leadership change in between. Nothing may raise, no offset may be left
without a group, and when everybody has fallen silent two new members share all partitions.

``ROLLCALL_CONVERSATIONS`` says how many are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from protocol.groups.effects import TopicsDeleted
from protocol.wire import messages as m
from protocol.wire.embedded import EmbeddedSubscription, encode_assignment, encode_subscription
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.migration.mixed_talk import MixedTalk

CONVERSATIONS = int(os.environ.get("ROLLCALL_CONVERSATIONS", "40"))
STEPS = 60
TOPICS = ({"a": 4, "b": 2}, {"a": 6}, {"b": 2}, {"a": 4, "b": 2, "ab": 1})
GROUP_CONFIGS: tuple[dict[str, dict[str, str]], ...] = (
    {},
    *({GROUP: {"consumer.assignment.interval.ms": each}} for each in ("-1", "0", "5000")),
    *({GROUP: {"consumer.assignor.offload.enable": each}} for each in ("true", "false")),
    {GROUP: {"consumer.static.takeover.enable": "true"}},
    *({GROUP: {"consumer.session.timeout.ms": each}} for each in ("45000", "60000")),
    *({GROUP: {"group.active.members": each}} for each in ("1", "2")),
    {GROUP: {"group.instance.assignment.retention.ms": "60000"}},
    {GROUP: {"group.expected.instance.ids": "i,j", "group.expected.instance.wait.ms": "20000"}},
)
BROKER_CONFIGS = {
    "group.consumer.migration.policy": ("disabled", "upgrade", "downgrade", "bidirectional"),
    "group.max.size": ("1", "3", "100"),
}
SILENCE = {
    "group.consumer.migration.policy": "bidirectional",
    "group.max.size": "100",
    "group.consumer.max.size": "100",
}


class Babble:
    """One conversation, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.talk = MixedTalk(
            in_place=rng.random() < 0.5,
            is_prompt=rng.random() < 0.5,
            interval_ms=rng.choice((0, 0, 1_000)),
            overrides={
                "group.consumer.max.size": str(rng.choice((3, 100))),
                "group.max.size": str(rng.choice((2, 100))),
                "group.initial.rebalance.delay.ms": str(rng.choice((0, 0, 3_000))),
            },
        )
        self.kinds: tuple[Callable[[], None], ...] = (
            *[self.consumer_heartbeat] * 5,
            *[self.join] * 3,
            self.sync,
            self.heartbeat,
            self.leave,
            self.commit,
            self.administer,
            self.fail_over,
            self.pass_time,
        )

    def step(self) -> None:
        self.member_id = self.rng.choice(self.known_ids())
        self.instance = self.rng.choice((None, None, "i", "j"))
        self.epoch = self.rng.choice((0, 0, 0, 1, 2, 3, 4, 5, 6, -1, -2, -3))
        group = self.talk.context.groups.get(GROUP)
        members = getattr(group, "members", {})
        if self.member_id in members and self.rng.random() < 0.55:
            self.epoch = members[self.member_id].assignment.epoch
        self.rng.choice(self.kinds)()
        orphans = [
            each for each in self.talk.context.offsets if each not in self.talk.context.groups
        ]
        assert not orphans
        assert not self.talk.context.failures

    def known_ids(self) -> list[str]:
        context = self.talk.context
        ids = ["", "m1", "m2", "m3", "m4"]
        ids += getattr(context.groups.get(GROUP), "members", ())
        runtime = context.classic_runtime.get(GROUP)
        return ids if runtime is None else [*ids, *runtime.members, *runtime.pending]

    def say(self, message: Any, *versions: int) -> None:
        self.talk.ask(message, self.rng.choice(versions), self.rng.choice("cd"))

    # -- what is said

    def consumer_heartbeat(self) -> None:
        rng, joins = self.rng, self.epoch == 0
        names = rng.choice((None, ("a",), ("b",), ("a", "b"), (), ("zz",)))
        regex = rng.choice((None, None, None, "", "a.*", "(", "b|a"))
        timeout_ms = 60_000 if joins else rng.choice((-1, 1_000, 60_000))
        self.say(
            m.ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self.instance,
                rack_id=None,
                rebalance_timeout=timedelta(milliseconds=timeout_ms),
                subscribed_topic_names=names if not joins or names or regex else ("a",),
                subscribed_topic_regex=regex,
                server_assignor=rng.choice((None, None, "range", "uniform")),
                topic_partitions=() if joins else self.owned(),
            ),
            0,
            1,
        )

    def owned(self) -> tuple[m.OwnedTopicPartitions, ...] | None:
        rng = self.rng
        if rng.random() < 0.6:
            return None if rng.random() < 0.6 else ()
        return tuple(
            m.OwnedTopicPartitions(
                topic_id=topic_id(name),
                partitions=tuple(sorted(rng.sample(range(4), rng.randrange(4)))),
            )
            for name in rng.sample(["a", "b", "zz"], rng.randrange(3))
        )

    def join(self) -> None:
        rng = self.rng
        subscription = EmbeddedSubscription(
            topics=rng.choice((("a",), ("b",), ("a", "b"))),
            owned_partitions=tuple(rng.sample([("a", 0), ("a", 1), ("b", 0)], rng.randrange(3))),
            generation_id=rng.randrange(5),
        )
        metadata = encode_subscription(subscription) if rng.random() < 0.95 else b"\0"
        protocols = [(rng.choice(("range", "cooperative-sticky")), metadata)]
        if rng.random() < 0.3:
            protocols.append(("roundrobin", rng.choice((b"", metadata))))
        self.say(
            m.JoinGroupRequest(
                group_id=GROUP,
                session_timeout=timedelta(milliseconds=rng.choice((10_000, 10_000, 1))),
                rebalance_timeout=timedelta(milliseconds=rng.choice((0, 5_000, 60_000))),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type=rng.choice(("consumer", "consumer", "consumer", "connect")),
                protocols=tuple(
                    m.JoinGroupRequestProtocol(name=name, metadata=data)
                    for name, data in protocols
                ),
            ),
            0, 3, 4, 9,
        )  # fmt: skip

    def sync(self) -> None:
        rng, runtime = self.rng, self.talk.context.classic_runtime.get(GROUP)
        generation = self.epoch if runtime is None else rng.choice((runtime.generation, self.epoch))
        blobs = (
            b"",
            encode_assignment([("a", 0)]),
            encode_assignment([("a", 1)], user_data=b"x"),
            b"junk",
        )
        self.say(
            m.SyncGroupRequest(
                group_id=GROUP,
                generation_id=generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=rng.choice(("range", "cooperative-sticky", "roundrobin")),
                assignments=tuple(
                    m.SyncGroupRequestAssignment(member_id=each, assignment=rng.choice(blobs))
                    for each in self.known_ids()[:8]
                ),
            ),
            0, 4, 5,
        )  # fmt: skip

    def heartbeat(self) -> None:
        self.say(
            m.HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance,
            ),
            4,
        )

    def leave(self) -> None:
        identities = tuple(
            m.MemberIdentity(
                member_id=self.rng.choice(self.known_ids()),
                group_instance_id=self.rng.choice((None, None, "i", "j")),
                reason=None,
            )
            for _ in range(self.rng.randrange(3))
        )
        self.say(m.LeaveGroupRequest(group_id=GROUP, members=identities), 5)

    def commit(self) -> None:
        partition = m.OffsetCommitRequestPartition(
            partition_index=self.rng.randrange(6), committed_offset=1, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(
            name=self.rng.choice(("a", "zz")), topic_id=topic_id("a"), partitions=(partition,)
        )
        self.say(
            m.OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance,
                topics=(topic,),
            ),
            8, 9, 10,
        )  # fmt: skip

    # -- what happens besides

    def administer(self) -> None:
        rng, talk = self.rng, self.talk
        match rng.randrange(5):
            case 0:
                talk.delete(GROUP)
            case 1:
                talk.set_topics(**rng.choice(TOPICS))
            case 2:
                talk.shard.group_configs = rng.choice(GROUP_CONFIGS)
            case 3:
                name = rng.choice(sorted(BROKER_CONFIGS))
                change = {name: rng.choice(BROKER_CONFIGS[name])}
                talk.shard.configs = talk.shard.configs.with_overrides(change)
            case _:
                talk.handle(TopicsDeleted(names=("a",)))

    def fail_over(self) -> None:
        if self.rng.random() < 0.3:
            self.talk.failover(from_compacted=self.rng.random() < 0.5)
        else:
            self.talk.work(self.rng.randrange(3))

    def pass_time(self) -> None:
        self.talk.advance(self.rng.choice((0, 10, 1_000, 5_000, 11_000, 46_000, 61_000)))

    # -- how it ends

    def fall_silent(self) -> None:
        """Nobody speaks any more: every member is gone."""
        talk = self.talk
        talk.shard.configs = talk.shard.configs.with_overrides(SILENCE)
        talk.shard.group_configs = {}
        talk.is_prompt = False
        talk.set_topics(a=4, b=2)
        for _ in range(30):
            talk.advance(10_000)
            talk.work()
        assert not getattr(talk.context.groups.get(GROUP), "members", None)

    def begin_again(self) -> None:
        """Two members come, and share all partitions."""
        talk = self.talk
        talk.join("X", topics=("a", "b"))
        talk.join("Y", topics=("a",))
        talk.advance(20_000)
        talk.work()
        for _ in range(40):
            for name in ("X", "Y"):
                talk.beat(name)
                talk.work()
            talk.advance(1_000)
            talk.work()
        owned = sorted([*talk.client("X").owned, *talk.client("Y").owned])
        assert owned == [*(("a", index) for index in range(4)), ("b", 0), ("b", 1)]
        assert talk.group.state == "Stable"


@pytest.mark.parametrize("seed", range(CONVERSATIONS))
def test_a_group_survives_any_conversation(seed: int) -> None:
    babble = Babble(seed)
    for _ in range(STEPS):
        babble.step()
    babble.fall_silent()
    babble.begin_again()
