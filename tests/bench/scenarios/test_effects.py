"""Behaviours that do nothing, or less than they say, are mistakes of their scenario."""

import pytest

from bench.rehearse import main
from bench.scenarios.effects import checked_plan
from bench.scenarios.files import names, parsed, parsed_variants
from bench.scenarios.plan import expand
from failover.drills.checked import DrillError

GOOD = """\
about = "x"
duration = "10m"
topics = { t = { partitions = 4 }, u = { partitions = 4 } }

[[groups]]
name = "a"
topics = ["t"]
replicas = 3
behaviours = [
"""
NO_MORE = '{ do = "scale", at = "1m", replicas = 0 }'


@pytest.mark.parametrize("name", names())
def test_each_behaviour_of_the_scenarios_that_are_ready_does_something(name: str) -> None:
    for each in parsed_variants(name).values():
        assert checked_plan(each) == expand(each.scenario)


@pytest.mark.parametrize(
    ("behaviours", "sentence"),
    [
        (
            ['{ do = "scale", at = "1m", replicas = 3 }'],
            "line 9: behaviour 1 of group a does nothing: the group has 3 pods then.",
        ),
        (
            ['{ do = "scale", at = "1m", replicas = 5 }',
             '{ do = "scale", at = "2m", replicas = 5 }'],
            "line 9: behaviour 2 of group a does nothing: the group has 5 pods then.",
        ),
        *(
            (
                [NO_MORE, behaviour],
                "line 9: behaviour 2 of group a does nothing: no pod is running then.",
            )
            for behaviour in (
                '{ do = "crash", at = "2m" }',
                '{ do = "restart", at = "2m" }',
                '{ do = "flap", at = "2m", every = "9s", topics = ["u"] }',
                '{ do = "poll-timeout", at = "2m" }',
                '{ do = "pause", at = "2m", for = "9s" }',
                '{ do = "churn", at = "2m", every = "9s" }',
            )
        ),
        (
            [NO_MORE, '{ do = "rolling-deploy", at = "2m" }'],
            "line 9: behaviour 2 of group a does nothing: the group has no pods then.",
        ),
        (
            [NO_MORE, '{ do = "drain", at = "2m" }'],
            "line 9: behaviour 2 of group a does nothing: no pod is on a drained node.",
        ),
        (
            ['{ do = "autoscale", at = "6m", pod_per_second = 9, minReplicaCount = 3,'
             ' arrivals = [{ at = "6m", per_second = 1 }] }'],
            "line 9: behaviour 1 of group a does nothing: it never wants another number of pods.",
        ),
        (
            ['{ do = "crash", at = "1m", away = "1m" }', '{ do = "crash", at = "90s", pods = 3 }'],
            "line 9: behaviour 2 of group a: pods is 3, and only 2 are running then.",
        ),
    ],
)  # fmt: skip
def test_a_behaviour_that_does_nothing_is_told(behaviours: list[str], sentence: str) -> None:
    assert mistake(GOOD + ", ".join(behaviours) + "\n]\n") == f"Scenario s, {sentence}"


RACKS = """racks = ["x", "y"]
[[groups.behaviours]]
do = "crash"
at = "1m"
pods = 2
rack = "y"
"""


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        (4, ""),
        (3, "line 13: behaviour 1 of group a: pods is 2, and only 1 on rack y is running then."),
        (1, "line 13: group a, behaviour 1: pods is 2, and the group has at most 1."),
    ],
)
def test_there_must_be_so_many_pods_on_the_rack_of_a_crash(replicas: int, sentence: str) -> None:
    file = GOOD.replace("behaviours = [\n", "").replace("= 3", f"= {replicas}")
    assert mistake(file + RACKS).removeprefix("Scenario s, ") == sentence
    alone = RACKS.replace("pods = 2\n", "")
    told = "line 10: behaviour 1 of group a does nothing: no pod on rack y is running then."
    assert mistake(file + alone) == (f"Scenario s, {told}" if replicas == 1 else "")


def test_a_behaviour_of_copies_and_of_a_variant_is_told_once_with_its_line() -> None:
    text = GOOD + '{ do = "crash", at = "2m" } ]\ncopies = 3\n'
    more = '[[variants]]\nname = "v"\n[[variants.groups.a.behaviours]]\ndo = "scale"\nat = "1m"\n'
    files = parsed("s", text + more + "replicas = 3\n")
    assert checked_plan(files["base"]).steps
    with pytest.raises(DrillError) as refused:
        checked_plan(files["v"])
    assert str(refused.value) == (
        "Scenario s, variant v, line 14: behaviour 1 of group a does nothing: the group has 3 pods"
        " then."
    )


def test_what_changes_only_a_later_step_does_something() -> None:
    """The pods that this scaling wants are created as others are ready: it only allows it."""
    lines = GOOD.replace("behaviours", 'workload = "StatefulSet"\nbehaviours')
    deploy = '{ do = "rolling-deploy", at = "60s" }, '
    assert mistake(lines + deploy + '{ do = "scale", at = "62s", replicas = 4 } ]') == ""


def test_the_command_tells_it_before_the_run(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.toml"
    path.write_text(GOOD + '{ do = "scale", at = "1m", replicas = 3 } ]')
    assert main([str(path), "--simulate"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.endswith("behaviour 1 of group a does nothing: the group has 3 pods then.\n")


def mistake(text: str) -> str:
    """Return what is said about the file of a scenario; nothing if it is good."""
    try:
        checked_plan(parsed("s", text)["base"])
    except DrillError as error:
        return str(error)
    return ""
