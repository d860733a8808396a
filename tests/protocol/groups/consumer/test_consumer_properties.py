"""Random scripts of consumer members: one owner per partition at every step, rest when quiet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.groups.effects import AssignmentFailed, CancelAssignment, ComputeAssignment
from protocol.wire.errors import ErrorCode
from tests.effort import examples
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk, check_owned_once, owned
from tests.protocol.groups.conversation import NOTHING

NAMES = ("A", "B", "C", "D")
TOPICS = ("a", "b", "c")
FATAL = {
    ErrorCode.fenced_member_epoch,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_instance_id,
    ErrorCode.group_id_not_found,
}
subscriptions = st.sets(st.sampled_from(TOPICS), max_size=3).map(lambda names: tuple(sorted(names)))


class Members(RuleBasedStateMachine):
    """Clients that behave, on a network that loses answers, and workers that fail."""

    @initialize(
        in_place=st.booleans(), interval_ms=st.sampled_from([0, 1_000]), statics=st.booleans()
    )
    def begin(self, in_place: bool, interval_ms: int, statics: bool) -> None:
        self.talk = ConsumerTalk(
            in_place=in_place, interval_ms=interval_ms, topics={"a": 3, "b": 2, "c": 1}
        )
        self.lives: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.wanted: dict[str, tuple[str, ...]] = {}
        self.unsure: set[str] = set()
        if statics:
            for name in NAMES[:2]:
                self.talk.client(name).instance = f"i-{name}"

    def is_in(self, name: str) -> bool:
        return self.talk.client(name).epoch > 0

    def renew(self, name: str) -> None:
        """Restart the client's process under another member id."""
        self.lives[name] += 1
        client = self.talk.client(name)
        client.member_id, client.epoch = f"{name}{self.lives[name]}", 0
        client.owned, client.has_news = NOTHING, False
        self.unsure.discard(name)

    @rule(name=st.sampled_from(NAMES), topics=subscriptions)
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        if not self.is_in(name):
            if not self.talk.client(name).member_id:
                self.renew(name)
            self.wanted[name] = topics
            self.talk.join(name, topics)

    def send(self, name: str) -> None:
        """Heartbeat; one that follows a lost answer says everything, and is told everything."""
        fields: dict[str, Any] = {}
        if name in self.unsure:
            self.unsure.discard(name)
            fields = {
                "subscribed_topic_names": self.wanted[name],
                "rebalance_timeout": timedelta(seconds=60),
                "topic_partitions": owned(self.talk.client(name).owned),
            }
        self.talk.beat(name, **fields)

    @rule(name=st.sampled_from(NAMES))
    def beat(self, name: str) -> None:
        if self.is_in(name):
            self.send(name)

    @rule(name=st.sampled_from(NAMES))
    def beat_and_lose_the_answer(self, name: str) -> None:
        """The client knows nothing of it: it goes on with what it had."""
        if not self.is_in(name):
            return
        client = self.talk.client(name)
        before = (client.epoch, client.owned)
        self.send(name)
        client.epoch, client.owned = before
        self.unsure.add(name)

    @rule(name=st.sampled_from(NAMES), topics=subscriptions)
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        if self.is_in(name):
            self.wanted[name] = topics
            if name in self.unsure:
                self.send(name)
            else:
                self.talk.beat(name, subscribed_topic_names=topics)

    @rule(name=st.sampled_from(NAMES), for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        if self.is_in(name):
            is_static = self.talk.client(name).instance is not None
            self.talk.leave(name, -2 if for_a_while and is_static else -1)

    @rule(name=st.sampled_from(NAMES))
    def crash(self, name: str) -> None:
        """The process dies and another takes its place, which has yet to join."""
        if self.is_in(name):
            self.renew(name)

    @rule(seconds=st.sampled_from([0, 1, 5, 50]))
    def wait(self, seconds: int) -> None:
        self.talk.advance(1_000 * seconds)

    @rule(counts=st.fixed_dictionaries({}, optional=dict.fromkeys(TOPICS, st.integers(1, 4))))
    def change_topics(self, counts: dict[str, int]) -> None:
        grown = {name: max(count, self.talk.topics.get(name, 0)) for name, count in counts.items()}
        self.talk.set_topics(**grown)
        for client in self.talk.clients.values():
            client.owned = frozenset(each for each in client.owned if each[0] in grown)

    @rule(most=st.integers(1, 3))
    def work(self, most: int) -> None:
        self.talk.work(most)

    @precondition(lambda self: self.talk.tasks)
    @rule(how=st.sampled_from(["retriable", "no_worker", "needs_whole"]))
    def fail(self, how: str) -> None:
        """A worker dies, is not there, or has forgotten the group; a late answer comes twice."""
        task = self.talk.tasks.popleft()
        if isinstance(task, ComputeAssignment):
            fields: Any = {how: True}
            failed = AssignmentFailed(group_id="g", run=task.run, reason="it broke", **fields)
            self.talk.handle(failed)
            self.talk.handle(failed)
        elif not isinstance(task, CancelAssignment):
            self.talk.handle(self.talk.executor.run(task))

    @rule(from_compacted=st.booleans())
    def fail_over(self, from_compacted: bool) -> None:
        self.talk.failover(from_compacted=from_compacted)

    @invariant()
    def no_two_clients_own_a_partition(self) -> None:
        """Clients that are members; those that are not any more are zombies, fenced by epochs."""
        if not hasattr(self, "talk"):
            return
        group = self.talk.context.groups.get("g")
        members = {} if group is None else group.members
        check_owned_once(
            (name, client.owned)
            for name, client in self.talk.clients.items()
            if client.member_id in members and client.epoch > 0
        )

    def teardown(self) -> None:
        """When it is quiet all come to rest: everything that is subscribed has one owner."""
        if not hasattr(self, "talk"):
            return
        talk = self.talk
        for _ in range(60):
            talk.work()
            for name in NAMES:
                client = talk.client(name)
                if client.error in FATAL or not self.is_in(name):
                    client.error = ErrorCode.none
                    if not self.is_in(name):
                        continue
                self.send(name)
            talk.advance(1_500)
        group = talk.context.groups.get("g")
        if group is None or not getattr(group, "members", None):
            return
        assert talk.describe().group_state == "Stable"
        wanted = {
            (topic, index)
            for member in group.members.values()
            for topic in member.subscription.names
            for index in range(talk.topics.get(topic, 0))
        }
        had: set[tuple[str, int]] = set()
        for name in NAMES:
            if self.is_in(name):
                assert not had & talk.client(name).owned
                had |= talk.client(name).owned
        assert had == wanted


TestMembers = Members.TestCase
TestMembers.settings = settings(
    max_examples=examples(50),
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
