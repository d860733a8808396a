"""How the crowd is dealt out to Spark's tasks."""

from collections import Counter

from bench.load.spark import Crowd


def test_half_of_the_members_of_every_group_are_static():
    members = Crowd().share(0, 1)
    assert len(members) == 1_000
    counts = Counter((member.group_id, member.instance_id is None) for member in members)
    assert set(counts.values()) == {50}


def test_every_member_is_driven_by_one_task_and_every_task_has_both_kinds():
    crowd = Crowd(members=120, groups=4)
    shares = [crowd.share(task, 3) for task in range(3)]
    names = [member.client_id for share in shares for member in share]
    assert len(names) == len(set(names)) == 120
    for share in shares:
        assert {member.group_id for member in share} == set(crowd.group_ids)
        assert {member.instance_id is None for member in share} == {True, False}


def test_a_crowd_of_any_size_asks_about_as_much_each_second():
    assert Crowd.of(1_000) == Crowd()
    large = Crowd.of(10_000)
    assert (large.members, large.groups) == (10_000, 100)
    assert {member.heartbeat_interval_ms for member in large.share(0, 50)} == {5_000}
    assert Crowd.of(20).groups == 10
