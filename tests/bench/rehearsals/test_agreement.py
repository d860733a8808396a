"""Shipped scenarios in real and in virtual time: the same rebalances, for the same reasons.

All run at once, on one coordinator: some, shortened. ``ROLLCALL_TESTS_BOTH_TIMES=all`` takes every
scenario that one coordinator can carry out, each as long as it is in its file.
"""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from actors.cli.client import shown
from bench.rehearsals import real
from bench.rehearsals.agreement import TOLERATED, disagreements
from bench.rehearsals.guest import GuestCluster, guest_stage
from bench.scenarios import simulated
from bench.scenarios.files import found_variants, names, parse
from bench.scenarios.plan import expand
from bench.scenarios.record import ScenarioRecord
from bench.scenarios.scenario import Scenario
from bench.scenarios.values import Protocol
from bench.scenarios.verdicts.verdict import ScenarioVerdict, judge
from tests.bench.one_node import OneNode
from tests.bench.rehearsals.shortened import configs_in, ended, shortened
from tests.waiting import PATIENCE, patient, until

EVERY: Final = os.environ.get("ROLLCALL_TESTS_BOTH_TIMES") == "all"
DIVISOR: Final = 1.0 if EVERY else 8.0 / max(1.0, PATIENCE / 2)
"""So much shorter is everything; on a machine that has much else to do it is less short."""

pytestmark = pytest.mark.timeout(1_800)

MEMBERS_MAX: Final = 100
FEW: Final = (
    ("poll-timeout", "base"),
    ("slow-revokes", "base"),
    ("which-deploy", "consumer"),
    ("zombie", "base"),
)
"""Members of classic and of consumer groups that leave and join
again, are replaced, revoke slowly and have doubles."""


def chosen() -> list[tuple[str, str]]:
    """Return the scenarios and variants to run."""
    if not EVERY:
        return list(FEW)
    return [
        (name, variant)
        for name in names()
        for variant, scenario in found_variants(name).items()
        if not scenario.faults and not scenario.configs and scenario.members <= MEMBERS_MAX
    ]


class Both(NamedTuple):
    """The verdicts on one scenario in real and in virtual time."""

    real: ScenarioVerdict
    virtual: ScenarioVerdict


WARMED_UP: Final = """
about = "groups of every type have partitions: the assignors are loaded"
duration = "1s"
topics.t.partitions = 2
"""


def is_warm(node: OneNode) -> bool:
    """Whether groups of each type are assigned: the first time takes long."""
    groups = (
        f'[[groups]]\nname = "{each}"\ntopics = ["t"]\nreplicas = 1\nprotocol = "{each}"\n'
        for each in Protocol
    )
    scenario = parse("warm-up", WARMED_UP + "".join(groups))
    records: list[ScenarioRecord] = []
    in_real_time(node, scenario, records.append)
    return not judge(scenario, records[0], "real").found


def in_real_time(node: OneNode, scenario: Scenario, keep: Callable[[ScenarioRecord], None]) -> None:
    plan = expand(scenario)
    with guest_stage(GuestCluster(shown(node.address)), scenario) as stage:
        keep(real.run(scenario, plan, stage, lambda _at_ms, _text: None))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Both]]:
    """Run all scenarios in real time, at once, and then in virtual time, one after the other."""
    node = OneNode(tmp_path_factory.mktemp("node"), configs=configs_in(DIVISOR)).start()
    made = {
        (name, variant): ended(shortened(found_variants(name)[variant], DIVISOR), DIVISOR)
        for name, variant in chosen()
    }
    records: dict[tuple[str, str], ScenarioRecord] = {}
    runs = [
        threading.Thread(
            target=in_real_time,
            args=(node, scenario, lambda record, which=which: records.update({which: record})),
        )
        for which, scenario in made.items()
    ]
    try:
        until(lambda: is_warm(node), patient(120), "the assignors are loaded")
        for each in runs:
            each.start()
        for each in runs:
            each.join()
    finally:
        node.kill()
    yield {
        which: Both(
            judge(scenario, records[which], "real"),
            judge(
                scenario,
                simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None),
                "simulated",
            ),
        )
        for which, scenario in made.items()
        if which in records
    }


