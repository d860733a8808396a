"""What histories must never show."""

from protocol.members.promises import Commits, Generations, Owners, backward


def test_a_partition_has_one_owner_in_a_generation() -> None:
    owners = Owners[str]()
    assert owners.assigned(1, "t-0", "b") == ("b",)
    assert owners.assigned(1, "t-0", "b") == ("b",)
    assert owners.assigned(2, "t-0", "a") == ("a",)
    assert list(owners.owned_twice()) == []
    assert owners.assigned(1, "t-0", "a") == ("a", "b")
    assert list(owners.owned_twice()) == [(1, "t-0", ("a", "b"))]


def test_an_acknowledged_offset_is_there_or_a_later_one() -> None:
    commits = Commits[str]()
    for partition, offset in (("a", 5), ("a", 9), ("b", 5), ("c", 5), ("d", 0)):
        commits.acknowledged(partition, offset)
    assert list(commits.lost({"a": 8, "b": 6, "c": 5})) == [("a", 9, 8), ("d", 0, None)]


def test_a_rebalance_is_a_generation_newer_than_all_before_the_moment() -> None:
    generations = Generations(50)
    for time_ms, generation in ((10, 1), (60, 1), (60, 2), (61, 2), (50, 3)):
        generations.assigned(time_ms, generation)
    assert generations.rebalances == 2


def test_generations_only_grow() -> None:
    assert list(backward((each, True) for each in (1, 1, 3, 2, 4))) == [(3, 2)]


def test_a_generation_that_was_not_written_may_begin_again() -> None:
    assert list(backward([(1, True), (2, False), (1, False), (2, False), (2, True)])) == []
    assert list(backward([(1, False), (2, True), (1, False), (1, True)])) == [(2, 1), (2, 1)]
