"""A run that is told what changed gives what a run that is told everything gives."""

import random
from dataclasses import dataclass, field, replace

import pytest

from protocol.assignors import registry
from protocol.assignors.executor import Executor
from protocol.assignors.spec import AssignorError, GroupAssignment, GroupSpec
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
    RegexesResolved,
    ResolveRegexes,
)
from protocol.groups.modern.assignment_records import read_target
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT, TopicNumbers
from protocol.groups.topic_row import TopicRow


def topic(number: int, partitions: int = 6) -> TopicRow:
    return TopicRow(bytes([number]) * 16, f"t{number}", partitions)


def executor() -> Executor:
    return Executor(lambda: 0.0)


@dataclass
class Group:
    """A group as its coordinator knows it, which can tell all of itself or its changes."""

    topics: tuple[TopicRow, ...] = ()
    subscriptions: dict[int, frozenset[str]] = field(default_factory=dict)
    members: dict[str, MemberRow] = field(default_factory=dict)
    targets: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 1

    def whole(self, assignor: str = "uniform") -> ComputeAssignment:
        self.epoch += 1
        changes = GroupChanges(
            topics=self.topics,
            subscriptions=self.subscriptions,
            members=tuple(self.members.values()),
            targets=tuple(self.targets.items()),
        )
        return self.task(changes, None, assignor)

    def changed(self, changes: GroupChanges, assignor: str = "uniform") -> ComputeAssignment:
        self.epoch += 1
        return self.task(changes, self.epoch - 1, assignor)

    def task(self, changes: GroupChanges, base: int | None, assignor: str) -> ComputeAssignment:
        return ComputeAssignment(
            group_id="g",
            run=self.epoch,
            assignor=assignor,
            base_run=base,
            changes=changes,
        )

    def take(self, answer: object) -> None:
        assert isinstance(answer, AssignmentComputed), answer
        self.targets.update(answer.members)

    def owned(self) -> dict[str, set[tuple[bytes, int]]]:
        numbers = TopicNumbers()
        return {
            member_id: {
                (numbers.ids[partition >> TOPIC_SHIFT], partition & INDEX_MASK)
                for partition in read_target(value, numbers)
            }
            for member_id, value in self.targets.items()
        }


def three_members() -> Group:
    rows = [MemberRow(f"m{n}", None, None, 0) for n in range(3)]
    return Group(
        (topic(1), topic(2)), {0: frozenset({"t1", "t2"})}, {row.member_id: row for row in rows}
    )


def test_every_partition_of_a_whole_group_is_assigned_once() -> None:
    group = three_members()
    group.take(executor().run(group.whole()))
    owned = group.owned()
    assert [len(each) for each in owned.values()] == [4, 4, 4]
    assert len(set().union(*owned.values())) == 12


@pytest.mark.parametrize("assignor", ["uniform", "uniform2"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_member_that_is_back_gets_what_it_had_and_only_that_moves(
    assignor: str, is_whole: bool
) -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole(assignor)))
    before, earlier = group.owned(), group.targets.pop("m1")
    group.take(worker.run(group.changed(GroupChanges(gone=(("m1", None),)), assignor)))
    assert len(group.owned()["m0"]) == 6
    row = MemberRow("b1", None, None, 0)
    group.members = {"m0": group.members["m0"], "m2": group.members["m2"], "b1": row}
    changes = GroupChanges(members=(row,))
    task = group.whole(assignor) if is_whole else group.changed(changes, assignor)
    changes = replace(task.changes, earlier=(("b1", earlier), ("who", earlier)))
    answer = worker.run(replace(task, changes=changes))
    assert isinstance(answer, AssignmentComputed)
    assert dict(answer.members).keys() == {"m0", "m2", "b1"}
    assert answer.partitions_moved == 4
    group.take(answer)
    assert group.owned() == {"m0": before["m0"], "m2": before["m2"], "b1": before["m1"]}
    again = worker.run(group.changed(GroupChanges(), assignor))
    assert isinstance(again, AssignmentComputed)
    assert not len(again.members)


def test_what_a_member_had_of_topics_that_are_gone_is_nobodys() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    earlier = group.targets["m1"]
    changes = GroupChanges(topics=(topic(1, 2),), earlier=(("m0", earlier),))
    answer = worker.run(group.changed(changes))
    group.take(answer)
    assert sum(len(each) for each in group.owned().values()) == 2


def test_only_members_whose_target_changes_are_answered() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    answer = worker.run(group.changed(GroupChanges()))
    assert isinstance(answer, AssignmentComputed)
    assert list(answer.members) == []
    newcomer = MemberRow("idle", None, None, 1)
    answer = worker.run(
        group.changed(GroupChanges(subscriptions={1: frozenset()}, members=(newcomer,)))
    )
    assert isinstance(answer, AssignmentComputed)
    assert [member_id for member_id, _ in answer.members] == ["idle"]


def test_all_members_are_answered_when_all_are_wanted() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    task = ComputeAssignment(
        group_id="g",
        run=3,
        assignor="uniform",
        base_run=2,
        changes=GroupChanges(),
        answer_whole=True,
    )
    answer = worker.run(task)
    assert isinstance(answer, AssignmentComputed)
    assert len(answer.members) == 3


def test_the_partitions_of_a_member_that_is_gone_count_as_moved() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    owned = len(group.owned()["m1"])
    assert owned > 0
    answer = worker.run(group.changed(GroupChanges(gone=(("m1", None),))))
    group.take(answer)
    assert isinstance(answer, AssignmentComputed)
    assert answer.partitions_moved == owned
    again = worker.run(group.changed(GroupChanges()))
    assert isinstance(again, AssignmentComputed)
    assert again.partitions_moved == 0


