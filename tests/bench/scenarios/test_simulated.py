"""Scenarios in virtual time: the effects that Kafka's documents promise show in the verdict."""

from typing import get_args

import pytest

from bench.scenarios import simulated
from bench.scenarios.faults import Fault
from bench.scenarios.files import found, parse
from bench.scenarios.plan import MemberAction, expand
from bench.scenarios.values import Protocol
from bench.scenarios.verdicts.verdict import judge
from failover.simulation.nodes.network import Network
from failover.simulation.nodes.process import Process
from protocol.members.assignors import ClassicAssignor
from protocol.members.history import MemberHistoryKind


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


@pytest.mark.parametrize("assignor", ClassicAssignor)
def test_members_with_every_assignor_live_through_a_deploy_a_crash_and_a_kill(assignor):
    behaviours = '[{ do = "rolling-deploy", at = "20s" }, { do = "crash", at = "50s" }]'
    lines = f'assignor = "{assignor}"\nrevoke_time = "1s"\nbehaviours = {behaviours}'
    faults = '[[faults]]\ndo = "kill"\nat = "40s"\n'
    verdict, _ = rehearsed(written(lines, duration="150s", faults=faults))
    assert verdict.is_clean, verdict.text()
    assert (verdict.groups[0].costs.members, verdict.groups[0].costs.failed) == (3, 0)


def test_a_cooperative_group_that_grows_goes_on_with_what_stays_where_it_is():
    """KIP-429: only what moves is given up, in a rebalance of its own."""
    lines = 'assignor = "{}"\nrevoke_time = "5s"\n'
    lines += "behaviours = [{{ do = 'scale', at = '20s', replicas = 4 }}]"
    groups = [lines.format(each) for each in ("range", "sticky", "cooperative-sticky")]
    eager, sticky, cooperative = costs_of(written(*groups))
    assert eager.causes == sticky.causes == {"joined": 1}
    assert cooperative.causes == {"joined": 1, "revoked": 1}
    assert eager.moved >= sticky.moved == cooperative.moved == 2
    assert sticky.unavailable_member_ms > 15_000, "three members, for more than 5 s"
    assert cooperative.unavailable_member_ms < 10_000, "only the new one waits"


def test_a_group_of_cooperative_members_migrates_to_the_consumer_protocol():
    lines = 'assignor = "cooperative-sticky"\n'
    lines += "behaviours = [{ do = 'rolling-deploy', at = '20s', protocol = 'consumer' }]"
    scenario = written(lines, f'revoke_time = "2s"\n{lines}')
    verdict, _ = rehearsed(scenario)
    assert verdict.is_clean, verdict.text()
    assert [each.costs.members for each in verdict.groups] == [3, 3]


def test_a_restart_of_static_streams_members_moves_no_task():
    """KIP-1071 with KIP-345: each has its tasks again, though all others are away, too."""
    restart = 'behaviours = [{ do = "restart", at = "20s", away = "10s" }]'
    lines = f'protocol = "streams"\nworkload = "StatefulSet"\n{restart}\n'
    static, dynamic = costs_of(written(f"{lines}static = true", lines))
    assert (static.rebalances, static.moved, static.failed) == (0, 0, 0)
    assert static.members == dynamic.members == 3
    assert dynamic.rebalances > 0


def test_pods_that_need_longer_to_give_partitions_up_delay_the_others():
    """The eager ones wait for the slow one; without a slow pod nobody waits."""
    scaled, slow = (
        'behaviours = [{ do = "scale", at = "20s", replicas = 4 }]',
        'revoke_time = "10s"',
    )
    none, one, all_ = costs_of(
        written(scaled, f'{slow}\nslow_pods = "1%"\n{scaled}', f"{slow}\n{scaled}")
    )
    assert none.unowned_ms < 5_000 < one.unowned_ms
    assert none.unavailable_member_ms < one.unavailable_member_ms
    assert one.unavailable_member_ms == pytest.approx(all_.unavailable_member_ms, rel=0.5)


def test_each_group_commits_as_often_as_it_says_or_never():
    often, never = "commit_interval_ms = 1000", "commit_interval_ms = 0"
    scenario = written(often, "", "commit_interval_ms = 20000", never)
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    often, usual, seldom, never = (
        sum(
            event.kind is MemberHistoryKind.COMMITTED
            for each in record.of_group(group.name)
            for event in each.timeline.events
        )
        for group in scenario.groups
    )
    assert often > 3 * usual > 6 * seldom > 0 == never
    assert judge(scenario, record, "simulated").is_clean


