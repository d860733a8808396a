"""Scenarios in virtual time: the effects that Kafka's documents promise show in the verdict."""

from typing import get_args

import pytest

from bench.scenarios import simulated
from bench.scenarios.faults import Fault
from bench.scenarios.files import found, parse
from bench.scenarios.plan import MemberAction, expand
from bench.scenarios.values import Protocol
from bench.scenarios.verdict import judge


def rehearsed(scenario):
    told = []
    plan = expand(scenario)
    record = simulated.run(scenario, plan, lambda at_ms, text: told.append((at_ms, text)))
    return judge(scenario, record, "simulated"), told


def written(*groups, duration="3m", faults=""):
    text = f'about = "x"\nduration = "{duration}"\n'
    text += "topics = { t = { partitions = 8 }, u = { partitions = 2 } }\n"
    for number, lines in enumerate(groups):
        text += f'[[groups]]\nname = "g{number}"\ntopics = ["t"]\n{lines}\n'
    return parse("s", text + faults)


def costs_of(scenario):
    verdict, _ = rehearsed(scenario)
    assert not verdict.found
    return [each.costs for each in verdict.groups]


def test_every_action_and_every_fault_has_a_row():
    assert set(simulated.MEMBER_ACTIONS) == set(get_args(MemberAction))
    assert set(simulated.FAULTS) == set(get_args(Fault))
    assert set(simulated.PREFIXES) == set(Protocol)


def test_a_rolling_deploy_rebalances_dynamic_members_but_not_static_ones():
    verdict, told = rehearsed(found("rolling-deploy"))
    static, dynamic = (each.costs for each in verdict.groups)
    assert verdict.is_clean
    assert (static.rebalances, static.moved) == (0, 0)
    assert dynamic.rebalances >= 8
    assert dynamic.unavailable_member_ms > 10 * static.unavailable_member_ms
    assert told == [(30_000, "static: rolling-deploy"), (30_000, "dynamic: rolling-deploy")]


def test_the_same_scenario_gives_the_same_verdict():
    scenario = found("bad-application")
    first, second = (rehearsed(scenario)[0].document() for _ in range(2))
    assert first == second
    assert first["clean"]
    assert first["groups"]["bad"]["rebalances"] > 20


def test_a_coordinator_that_is_lost_during_a_deploy_rebalances_no_static_member():
    verdict, told = rehearsed(found("leader-loss-in-deploy"))
    assert verdict.is_clean, verdict.text()
    assert next(text for at_ms, text in told if at_ms == 45_000).startswith("kill node ")


def test_pod_names_as_instance_ids_on_a_deployment_keep_partitions_until_the_session_ends():
    """KIP-345: a static member does not leave; a pod's new name is another member."""
    lines = "static = true\nreplicas = 4\nsession_timeout_ms = 20000\n"
    lines += 'behaviours = [{ do = "rolling-deploy", at = "20s" }]'
    deployment, stateful = costs_of(written(lines, f'{lines}\nworkload = "StatefulSet"'))
    assert stateful.rebalances == 0
    assert deployment.rebalances > 0
    assert deployment.unowned_ms > 2 * stateful.unowned_ms


def test_a_crash_shorter_than_the_session_stops_a_group_of_dynamic_members_until_it_ends():
    """The rebalance that the new member starts waits for the old one, as in Kafka."""
    crash = 'behaviours = [{ do = "crash", at = "20s", away = "10s" }]'
    dynamic, static, slow = costs_of(
        written(
            crash,
            f"static = true\n{crash}",
            f"static = true\nsession_timeout_ms = 6000\n{crash}",
        )
    )
    assert dynamic.rebalances == 1
    assert dynamic.unavailable_member_ms > 3 * 30_000, "three members, for most of a session"
    assert (static.rebalances, static.moved) == (0, 0)
    assert slow.rebalances == 2, "its session ends; it joins"


def test_a_duplicate_of_a_static_member_fences_one_of_them():
    twin = 'static = true\nbehaviours = [{ do = "duplicate", at = "20s", for = "30s" }]'
    (paid,) = costs_of(written(twin))
    assert paid.failed == 1


def test_a_pause_longer_than_the_session_costs_the_member_its_partitions():
    pauses = "behaviours = [{{ do = 'pause', at = '20s', for = '{}s' }}]"
    short, long = costs_of(written(pauses.format(20), pauses.format(70)))
    assert (short.rebalances, short.moved) == (0, 0)
    assert long.rebalances == 2
    assert long.members == 3, "it joins again"


@pytest.mark.parametrize("protocol", Protocol)
def test_members_of_every_protocol_live_through_a_deploy_and_a_kill(protocol):
    lines = f'protocol = "{protocol}"\nbehaviours = [{{ do = "rolling-deploy", at = "20s" }}]'
    faults = '[[faults]]\ndo = "kill"\nat = "40s"\n'
    scenario = written(lines, duration="80s", faults=faults)
    verdict, _ = rehearsed(scenario)
    assert verdict.is_clean, verdict.text()
    assert verdict.groups[0].costs.members == 3
    assert verdict.groups[0].costs.rebalances > 0


@pytest.mark.parametrize("fault", ["freeze", "cut"])
def test_a_frozen_or_cut_off_coordinator_costs_no_rebalance(fault):
    faults = f'[[faults]]\ndo = "{fault}"\nat = "20s"\nfor = "10s"\n'
    (paid,) = costs_of(written("", duration="60s", faults=faults))
    assert paid.rebalances == 0
