"""How much work plans of many pods take: it grows about as their number does."""

import pytest

from bench.scenarios.files import parse
from bench.scenarios.plan import Leave, Start, expand
from bench.scenarios.scenario import Scenario
from tests.counting import calls

PODS = 10_000
CALLS_PER_POD = 200
"""A replaced pod takes about a hundred calls; work for each pair of pods, thousands."""


def scenario(replicas: int, *lines: str, behaviour: str, hours: int = 24) -> Scenario:
    text = [
        'about = "x"', f'duration = "{hours}h"', "topics = { t = { partitions = 4 } }",
        "[[groups]]", 'name = "a"', 'topics = ["t"]', f"replicas = {replicas}", *lines,
        f"behaviours = [{behaviour}]",
    ]  # fmt: skip
    return parse("s", "\n".join(text))


DEPLOY = '{ do = "rolling-deploy", at = "60s" }'
RESTART = '{ do = "restart", at = "60s" }'


@pytest.mark.parametrize(
    ("lines", "behaviour"),
    [
        pytest.param((), DEPLOY, id="a Deployment"),
        pytest.param(("maxSurge = 1", "maxUnavailable = 0"), DEPLOY, id="one by one"),
        pytest.param(('workload = "StatefulSet"',), DEPLOY, id="a StatefulSet"),
        pytest.param(
            ('workload = "StatefulSet"', 'maxUnavailable = "25%"'), DEPLOY, id="more at a time"
        ),
        pytest.param((), RESTART, id="restarts"),
    ],
)
def test_a_plan_takes_work_for_each_pod_and_not_for_each_pair(
    lines: tuple[str, ...], behaviour: str
) -> None:
    expand(scenario(10, *lines, behaviour=behaviour))
    made = scenario(PODS, *lines, behaviour=behaviour)
    plans = []
    assert calls(lambda: plans.append(expand(made))) < CALLS_PER_POD * PODS
    (plan,) = plans
    assert sum(isinstance(step.action, Start) for step in plan.steps) == 2 * PODS
    assert sum(isinstance(step.action, Leave) for step in plan.steps) == PODS


def test_scaling_takes_work_for_each_pod_that_comes_or_goes() -> None:
    scale = '{{ do = "scale", at = "{}s", replicas = {} }}'
    behaviour = ", ".join(scale.format(60 + 60 * n, PODS if n % 2 else 1) for n in range(4))
    made = scenario(PODS, behaviour=behaviour)
    expand(scenario(10, behaviour=behaviour))
    assert calls(lambda: expand(made)) < 4 * CALLS_PER_POD * PODS


def test_an_autoscaler_with_a_long_window_takes_work_for_each_look() -> None:
    behaviour = """{ do = "autoscale", at = "0s", every = "1s", pod_per_second = 1,
        stabilizationWindowSeconds = 3600, arrivals = [{ at = "0s", per_second = 3 }] }"""
    made = scenario(3, behaviour=behaviour.replace("\n", ""), hours=2)
    looks = 2 * 3600
    assert calls(lambda: expand(made)) < 200 * looks
