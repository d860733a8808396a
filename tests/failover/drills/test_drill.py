"""Drills as data: what the files may say, and what the members of a drill are."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.drills.checked import DrillError, checked
from failover.drills.drill import Drill, Target, Workload, named, names, parse

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
        "kill-leader-of-all-types",
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
        (STEPS, "Drill d: the file lacks 'about'."),
        (f'about = ""\n{STEPS}', "Drill d: about is '': expected text of length >= 1."),
        ('about = "x"', "Drill d: the file lacks 'steps'."),
        ('about = "x"\nsteps = []', "Drill d: steps is []: expected a list of length >= 1."),
        (f'about = "x"\nextra = 1\n{STEPS}', "Drill d: the file has no setting 'extra'."),
        (f'about = "x"\nname = "e"\n{STEPS}', "Drill d: leave `name` out"),
        (f'about = "x"\n{STEPS}[workload]\nsize = 1', "workload has no setting 'size'."),
        (
            f'about = "x"\n{STEPS}[workload]\nmembers = "many"',
            "workload: members is 'many': expected a whole number, got text.",
        ),
        (
            f'about = "x"\n{STEPS}[workload]\nmembers = true',
            "workload: members is True: expected a whole number, got true or false.",
        ),
        (
            f'about = "x"\n{STEPS}[workload]\nmembers = 0',
            "workload: members is 0: expected a whole number >= 1.",
        ),
        (
            f'about = "x"\n{STEPS}[workload]\nmembers = 10000000000',
            "workload: members is 10000000000: expected a whole number <= 1000000000.",
        ),
        (
            f'about = "x"\n{STEPS}[workload]\nstatic_share = 2',
            "workload: static_share is 2: expected a number <= 1.0.",
        ),
        (f'about = "x"\n{STEPS}[workload]\nstatic_share = nan', "static_share is nan: expected"),
        (f'about = "x"\nworkload = 1\n{STEPS}', "workload is 1: expected a table, got"),
        (
            'about = "x"\n[[steps]]\ndo = "explode"',
            "step 1: do is 'explode': invalid enum value 'explode' (there are kill, start",
        ),
        ('about = "x"\n[[steps]]\nafter_ms = 1', "step 1 lacks 'do'."),
        ('about = "x"\n[[steps]]\ndo = 1', "step 1: do is 1: expected text, got a whole number"),
        ('about = "x"\nsteps = [1]', "step 1 is 1: expected a table"),
        ('about = "x"\n[[steps]]\ndo = "a\\nb"', "step 1: do is 'a\\nb': invalid enum value"),
    ],
)
def test_a_bad_drill_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(DrillError) as refused:
        parse("d", text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_mistake_of_a_file_is_told() -> None:
    text = """
        about = "x"
        [workload]
        members = 0
        size = 1
        [[steps]]
        do = "kill"
        [[steps]]
        do = "wait"
        until = "tomorrow"
        [expect]
        silent_ms_max = "never"
    """
    with pytest.raises(DrillError) as refused:
        parse("d", text)
    sentences = str(refused.value).split("Drill d: ")[1:]
    assert [sentence.split(" is ")[0].split(" has ")[0] for sentence in sentences] == [
        "workload: members",
        "workload",
        "step 2: until",
        "expect: silent_ms_max",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(("about", "steps", "workload", "members", "do", "x\n")), inner
            )
        ),
    )
)
def test_any_table_is_a_drill_or_sentences_about_it(value: object) -> None:
    table = value if isinstance(value, dict) else {"steps": value}
    with suppress(DrillError):
        checked(Drill, {**table, "name": "d"}, "Drill d")


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


def test_groups_of_all_types_are_spread_among_each_other():
    shares = {"consumer_share": 0.25, "share_share": 0.25, "streams_share": 0.25}
    types = [*Workload(groups=8, **shares).group_types("g").values()]
    assert types == ["classic", "consumer", "share", "streams"] * 2
    halves = Workload(groups=4, consumer_share=0.5).group_types("g")
    assert [*halves.values()] == ["classic", "consumer"] * 2
    assert set(Workload(consumer_share=1.0).group_types("g").values()) == {"consumer"}


def test_a_drill_of_another_size_has_no_empty_groups():
    drill = named("kill-leader").of_size(3)
    assert drill.workload.members == 3
    assert drill.workload.groups == 3
    assert named("kill-leader").of_size(None) == named("kill-leader")
