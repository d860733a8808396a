"""Drills as data: what the files may say, and what the members of a drill are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.drills.drill import DrillError, Target, Workload, named, names, parse

STEPS = '[[steps]]\ndo = "kill"\n'


def test_the_drills_that_come_with_the_program_are_all_well_formed():
    assert set(names()) == {
        "cut-leader",
        "freeze-leader",
        "full-disk",
        "full-disk-of-leader",
        "kill-in-mass-restart",
        "kill-in-rebalance",
        "kill-leader",
        "kill-leader-and-controller",
        "kill-leader-of-many",
        "kill-majority",
        "lose-disk",
        "rolling-restart",
        "slow-disk",
    }
    for name in names():
        drill = named(name)
        assert drill.name == name
        assert drill.steps


def test_a_step_says_what_it_does_to_whom():
    drill = parse("d", 'about = "x"\n[[steps]]\ndo = "freeze"\ntarget = "majority"\n')
    assert drill.steps[0].target is Target.MAJORITY
    assert str(drill.steps[0]) == "freeze majority"


def test_what_is_not_said_has_its_usual_value():
    drill = parse("d", f'about = "x"\n{STEPS}')
    assert drill.workload == Workload()
    assert drill.expect.rebalances_max == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("about =", "Drill d is no TOML: "),
        (STEPS, "Drill d: `about` must say"),
        ('about = "x"', "Drill d: there are no [[steps]]."),
        (f'about = "x"\nextra = 1\n{STEPS}', "Drill d: there is nothing called 'extra'"),
        (f'about = "x"\n{STEPS}[workload]\nsize = 1', "workload has no setting 'size'"),
        (f'about = "x"\n{STEPS}[workload]\nmembers = "many"', "must be a number and not 'many'"),
        (f'about = "x"\n{STEPS}[workload]\nmembers = true', "must be a number and not True"),
        (f'about = "x"\n{STEPS}[workload]\nmembers = 0', "must be from 1 to 1e+09 and not 0"),
        (f'about = "x"\n{STEPS}[workload]\nstatic_share = 2', "from 0 to 1 and not 2"),
        (f'about = "x"\nworkload = 1\n{STEPS}', "workload must be a table."),
        ('about = "x"\n[[steps]]\ndo = "explode"', "step 1: do must be one of kill, start"),
        ('about = "x"\n[[steps]]\nafter_ms = 1', "step 1 lacks 'do'."),
        ('about = "x"\n[[steps]]\ndo = 1', "step 1: do must be one of"),
    ],
)
def test_a_bad_drill_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(DrillError) as refused:
        parse("d", text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_drill_that_is_not_there_is_refused():
    with pytest.raises(DrillError, match="There is no drill 'nonsense'"):
        named("nonsense")


@given(st.integers(1, 20), st.integers(1, 300), st.sampled_from((0.0, 0.1, 0.3, 0.5, 0.9, 1.0)))
def test_members_are_shared_out_evenly_and_have_a_partition_each(groups, members, share):
    workload = Workload(groups=groups, members=members, static_share=share)
    configs = workload.configs("g")
    assert len({config.client_id for config in configs}) == members
    sizes = [
        sum(config.group_id == group_id for config in configs)
        for group_id in workload.group_ids("g")
    ]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= workload.partitions_each
    static = sum(config.instance_id is not None for config in configs)
    assert abs(static - members * share) <= groups


def test_a_drill_of_another_size_has_no_empty_groups():
    drill = named("kill-leader").of_size(3)
    assert drill.workload.members == 3
    assert drill.workload.groups == 3
    assert named("kill-leader").of_size(None) == named("kill-leader")