def test_freed_partitions_of_a_topic_that_is_gone_do_not_count_as_moved() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    kept, *others = group.topics
    lost = sum(1 for topic_id, _ in group.owned()["m1"] if topic_id == kept.topic_id)
    assert others
    changes = GroupChanges(gone=(("m1", None),), topics=(kept,))
    answer = worker.run(group.changed(changes))
    assert isinstance(answer, AssignmentComputed)
    moved = answer.partitions_moved
    assert lost <= moved <= kept.partitions


def test_the_share_of_a_replaced_static_member_goes_to_its_successor() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    before = group.owned()["m1"]
    successor = MemberRow("a-new-id", "instance", None, 0)
    answer = worker.run(
        group.changed(GroupChanges(gone=(("m1", "a-new-id"),), members=(successor,)))
    )
    group.take(answer)
    assert isinstance(answer, AssignmentComputed)
    assert answer.partitions_moved == 0
    assert group.owned().get("a-new-id", before) == before


def test_a_member_that_left_and_joined_again_begins_without_a_target() -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    again = GroupChanges(gone=(("m1", None),), members=(MemberRow("m1", None, None, 0),))
    answer = worker.run(group.changed(again))
    assert isinstance(answer, AssignmentComputed)
    assert "m1" in dict(answer.members)


def test_a_worker_that_does_not_hold_the_group_asks_for_all_of_it() -> None:
    group, worker = three_members(), executor()
    answer = worker.run(group.changed(GroupChanges()))
    assert isinstance(answer, AssignmentFailed)
    assert answer.needs_whole
    group.take(worker.run(group.whole()))
    group.epoch += 5
    answer = worker.run(group.changed(GroupChanges()))
    assert isinstance(answer, AssignmentFailed)
    assert answer.needs_whole


class Broken:
    name = "broken"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        return GroupAssignment(spec.previous_owner - 7)


def test_an_assignor_that_fails_is_named_and_the_group_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, worker = three_members(), executor()
    group.take(worker.run(group.whole()))
    monkeypatch.setattr(registry, "assignor", lambda name: Broken())
    answer = worker.run(group.changed(GroupChanges(), "broken"))
    assert isinstance(answer, AssignmentFailed)
    assert "'broken' gave an invalid assignment" in answer.reason
    assert not (answer.needs_whole or answer.retriable or answer.no_worker)
    monkeypatch.undo()
    answer = worker.run(group.changed(GroupChanges()))
    assert isinstance(answer, AssignmentFailed)
    assert answer.needs_whole


def test_an_unknown_assignor_is_a_failure_and_no_crash() -> None:
    with pytest.raises(AssignorError):
        registry.assignor("nobody's")
    answer = executor().run(three_members().whole("nobody's"))
    assert isinstance(answer, AssignmentFailed)


def test_topics_match_by_their_whole_name_and_an_invalid_expression_matches_none() -> None:
    task = ResolveRegexes(
        group_id="g", version=4, regexes=("a.*", "b", "("), topics=["b", "ab", "a", "bb"]
    )
    answer = executor().run(task)
    assert answer == RegexesResolved(
        group_id="g", version=4, topics={"a.*": ("a", "ab"), "b": ("b",), "(": ()}
    )


@pytest.mark.parametrize("seed", range(30))
def test_a_worker_that_is_told_changes_gives_what_one_that_is_told_everything_gives(
    seed: int,
) -> None:
    rng = random.Random(seed)
    group, worker, named = three_members(), executor(), 3
    group.take(worker.run(group.whole()))
    for _ in range(12):
        gone: list[tuple[str, str | None]] = []
        rows: list[MemberRow] = []
        topics = None
        subscriptions = {}
        for _ in range(rng.randint(0, 3)):
            member_id = rng.choice(sorted(group.members))
            named += 1
            match rng.randint(0, 4):
                case 0 if len(group.members) > 1:
                    gone.append((member_id, None))
                    rows = [row for row in rows if row.member_id != member_id]
                    del group.members[member_id]
                    group.targets.pop(member_id, None)
                case 1:
                    successor = MemberRow(f"m{named}", "i", None, 0)
                    gone.append((member_id, successor.member_id))
                    rows = [row for row in rows if row.member_id != member_id]
                    del group.members[member_id]
                    if (target := group.targets.pop(member_id, None)) is not None:
                        group.targets[successor.member_id] = target
                    group.members[successor.member_id] = successor
                    rows.append(successor)
                case 2:
                    group.subscriptions[named] = frozenset(rng.sample(("t1", "t2", "t3", "t9"), 2))
                    subscriptions[named] = group.subscriptions[named]
                    row = MemberRow(f"m{named}", None, None, named)
                    group.members[row.member_id] = row
                    rows.append(row)
                case 3:
                    rows = [row for row in rows if row.member_id != member_id]
                    row = group.members[member_id]._replace(subscription=0)
                    group.members[member_id] = row
                    rows.append(row)
                case 4:
                    group.topics = tuple(
                        topic(n, rng.randint(1, 9)) for n in rng.sample(range(1, 4), 2)
                    )
                    topics = group.topics
        before = dict(group.targets)
        changes = GroupChanges(
            topics=topics, subscriptions=subscriptions, gone=tuple(gone), members=tuple(rows)
        )
        told_changes = worker.run(group.changed(changes))
        group.epoch -= 1
        told_all = executor().run(group.whole())
        assert isinstance(told_changes, AssignmentComputed)
        assert isinstance(told_all, AssignmentComputed)
        assert {**before, **dict(told_changes.members)} == {**before, **dict(told_all.members)}
        group.take(told_changes)
