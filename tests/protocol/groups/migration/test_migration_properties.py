"""Random scripts with members of both protocols: one owner per partition at every step.

The group goes back and forth between the two types as members of the consumer protocol come and go.
When all is quiet, everything that is subscribed to has one owner.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from protocol.groups.consumer.group import ConsumerGroup
from protocol.wire.errors import ErrorCode
from tests.effort import examples
from tests.protocol.groups.consumer.consumer_talk import check_owned_once
from tests.protocol.groups.conversation import NOTHING
from tests.protocol.groups.migration.mixed_talk import COOPERATIVE, EAGER, MixedTalk

CLASSICS = ("X", "Y", "Z")
CONSUMERS = ("C", "D")
TOPICS = ("a", "b")
FATAL = (
    ErrorCode.fenced_member_epoch,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_instance_id,
    ErrorCode.group_id_not_found,
)
classics = st.sampled_from(CLASSICS)
consumers = st.sampled_from(CONSUMERS)
subscriptions = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda names: tuple(sorted(names)))


class Mixed(RuleBasedStateMachine):
    """Clients of both protocols that behave, on a network that loses answers."""

    @initialize(
        protocol=st.sampled_from([EAGER, COOPERATIVE]),
        in_place=st.booleans(),
        interval_ms=st.sampled_from([0, 1_000]),
        statics=st.booleans(),
    )
    def begin(self, protocol: str, in_place: bool, interval_ms: int, statics: bool) -> None:
        self.talk = MixedTalk(in_place=in_place, interval_ms=interval_ms, topics={"a": 3, "b": 2})
        self.lives = dict.fromkeys(CONSUMERS, 0)
        for name in CLASSICS:
            self.talk.classic(name, protocol=protocol)
        if statics:  # X and C are one application, before and after its upgrade
            self.talk.classic("X").instance = self.talk.client("C").instance = "i"
            self.talk.classic("Y").instance = "j"

    # --- classic members

    @rule(name=classics, topics=subscriptions)
    def join_group(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.talk.classic(name)
        if not client.waits_for:
            self.talk.join_group(name, topics=topics)

    @rule(name=classics)
    def sync_group(self, name: str) -> None:
        client = self.talk.classic(name)
        if client.has_joined and not client.waits_for:
            self.talk.sync_group(name)

    @rule(name=classics)
    def follow(self, name: str) -> None:
        client = self.talk.classic(name)
        if client.generation >= 0:
            self.talk.follow(name)

    @rule(name=classics)
    def join_group_and_lose_the_answer(self, name: str) -> None:
        """The client knows nothing of it, and asks again later."""
        client = self.talk.classic(name)
        if client.waits_for or not client.member_id:
            return
        generation = client.generation
        if client.protocol == EAGER:
            client.owned = NOTHING
        owned = client.owned
        self.talk._join_group(client, 9)
        client.ticket, client.waits_for, client.has_joined, client.leads = 0, "", False, None
        if client.error not in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            client.generation, client.owned = generation, owned

    @rule(name=classics)
    def leave_group(self, name: str) -> None:
        client = self.talk.classic(name)
        if client.member_id and not client.waits_for and client.generation >= 0:
            self.talk.leave_group(name)

    @rule(name=classics)
    def crash_classic(self, name: str) -> None:
        """The process dies and another takes its place, which has yet to join."""
        client = self.talk.classic(name)
        self.talk.forget(client)
        client.member_id, client.ticket, client.waits_for = "", 0, ""

    # --- members of the consumer protocol

    def is_in(self, name: str) -> bool:
        return self.talk.client(name).epoch > 0

    def renew(self, name: str) -> None:
        self.lives[name] += 1
        client = self.talk.client(name)
        client.member_id, client.epoch = f"{name}{self.lives[name]}", 0
        client.owned, client.has_news = NOTHING, False

    @rule(name=consumers, topics=subscriptions)
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        if not self.is_in(name):
            if not self.talk.client(name).member_id:
                self.renew(name)
            self.talk.join(name, topics)

    @rule(name=consumers)
    def beat(self, name: str) -> None:
        if self.is_in(name):
            self.talk.beat(name)

    @rule(name=consumers, for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        if self.is_in(name):
            is_static = self.talk.client(name).instance is not None
            self.talk.leave(name, -2 if for_a_while and is_static else -1)

    @rule(name=consumers)
    def crash(self, name: str) -> None:
        if self.is_in(name):
            self.renew(name)

    # --- the world

    @rule(seconds=st.sampled_from([0, 1, 5, 11, 50]))
    def wait(self, seconds: int) -> None:
        self.talk.advance(1_000 * seconds)

    @rule(most=st.integers(1, 3))
    def work(self, most: int) -> None:
        self.talk.work(most)

    @rule(from_compacted=st.booleans())
    def fail_over(self, from_compacted: bool) -> None:
        self.talk.failover(from_compacted=from_compacted)

    @invariant()
    def no_two_clients_own_a_partition(self) -> None:
        """Clients that are members; zombies are what epochs and generations fence."""
        if not hasattr(self, "talk"):
            return
        talk = self.talk
        group = talk.context.groups.get("g")
        if isinstance(group, ConsumerGroup):
            members = set(group.members)
            epochs = {each: member.assignment.epoch for each, member in group.members.items()}
        else:
            runtime = talk.context.classic_runtime.get("g")
            members = set() if runtime is None else set(runtime.members)
            epochs = {}
        owned = [
            (name, client.owned)
            for name, client in talk.classics.items()
            if client.member_id in members
        ]
        owned += [
            (name, client.owned)
            for name, client in talk.clients.items()
            if client.member_id in epochs and client.epoch == epochs[client.member_id]
        ]
        check_owned_once(owned)

    def teardown(self) -> None:
        """When it is quiet all come to rest."""
        if not hasattr(self, "talk"):
            return
        talk = self.talk
        for _ in range(60):
            talk.work()
            for name in CONSUMERS:
                if self.is_in(name):
                    talk.beat(name)
            for name in CLASSICS:
                if talk.classic(name).generation >= 0:
                    talk.follow(name)
            talk.advance(1_500)
        self.all_is_owned_once()

    def all_is_owned_once(self) -> None:
        talk = self.talk
        group = talk.context.groups.get("g")
        ids = self.member_ids()
        present = [
            c for c in (*talk.classics.values(), *talk.clients.values()) if c.member_id in ids
        ]
        assert len(present) == len(ids)
        if isinstance(group, ConsumerGroup):
            wanted = {name for m in group.members.values() for name in m.subscription.names}
            assert not ids or group.state == "Stable"
        else:
            wanted = {name for c in talk.classics.values() if c in present for name in c.topics}
        had = [partition for client in present for partition in client.owned]
        assert sorted(had) == sorted(
            (name, index) for name in wanted for index in range(talk.topics[name])
        )

    def member_ids(self) -> set[str]:
        group = self.talk.context.groups.get("g")
        if isinstance(group, ConsumerGroup):
            return set(group.members)
        runtime = self.talk.context.classic_runtime.get("g")
        return set() if runtime is None else set(runtime.members)


TestMixed = Mixed.TestCase
TestMixed.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
