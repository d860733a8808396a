"""Plans: what a scenario does to the pods of applications, and in which order."""

from collections import Counter, defaultdict
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.scenarios import behaviours
from bench.scenarios.behaviours import Behaviour
from bench.scenarios.files import parse
from bench.scenarios.plan import (
    BEHAVIOURS,
    CLOSED,
    Freeze,
    Leave,
    ScenarioPlan,
    Start,
    Subscribe,
    Thaw,
    Vanish,
    expand,
)
from bench.scenarios.scenario import Scenario
from tests.effort import examples


def scenario(*lines: str, behaviour: str = "", duration: str = "10m", seed: int = 0) -> Scenario:
    text = [
        'about = "x"', f'duration = "{duration}"', f"seed = {seed}",
        "topics = { t = { partitions = 4 }, u = { partitions = 4 } }",
        "[[groups]]", 'name = "a"', 'topics = ["t"]', *lines, f"behaviours = [{behaviour}]",
    ]  # fmt: skip
    return parse("s", "\n".join(text))


def told(plan: ScenarioPlan) -> list[tuple[int, str, str]]:
    """Return what happens after the initial joins, with names of pods numbered as they come."""
    names: dict[str, str] = {}
    lines = []
    for step in plan.steps:
        name = names.setdefault(step.life.name, f"p{len(names)}")
        lines.append((step.due_ms // 1000, name, type(step.action).__name__))
    return [line for line in lines if line[0] > 0]


DEPLOY = '{ do = "rolling-deploy", at = "60s" }'


def test_every_behaviour_has_a_row_and_a_class_of_its_own() -> None:
    assert set(BEHAVIOURS) == set(get_args(Behaviour))
    tags = [each.__struct_config__.tag for each in get_args(Behaviour)]
    assert len(set(tags)) == len(tags)
    assert {each.__module__ for each in get_args(Behaviour)} == {behaviours.__name__}


def test_without_behaviours_members_are_steady() -> None:
    plan = expand(scenario("replicas = 5"))
    assert Counter(type(step.action) for step in plan.steps) == {Start: 5}
    assert {step.due_ms for step in plan.steps} == {0}
    assert plan.changed_ms == 600_000


def test_the_first_of_every_replicas_pods_are_slow_to_revoke() -> None:
    lines = ("replicas = 4", 'revoke_time = "5s"', "slow_pods = 1")
    started = [each.life for each in expand(scenario(*lines, behaviour=DEPLOY)).steps
               if isinstance(each.action, Start)]  # fmt: skip
    assert [life.is_slow for life in started] == [True, False, False, False] * 2
    plan = expand(scenario(*lines, 'workload = "StatefulSet"', behaviour=DEPLOY))
    slow = {step.life.name for step in plan.steps if step.life.is_slow}
    assert slow == {"a-0"}, "also after the deploy"
    assert all(step.life.is_slow for step in expand(scenario('revoke_time = "5s"')).steps)


def test_a_stateful_set_replaces_one_pod_after_the_other_from_the_highest_on() -> None:
    plan = expand(scenario('workload = "StatefulSet"', "replicas = 3", behaviour=DEPLOY))
    assert told(plan) == [
        (61, "p2", "Leave"), (66, "p2", "Start"),
        (67, "p1", "Leave"), (72, "p1", "Start"),
        (73, "p0", "Leave"), (78, "p0", "Start"),
    ]  # fmt: skip


def test_a_deployment_with_a_surge_starts_a_new_pod_before_an_old_one_stops() -> None:
    lines = ("replicas = 2", "maxSurge = 1", "maxUnavailable = 0", "minReadySeconds = 10")
    assert told(expand(scenario(*lines, behaviour=DEPLOY))) == [
        (65, "p2", "Start"), (76, "p0", "Leave"),
        (80, "p3", "Start"), (91, "p1", "Leave"),
    ]  # fmt: skip


def test_a_deployment_without_a_surge_stops_as_many_as_may_be_unavailable() -> None:
    lines = ("replicas = 4", "maxSurge = 0", 'maxUnavailable = "50%"')
    assert told(expand(scenario(*lines, behaviour=DEPLOY))) == [
        (61, "p0", "Leave"), (61, "p1", "Leave"), (65, "p4", "Start"), (65, "p5", "Start"),
        (66, "p2", "Leave"), (66, "p3", "Leave"), (70, "p6", "Start"), (70, "p7", "Start"),
    ]  # fmt: skip


def test_a_pod_counts_only_when_it_is_ready() -> None:
    lines = ("replicas = 2", "maxSurge = 0", "maxUnavailable = 1")
    ready = 'ready_time = "10s"'
    soon = [(61, "p0", "Leave"), (65, "p2", "Start"), (66, "p1", "Leave"), (70, "p3", "Start")]
    later = [(61, "p0", "Leave"), (65, "p2", "Start"), (76, "p1", "Leave"), (80, "p3", "Start")]
    assert told(expand(scenario(*lines, behaviour=DEPLOY))) == soon
    assert told(expand(scenario(*lines, ready, behaviour=DEPLOY))) == later
    both = (ready, "minReadySeconds = 4")
    assert told(expand(scenario(*lines, *both, behaviour=DEPLOY)))[2] == (80, "p1", "Leave")


def test_a_stateful_set_waits_until_a_pod_is_ready() -> None:
    lines = ('workload = "StatefulSet"', "replicas = 2", 'ready_time = "10s"')
    assert told(expand(scenario(*lines, behaviour=DEPLOY))) == [
        (61, "p1", "Leave"), (66, "p1", "Start"), (77, "p0", "Leave"), (82, "p0", "Start"),
    ]  # fmt: skip


def test_a_crash_ends_the_readiness_of_a_pod() -> None:
    crash = '{ do = "crash", at = "58s", away = "5s", pods = 1 }'
    lines = ("replicas = 2", "maxSurge = 1", "maxUnavailable = 0", 'ready_time = "10s"')
    steps = told(expand(scenario(*lines, behaviour=f"{crash}, {DEPLOY}")))
    (crashed,) = (name for _, name, what in steps if what == "Vanish")
    left = {name: at for at, name, what in steps if what == "Leave"}
    assert crashed not in left, "the deploy replaces what is not available first"
    assert min(left.values()) >= 76, "the other one is needed until a new one is ready"


def test_a_pod_that_stops_too_slowly_is_killed() -> None:
    lines = ('workload = "StatefulSet"', "replicas = 1", 'stop_time = "40s"')
    assert told(expand(scenario(*lines, behaviour=DEPLOY))) == [
        (90, "p0", "Vanish"), (95, "p0", "Start"),
    ]  # fmt: skip


def test_a_crashed_process_starts_again_under_the_name_of_its_pod() -> None:
    plan = expand(scenario(behaviour='{ do = "crash", at = "10s", away = "7s", pods = "50%" }'))
    later = told(plan)
    assert [(at, what) for at, _, what in later] == [(10, "Vanish")] * 2 + [(17, "Start")] * 2
    assert {name for _, name, what in later if what == "Vanish"} == {
        name for _, name, what in later if what == "Start"
    }


def test_scaling_adds_and_removes_pods() -> None:
    steps = '{ do = "scale", at = "10s", replicas = 4 }, { do = "scale", at = "20s", replicas = 1 }'
    plan = expand(scenario(behaviour=steps))
    assert [(at, what) for at, _, what in told(plan)] == [(15, "Start")] + [(21, "Leave")] * 3
    ordered = expand(scenario('workload = "StatefulSet"', behaviour=steps))
    assert told(ordered) == [
        (15, "p3", "Start"), (21, "p3", "Leave"), (22, "p2", "Leave"), (23, "p1", "Leave"),
    ]  # fmt: skip


def replicas_over_time(plan: ScenarioPlan) -> list[tuple[int, int]]:
    """Return what an autoscaler set, and when."""
    marks = [(at // 1000, text.split()) for at, text in plan.marks]
    return [(at, int(words[3].rstrip(","))) for at, words in marks if "to" in words]


def autoscale(*settings: str, arrivals: str, at: str = "0s") -> str:
    more = "".join(f", {each}" for each in settings)
    return (
        f'{{ do = "autoscale", at = "{at}", arrivals = [{arrivals}], pod_per_second = 10{more} }}'
    )


BURST = '{ at = "0s", per_second = 40 }, { at = "60s", per_second = 0 }'


def test_an_autoscaler_scales_up_with_the_lag_and_down_when_its_window_allows() -> None:
    told = autoscale("lagThreshold = 100", "stabilizationWindowSeconds = 60", arrivals=BURST)
    plan = expand(scenario("replicas = 1", behaviour=told))
    # 15 s at 40 a second and one pod: 450 records are left, but there are 4 partitions in topic t.
    assert replicas_over_time(plan)[0] == (15, 4)
    # the last lag is gone by 90 s; what was wanted until then counts for 60 s more
    assert replicas_over_time(plan)[-1][1] == 1
    assert 90 <= replicas_over_time(plan)[-1][0] <= 165


def test_an_autoscaler_without_a_window_flaps_with_its_lag() -> None:
    steady = '{ at = "0s", per_second = 25 }'
    sleepy = autoscale("lagThreshold = 100", "stabilizationWindowSeconds = 300", arrivals=steady)
    hasty = autoscale("lagThreshold = 100", "stabilizationWindowSeconds = 0", arrivals=steady)
    calm, restless = (
        len(replicas_over_time(expand(scenario("replicas = 1", behaviour=each))))
        for each in (sleepy, hasty)
    )
    assert restless > 3 * calm


def test_an_autoscaler_ends_all_pods_after_the_cooldown_and_starts_one_with_the_lag() -> None:
    arrivals = '{ at = "0s", per_second = 5 }, { at = "60s", per_second = 0 },'
    arrivals += '{ at = "300s", per_second = 5 }'
    settings = ("minReplicaCount = 0", "cooldownPeriod = 90", "lagThreshold = 1000")
    told = autoscale(*settings, arrivals=arrivals)
    plan = expand(scenario("replicas = 1", behaviour=told))
    assert replicas_over_time(plan) == [(90, 0), (315, 1), (405, 0), (420, 1), (510, 0), (525, 1)]


def test_the_cooldown_of_an_autoscaler_begins_with_it() -> None:
    settings = ("minReplicaCount = 0", "cooldownPeriod = 90")
    told = autoscale(*settings, arrivals='{ at = "0s", per_second = 0 }', at="300s")
    assert replicas_over_time(expand(scenario("replicas = 1", behaviour=told))) == [(390, 0)]


def test_a_drain_evicts_the_pods_of_one_node_after_the_other() -> None:
    drain = '{ do = "drain", at = "10s", nodes = 2, drained = 2, every = "30s" }'
    plan = expand(scenario("replicas = 4", "maxUnavailable = 1", behaviour=drain))
    first = [line for line in told(plan) if line[0] < 40]
    assert first == [
        (11, "p0", "Leave"), (11, "p2", "Leave"), (15, "p4", "Start"), (15, "p5", "Start"),
    ]  # fmt: skip
    later = [name for at, name, what in told(plan) if what == "Leave" and at > 40]
    assert sorted(later) == ["p1", "p3", "p4", "p5"], "the pods of the first node are here now"


def test_a_budget_of_disruptions_makes_a_drain_wait_for_new_pods() -> None:
    drain = '{ do = "drain", at = "10s", nodes = 2, maxUnavailable = 1 }'
    plan = expand(scenario("replicas = 4", 'ready_time = "4s"', behaviour=drain))
    assert [line for line in told(plan) if line[2] == "Leave"] == [
        (11, "p0", "Leave"), (21, "p2", "Leave"),
    ]  # fmt: skip
    lines = ("replicas = 4", 'start_time = "4s"', "minReadySeconds = 400")
    plan = expand(scenario(*lines, behaviour=drain))
    assert [line for line in told(plan) if line[2] == "Leave"] == [
        (11, "p0", "Leave"), (16, "p2", "Leave"),
    ], "a budget counts ready pods, be they available or not"  # fmt: skip


def test_a_crashed_process_may_come_with_another_instance_id() -> None:
    crash = '{ do = "crash", at = "10s", renamed = true }, { do = "crash", at = "60s" }'
    plan = expand(scenario("static = true", "replicas = 1", behaviour=crash))
    first, second, third = (step.life.name for step in plan.steps if isinstance(step.action, Start))
    assert (second, third) == (f"{first}.1", f"{first}.1")


def test_a_flapper_changes_its_topics_until_it_is_told_to_stop() -> None:
    flap = '{ do = "flap", at = "10s", every = "5s", until = "22s", topics = ["t", "u"] }'
    plan = expand(scenario(behaviour=flap))
    topics = [(s.due_ms, s.action.topics) for s in plan.steps if isinstance(s.action, Subscribe)]
    assert topics == [
        (10_000, ("t", "u")), (15_000, ("t",)), (20_000, ("t", "u")), (25_000, ("t",)),
    ]  # fmt: skip


def test_who_exceeds_the_poll_interval_leaves_with_a_reason_and_a_duplicate_is_killed() -> None:
    plan = expand(scenario(behaviour='{ do = "poll-timeout", at = "10s", reason = "slow" }'))
    (left,) = (step for step in plan.steps if isinstance(step.action, Leave))
    assert left.action == Leave("slow")
    twin = expand(scenario("static = true", behaviour='{ do = "duplicate", at = "10s" }'))
    assert [(at, what) for at, _, what in told(twin)] == [(10, "Start"), (40, "Vanish")]
    (first, second) = (step for step in twin.steps if step.due_ms)
    assert first.life == second.life
    assert CLOSED not in str(twin.steps)


def test_a_paused_process_goes_on_after_a_while() -> None:
    plan = expand(scenario(behaviour='{ do = "pause", at = "10s", for = "70s" }'))
    assert [(at, what) for at, _, what in told(plan)] == [(10, "Freeze"), (80, "Thaw")]


LAST_S = {
    **dict.fromkeys(("rolling-deploy", "scale", "drain", "churn"), 279),  # new pods start in 20 s
    "autoscale": 270,
}
"""Behaviours that do nothing if they begin later."""


@st.composite
def behaviours_of(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from([each.__struct_config__.tag for each in get_args(Behaviour)]))
    at = draw(st.integers(0, LAST_S.get(kind, 290)))
    more = {
        "scale": f", replicas = {draw(st.integers(0, 9))}",
        "autoscale": f', arrivals = [{{ at = "0s", per_second = {draw(st.integers(0, 99))} }}]'
        f", pod_per_second = {draw(st.integers(1, 30))}"
        f", minReplicaCount = {draw(st.integers(0, 2))}"
        f", stabilizationWindowSeconds = {draw(st.integers(0, 60))}, cooldownPeriod = 20",
        "drain": f", nodes = 3, drained = {draw(st.integers(1, 3))}, maxUnavailable = 1",
        "churn": f', every = "{draw(st.integers(1, 60))}s"',
        "flap": f', every = "{draw(st.integers(1, 60))}s", topics = ["u"], pods = "50%"',
        "pause": f', for = "{draw(st.integers(1, 90))}s", pods = "70%"',
        "crash": f', away = "{draw(st.integers(0, 90))}s", pods = "20%"',
        "poll-timeout": f', away = "{draw(st.integers(0, 90))}s", pods = "20%"',
    }
    return f'{{ do = "{kind}", at = "{at}s"{more.get(kind, "")} }}'


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    workload = draw(st.sampled_from(("Deployment", "StatefulSet")))
    lines = [
        f'workload = "{workload}"', "static = true", f"replicas = {draw(st.integers(1, 9))}",
        f"maxUnavailable = {draw(st.integers(int(workload != 'Deployment'), 3))}",
        f"minReadySeconds = {draw(st.integers(0, 20))}",
        f'ready_time = "{draw(st.integers(0, 20))}s"',
        f'start_time = "{draw(st.integers(0, 20))}s"',
        f'stop_time = "{draw(st.integers(0, 40))}s"',
    ]  # fmt: skip
    if workload == "Deployment":
        lines.append(f"maxSurge = {draw(st.integers(1, 3))}")
    many = draw(st.lists(behaviours_of(), max_size=5))
    return scenario(*lines, behaviour=", ".join(many), duration="5m", seed=draw(st.integers(0, 9)))


@given(scenarios())
@settings(max_examples=examples(300), deadline=None)
def test_a_plan_is_a_function_of_its_scenario_and_every_life_makes_sense(made: Scenario) -> None:
    plan = expand(made)
    assert expand(made) == plan
    assert [step.due_ms for step in plan.steps] == sorted(step.due_ms for step in plan.steps)
    assert all(step.due_ms < made.duration for step in plan.steps)
    lives = defaultdict(list)
    for step in plan.steps:
        lives[step.life].append(step.action)
    for actions in lives.values():
        assert isinstance(actions[0], Start)
        assert sum(isinstance(action, Start) for action in actions) == 1
        ends = [action for action in actions if isinstance(action, Leave | Vanish)]
        assert ends in ([], actions[-1:])
        frozen = False
        for action in actions:
            if isinstance(action, Freeze | Thaw):
                assert frozen == isinstance(action, Thaw)
                frozen = isinstance(action, Freeze)
            assert not (frozen and isinstance(action, Leave | Subscribe))


@given(
    st.integers(1, 12), st.integers(0, 4), st.integers(0, 4),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.sampled_from(("Deployment", "StatefulSet")),
)  # fmt: skip
@settings(max_examples=examples(200), deadline=None)
def test_a_deploy_stays_within_its_limits_and_replaces_every_pod(
    replicas: int, surge: int, unavailable: int, ready: tuple[int, int], workload: str
) -> None:
    is_ordered = workload == "StatefulSet"
    if is_ordered or surge == 0:
        unavailable = max(unavailable, 1)
    probe_s, min_ready_s = ready
    ready_s = probe_s + min_ready_s
    lines = [f'workload = "{workload}"', f"replicas = {replicas}", f'ready_time = "{probe_s}s"']
    lines += [f"minReadySeconds = {min_ready_s}", f"maxUnavailable = {unavailable}"]
    lines += [] if is_ordered else [f"maxSurge = {surge}"]
    made = scenario(*lines, 'stop_time = "0s"', behaviour=DEPLOY, duration="2h")
    plan = expand(made)
    alive: dict[str, int] = {}
    for at in sorted({step.due_ms for step in plan.steps}):
        for step in (step for step in plan.steps if step.due_ms == at):
            if isinstance(step.action, Start):
                alive[step.life.name] = at
            else:
                del alive[step.life.name]
        ready = sum(since == 0 or at - since >= ready_s * 1000 for since in alive.values())
        assert ready >= replicas - unavailable
        assert len(alive) <= replicas + (0 if is_ordered else surge)
    first = {step.life for step in plan.steps if step.due_ms == 0}
    assert len(alive) == replicas
    ended = {step.life for step in plan.steps if isinstance(step.action, Leave)}
    assert first == ended


@pytest.mark.parametrize("seed", [1, 2])
def test_the_seed_decides_who_crashes(seed: int) -> None:
    crash = '{ do = "crash", at = "10s" }'
    lines = ("replicas = 50", 'workload = "StatefulSet"')
    plans = [told(expand(scenario(*lines, behaviour=crash, seed=each))) for each in (0, seed)]
    assert plans[0] != plans[1]
