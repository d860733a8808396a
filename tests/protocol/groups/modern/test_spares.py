"""Hot spares (KIP-345's future works): who is active, whatever happens, and who takes over."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from protocol.groups.facts import MemberEvent, MemberEventKind, TargetAssigned
from protocol.groups.modern import target
from protocol.stories.movement import of_target
from protocol.stories.recent_events import EVENTS_PER_GROUP
from protocol.stories.teller import StoryTeller
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.facts import Fact

ACTIVE = "group.active.members"
NAMES = ("A", "B", "C", "S=s", "T=t")


def limited(talk: ConsumerTalk, limit: int) -> None:
    talk.shard.group_configs = {GROUP: {ACTIVE: str(limit)}}


def settle(talk: ConsumerTalk, names: list[str]) -> None:
    talk.advance(10)
    talk.work()
    talk.converge(*(each.partition("=")[0] for each in names))


def active(talk: ConsumerTalk) -> set[str]:
    return set(talk.group.targets)


def owned(talk: ConsumerTalk, names: list[str]) -> list[tuple[str, int]]:
    clients = [talk.client(each.partition("=")[0]) for each in names]
    return sorted(place for client in clients for place in client.owned)


class Fleet:
    """A group of which members come and go, whose limit and topics change, with failovers."""

    def __init__(self, seed: int, assignor: str) -> None:
        self.rng = random.Random(seed)
        self.limit = 2
        self.names: list[str] = []
        in_place = self.rng.random() < 0.3
        self.talk = ConsumerTalk({"group.consumer.assignors": assignor}, in_place=in_place)
        limited(self.talk, self.limit)

    def comes(self) -> None:
        name = self.rng.choice(NAMES)
        if name not in self.names:
            self.talk.join(name, topics=self.rng.choice((("a",), ("a", "b"))))
            self.names.append(name)

    def goes(self) -> None:
        if self.names:
            name = self.names.pop(self.rng.randrange(len(self.names)))
            self.talk.leave(name.partition("=")[0])

    def fails_over(self) -> None:
        self.talk.failover(from_compacted=self.rng.random() < 0.5)

    def has_another_limit(self) -> None:
        self.limit = self.rng.choice((0, 1, 2, 3))
        limited(self.talk, self.limit)

    def has_another_topic(self) -> None:
        self.talk.set_topics(a=self.rng.choice((4, 6)), b=2)

    def step(self) -> None:
        talk, limit = self.talk, self.limit
        before = active(talk) if self.names else set()
        self.rng.choice(
            (
                *(self.comes,) * 2,
                self.goes,
                self.fails_over,
                self.has_another_limit,
                self.has_another_topic,
            )
        )()
        if not self.names:
            return
        settle(talk, self.names)
        members = talk.group.members
        assert len(active(talk)) == min(self.limit or len(members), len(members))
        if limit == self.limit:
            assert before & members.keys() <= active(talk)
        wanted = {name for each in active(talk) for name in members[each].subscription.names}
        counts = {name: talk.context.topics.by_name(name).partitions for name in wanted}
        assert owned(talk, self.names) == sorted(
            (name, index) for name, count in counts.items() for index in range(count)
        )


@pytest.mark.parametrize("assignor", ["uniform", "range", "uniform2"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_so_many_members_are_active_and_stay_so(
    seed: int, assignor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(target, "SLICE_MEMBERS", 2)
    fleet = Fleet(seed, assignor)
    for _ in range(30):
        fleet.step()


def test_a_spare_takes_over_what_was_left_and_nothing_else_moves() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 9})
    limited(talk, 3)
    names = ["A", "B", "C", "D"]
    for name in names:
        talk.join(name)
    settle(talk, names)
    before = {name: talk.client(name).owned for name in names}
    assert not before["D"]
    talk.leave("B")
    settle(talk, ["A", "C", "D"])
    assert talk.client("D").owned == before["B"]
    assert (talk.client("A").owned, talk.client("C").owned) == (before["A"], before["C"])
    [*_, fact] = [fact for fact in talk.facts if isinstance(fact, TargetAssigned)]
    assert (fact.members, fact.members_changed, fact.partitions_moved) == (3, 1, 3)
    assert fact.change is not None
    assert of_target("consumer", fact.change).moved == 3


def test_what_a_member_had_that_is_a_spare_now_is_told_as_moved() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    for name in ("A", "B"):
        talk.join(name)
    settle(talk, ["A", "B"])
    limited(talk, 1)
    settle(talk, ["A", "B"])
    [*_, fact] = [fact for fact in talk.facts if isinstance(fact, TargetAssigned)]
    assert fact.partitions_moved == 2
    assert fact.change is not None
    assert of_target("consumer", fact.change).moved == 2
    assert talk.owned("A", "B") == [4, 0]
    assert revoked(talk.facts) == 2
    flood = MemberEvent(
        group_id=fact.group_id,
        time_ms=fact.changed_ms,
        kind=MemberEventKind.UPDATED,
        member_id="m-A",
        client_id="A",
        client_host="/127.0.0.1",
    )
    place = talk.facts.index(fact)
    many = [*talk.facts[:place], *[flood] * EVENTS_PER_GROUP, *talk.facts[place:]]
    assert revoked(many) == 0, "it may be gone: not all events of the group are known"


def revoked(facts: Iterable[Fact]) -> int | None:
    """What members had to give up, by the last story."""
    teller = StoryTeller(0)
    [*_, story] = [story for fact in facts for story in teller.tell(fact)]
    return story.revoked


def test_an_active_member_that_is_away_stays_so_and_a_spare_that_is_away_takes_nothing() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    limited(talk, 2)
    names = ["A", "B", "S=s", "T=t"]
    for name in names:
        talk.join(name)
    settle(talk, names)
    assert {name for name in "ABST" if talk.client(name).owned} == {"A", "S"}  # A was alone once
    talk.leave("S", epoch=-2)
    talk.leave("T", epoch=-2)
    settle(talk, ["A", "B"])
    assert talk.owned("A", "B") == [2, 0]
    talk.leave("A")
    settle(talk, ["B"])
    assert talk.owned("B") == [2]


def test_a_spare_that_is_replaced_while_the_assignor_runs_is_a_spare() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    names = ["S=s", "T=t"]
    for name in names:
        talk.join(name)
    settle(talk, names)
    limited(talk, 1)
    talk.advance(1)  # the run has begun, without the later of them
    assert talk.tasks
    talk.leave("T", epoch=-2)
    talk.join("T", member_id="m-again")
    settle(talk, names)
    assert talk.owned("S", "T") == [4, 0]
    assert active(talk) == {"m-S"}


def test_a_failed_run_is_sent_again_without_the_spares() -> None:
    talk = ConsumerTalk(in_place=False, topics={"a": 4})
    limited(talk, 1)
    for name in ("A", "B"):
        talk.join(name)
    settle(talk, ["A", "B"])
    talk.context.modern_runtime[GROUP].feed.start_over()
    talk.join("C")
    talk.advance(1)
    [task] = talk.tasks
    assert task.base_run is None
    assert [row.member_id for row in task.changes.members] == ["m-A"]
    assert [member_id for member_id, _ in task.changes.targets] == ["m-A"]
    settle(talk, ["A", "B", "C"])
    assert talk.owned("A", "B", "C") == [4, 0, 0]


def test_a_topic_that_only_spares_subscribe_to_has_no_owner_until_one_takes_over() -> None:
    talk = ConsumerTalk(in_place=False)
    limited(talk, 1)
    talk.join("A")
    talk.join("B", topics=("b",))
    settle(talk, ["A", "B"])
    assert talk.owned("A", "B") == [4, 0]
    talk.leave("A")
    settle(talk, ["B"])
    assert talk.owned("B") == [2]