@pytest.mark.parametrize("fault", ["freeze", "cut"])
def test_a_frozen_or_cut_off_coordinator_costs_no_rebalance(fault):
    faults = f'[[faults]]\ndo = "{fault}"\nat = "20s"\nfor = "10s"\n'
    (paid,) = costs_of(written("", duration="60s", faults=faults))
    assert paid.rebalances == 0


def test_overlapping_cuts_end_one_by_one(monkeypatch):
    mended, mend = [], Network.mend

    def watched(network, pairs):
        mend(network, pairs)
        mended.append(sorted(pairs))

    monkeypatch.setattr(Network, "mend", watched)
    cut = '[[faults]]\ndo = "cut"\nat = "{}"\nfor = "{}"\nnode = {}\n'
    faults = cut.format("20s", "10s", 0) + cut.format("25s", "3s", 1) + cut.format("29s", "4s", 0)
    rehearsed(written("", duration="60s", faults=faults))
    assert mended == [[(1, 2), (2, 1)], [], [(0, 1), (0, 2), (1, 0), (2, 0)]]


def test_overlapping_freezes_of_a_node_end_with_the_last(monkeypatch):
    thawed, thaw = [], Process.thaw

    def watched(process, life):
        thawed.append(process.is_paused)
        thaw(process, life)

    monkeypatch.setattr(Process, "thaw", watched)
    freeze = '[[faults]]\ndo = "freeze"\nat = "{}"\nfor = "{}"\nnode = 0\n'
    faults = freeze.format("20s", "10s") + freeze.format("25s", "9s")
    rehearsed(written("", duration="60s", faults=faults))
    assert thawed == [True], "the first end thaws nothing"


def test_a_fault_waits_until_somebody_can_suffer_it():
    """All nodes are killed, so that for a moment nobody leads, and no node runs."""
    kill = '[[faults]]\ndo = "kill"\nat = "{}"\n{}\n'
    all_at_once = "".join(kill.format("20s", f"node = {node}") for node in range(3))
    again = kill.format("20500ms", "") + kill.format("20500ms", "node = 1")
    verdict, told = rehearsed(written("", duration="60s", faults=all_at_once + again))
    assert verdict.is_clean, verdict.violations
    later = [(at_ms, text) for at_ms, text in told if at_ms >= 20_500]
    assert later[:2] == [(20_500, "kill: nobody can suffer it now, so it is tried again")] * 2
    assert sorted(text.rpartition(" ")[0] for _, text in later[2:]) == ["kill node", "kill node"]
    assert all(20_500 < at_ms < 40_000 for at_ms, _ in later[2:])


@pytest.mark.parametrize(("duration", "for_s"), [("2m", "30"), ("25s", "4.5")])
def test_a_fault_that_does_not_happen_makes_the_verdict_unclean(monkeypatch, duration, for_s):
    monkeypatch.setattr(simulated._Play, "_target", lambda _self, _fault: None)
    faults = '[[faults]]\ndo = "freeze"\nat = "20s"\nfor = "5s"\n'
    verdict, told = rehearsed(written("", duration=duration, faults=faults))
    sentence = (
        "freeze at 20 s did not happen: nobody led the partition of group g0 for " + for_s + " s"
    )
    assert verdict.found == {"faults that did not happen": [sentence]}
    assert told[-1] == (20_000 + float(for_s) * 1000, sentence)
    assert not verdict.is_clean


@pytest.mark.parametrize("do", ["kill", "restart"])
@pytest.mark.parametrize(("away", "missed"), [("5s", 0), ("10m", 1)])
def test_a_node_stays_away_for_as_long_as_its_fault_says(do, away, missed):
    """A second fault of the same node waits for it, for 30 s."""
    faults = f'[[faults]]\ndo = "{do}"\nat = "20s"\nnode = 1\nfor = "{away}"\n'
    faults += '[[faults]]\ndo = "freeze"\nat = "22s"\nnode = 1\nfor = "2s"\n'
    verdict, told = rehearsed(written("replicas = 2", duration="1m20s", faults=faults))
    sentence = "freeze at 22 s did not happen: node 1 was down for 30 s"
    assert [*verdict.found.values()] == [[sentence]] * missed
    (group,) = verdict.groups
    assert (group.costs.members, group.costs.failed, group.costs.rebalances) == (2, 0, 0)
    frozen = [at_ms for at_ms, text in told if text == "freeze node 1"]
    assert not frozen if missed else 25_000 <= frozen[0] <= 28_000