def figures(verdict: ScenarioVerdict) -> dict[str, dict[str, Any]]:
    """Return what does not depend on the speed of a machine."""
    return {
        each.group.name: {
            "members": each.costs.members,
            "rebalances": each.costs.rebalances,
            "causes": dict(each.costs.causes),
            "failed": each.costs.failed,
            "exceeded": each.exceeded,
        }
        for each in verdict.groups
    }


@pytest.mark.parametrize("which", chosen(), ids=":".join)
def test_a_shipped_scenario_has_the_same_rebalances_in_real_and_in_virtual_time(
    both: dict[tuple[str, str], Both], which: tuple[str, str]
) -> None:
    ran, simulation = both[which]
    assert ran.found == simulation.found == {}
    for verdict in both[which]:
        assert not any(each.costs.unowned_before for each in verdict.groups), "it was formed late"
    theirs, ours = figures(ran), figures(simulation)
    for group in found_variants(which[0])[which[1]].groups:
        assert not [*disagreements(which[0], group, theirs[group.name], ours[group.name])]


GROUP = parse(
    "s", WARMED_UP + '[[groups]]\nname = "a"\ntopics = ["t"]\nprotocol = "consumer"\n'
).groups[0]
FIGURES: Final[dict[str, Any]] = {
    "members": 4, "rebalances": 3, "causes": {"joined": 2, "left": 1}, "failed": 0, "exceeded": (),
}  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "other", "told"),
    [
        (Protocol.CLASSIC, {}, []),
        (Protocol.CLASSIC, {"rebalances": 4}, ["rebalances of a: real 3, simulated 4"]),
        (
            Protocol.CLASSIC,
            {"causes": {"joined": 3}},
            ["causes of a: real {'joined': 2, 'left': 1}, simulated {'joined': 3}"],
        ),
        (Protocol.CONSUMER, {"rebalances": 6}, []),
        (Protocol.CONSUMER, {"rebalances": 7}, ["rebalances of a: real 3, simulated 7"]),
        (Protocol.SHARE, {"rebalances": 0}, ["rebalances of a: real 3, simulated 0"]),
        (Protocol.CONSUMER, {"causes": {"joined": 1, "left": 1, "other": 2}}, []),
        (
            Protocol.STREAMS,
            {"causes": {"joined": 3}},
            ["causes of a: real {'joined': 2, 'left': 1}, simulated {'joined': 3}"],
        ),
        (Protocol.STREAMS, {"failed": 1}, ["failed of a: real 0, simulated 1"]),
        (Protocol.SHARE, {"members": 5}, ["members of a: real 4, simulated 5"]),
        (Protocol.CONSUMER, {"exceeded": ("x",)}, ["exceeded of a: real (), simulated ('x',)"]),
    ],
)
def test_what_differs_is_told_but_for_a_wave_in_two_batches(
    protocol: Protocol, other: dict[str, Any], told: list[str]
) -> None:
    group = replace(GROUP, protocol=protocol)
    assert [*disagreements("s", group, FIGURES, FIGURES | other)] == told


def test_a_group_that_migrates_is_assigned_in_batches() -> None:
    (group,) = found_variants("migration-in-deploy")["base"].groups[:1]
    assert not [*disagreements("migration-in-deploy", group, FIGURES, FIGURES | {"rebalances": 4})]


def test_what_is_tolerated_is_of_a_scenario_and_has_a_reason() -> None:
    for (name, group), tolerated in TOLERATED.items():
        assert group in {each.name for each in found_variants(name)["base"].groups}
        assert tolerated.figures and tolerated.why.endswith(".")
