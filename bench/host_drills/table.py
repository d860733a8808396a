"""The drills on hosts: what happens in each, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS
from bench.hosts.waiting import PATIENCE
from failover.drills.drill import Drill, Expect, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.host_drills.stage import HostStage

HOST_COUNTS: Final = (3, 5)
"""How many hosts a drill may have a cluster on."""

RAYS_OWN_HEALTH_CHECKS: Final[Mapping[str, str]] = MappingProxyType({})
"""With these, Ray gives up a host that is silent for a minute, and no sooner."""

UNCOMPILED: Final[Mapping[str, str]] = MappingProxyType(
    {**QUICK_HEALTH_CHECKS, "NUMBA_DISABLE_JIT": "1"}
)
"""Assignors of few members are quick enough uncompiled, and each version would be compiled anew."""

AWAY_S: Final = 10.0
"""How long a host is away, or a fault of the network lasts, once its effect has been seen.

It is shorter than a session timeout, as reboots and cuts that last longer show the same.
"""

DAY_MS: Final = 86_400_000

WORKLOAD: Final = Workload(
    groups=8,
    members=80,
    consumer_share=0.5,
    session_timeout_ms=int(30_000 * PATIENCE),
    request_timeout_ms=5_000,  # a host that vanishes closes no connection
)


EXPECT: Final = Expect(unheard_p99_ms_max=20_000, replicated_ms_max=120_000)
"""What most drills may cost. Ray takes long to start where all hosts share two processors."""


EXPECT_BOOT: Final = Expect(
    unheard_p99_ms_max=120_000, silent_ms_max=120_000, replicated_ms_max=120_000
)
"""Where most of three hosts are away nobody is answered until they have booted and Ray runs."""

FAR_APART: Final[Mapping[str, str]] = MappingProxyType(
    {
        "replica.heartbeat.interval.ms": "200",
        "replica.lease.ms": "1500",
        "replica.election.timeout.ms": "3000",
    }
)
"""What an operator sets where a round trip takes half a second, and longer if a packet is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDrill:
    """One row. ``carry_out`` is the fault with its schedule, until all is well again.

    ``hosts_min`` is the least of :data:`HOST_COUNTS` on which it makes sense; ``spares`` are hosts
    beside them, without coordinators. ``configs`` are those of Rollcall, ``ray_settings`` are
    environment variables of Ray. ``has_two_versions``: the hosts run an older version at first, and
    there is a newer one. ``pauses``: how often it waits for :data:`AWAY_S` on its fewest hosts.
    """

    name: str
    about: str
    carry_out: Callable[[HostStage], None]
    hosts_min: int = 3
    spares: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)
    ray_settings: Mapping[str, str] = field(default_factory=lambda: QUICK_HEALTH_CHECKS)
    expect: Expect = EXPECT
    has_two_versions: bool = False
    pauses: int = 1

    def drill(self, members: int | None = None, types: Sequence[str] | None = None) -> Drill:
        """Return it as it is judged, with so many members and groups of these types.

        None means those that it usually has; raises DrillError if it has fewer groups than types.
        """
        drill = Drill(
            name=self.name, about=self.about, workload=WORKLOAD, steps=(), expect=_here(self.expect)
        )
        return drill.of_size(members).of_types(types)


def _here(expect: Expect) -> Expect:
    """Return what a drill may cost on this machine, which may have much else to do."""
    return replace(
        expect,
        unheard_p99_ms_max=int(expect.unheard_p99_ms_max * PATIENCE),
        silent_ms_max=int(expect.silent_ms_max * PATIENCE),
        replicated_ms_max=int(expect.replicated_ms_max * PATIENCE),
    )


def _lose_host(stage: HostStage) -> None:
    lost = stage.leader()
    stage.vanish(lost)
    stage.wait_until_left(lost)
    stage.pause(AWAY_S)
    stage.come_back(lost)
    stage.wait_until_well()


def _lose_host_for_good(stage: HostStage) -> None:
    lost, (spare,) = stage.leader(), stage.spares
    stage.start_spares()
    stage.vanish(lost)
    stage.wait_until_left(lost)
    stage.replace_home(lost, spare)
    stage.wait_until_well()
    stage.come_back(lost)
    stage.pause(AWAY_S)
    stage.wait_until_well()


def _cut_host(stage: HostStage) -> None:
    cut = stage.leader()
    stage.cut(cut)
    stage.wait_until_left(cut)
    stage.pause(2 * AWAY_S)
    stage.heal()
    stage.restart_ray_where_it_ends(cut)
    stage.wait_until_well()


def _one_way_cut(stage: HostStage) -> None:
    for cut_off in (stage.silence, stage.deafen):
        cut = stage.leader()
        cut_off(cut)
        stage.wait_until_left(cut)
        stage.pause(AWAY_S)
        stage.heal()
        stage.wait_until_well()


def _slow_network(stage: HostStage) -> None:
    stage.slow_down(delay_ms=200, jitter_ms=50, loss_percent=1)
    stage.pause(3 * AWAY_S)
    stage.heal()
    stage.wait_until_well()


def _split_2_1(stage: HostStage) -> None:
    alone = stage.leader()
    stage.split([host for host in stage.hosts if host is not alone], [alone])
    stage.wait_until_left(alone)
    stage.pause(AWAY_S)
    stage.heal()
    stage.wait_until_well()


def _split_2_2_1(stage: HostStage) -> None:
    one, two, three, four, five = stage.hosts
    stage.split([one, two], [three, four], [five])
    stage.pause(AWAY_S)
    stage.heal()
    stage.wait_until_well()


def _head_dies(stage: HostStage) -> None:
    stage.vanish(stage.head)
    stage.wait_until_left(stage.head)
    stage.pause(2 * AWAY_S)
    stage.come_back(stage.head)
    stage.wait_until_well()


def _head_and_leader_die(stage: HostStage) -> None:
    both = (stage.head, stage.leader())
    stage.vanish(*both)
    stage.pause(AWAY_S)
    stage.come_back(*both)
    stage.wait_until_well()


def _host_returns_stale(stage: HostStage) -> None:
    stale = stage.leader()
    copy = stage.copy_of_directory(stale)
    stage.pause(AWAY_S)
    stage.vanish(stale)
    stage.wait_until_left(stale)
    stage.put_back(stale, copy)
    stage.come_back(stale)
    stage.wait_until_well()


def _drain_host(stage: HostStage) -> None:
    drained = stage.leader()
    stage.command("drain", drained.ip)
    stage.wait_until_left(drained)
    stage.pause(AWAY_S)
    stage.command("drain", drained.ip, "--end")
    stage.wait_until_well()


def _rolling_reboot(stage: HostStage) -> None:
    for host in reversed(stage.hosts):  # Ray's head is the first one
        stage.command("drain", host.ip)
        stage.vanish(host)
        stage.come_back(host)
        stage.wait_until_well()


def _rolling_upgrade(stage: HostStage) -> None:
    older, newer = stage.versions
    for program in (newer, older, newer):
        for host in reversed(stage.hosts):
            stage.install(host, program)
    stage.raise_level()


def _add_host_under_load(stage: HostStage) -> None:
    stage.welcome_spares()
    stage.pause(AWAY_S)
    stage.balance()
    stage.wait_until_well()


def _clock_skewed_host(stage: HostStage) -> None:
    skewed = stage.leader()
    for ahead_ms in (10 * DAY_MS, -10 * DAY_MS, 0):
        stage.set_clock(skewed, ahead_ms)
        stage.pause(AWAY_S)
    stage.wait_until_well()


HOST_DRILLS: Final[Mapping[str, HostDrill]] = {
    row.name: row
    for row in (
        HostDrill(
            name="lose-host",
            about="the host of a leader loses its power, and boots again with its disk",
            carry_out=_lose_host,
        ),
        HostDrill(
            name="lose-host-for-good",
            about="the host of a leader is lost, and replaced by a spare one without a command",
            carry_out=_lose_host_for_good,
            spares=1,
            configs={"replica.replace.after.ms": "10000"},
        ),
        HostDrill(
            name="cut-host",
            about="the host of a leader reaches nobody, until Ray has given it up",
            carry_out=_cut_host,
            pauses=2,
        ),
        HostDrill(
            name="one-way-cut",
            about="nobody hears the host of a leader; then the host of a leader hears nobody",
            carry_out=_one_way_cut,
            ray_settings=RAYS_OWN_HEALTH_CHECKS,
            pauses=2,
        ),
        HostDrill(
            name="slow-network",
            about="between the hosts all is 200 ms ± 50 late, and 1 % of it is lost",
            carry_out=_slow_network,
            configs=FAR_APART,
            ray_settings=RAYS_OWN_HEALTH_CHECKS,
            pauses=3,
        ),
        HostDrill(
            name="split-2-1",
            about="the host of a leader and the others do not reach each other; clients reach all",
            carry_out=_split_2_1,
            ray_settings=RAYS_OWN_HEALTH_CHECKS,
        ),
        HostDrill(
            name="split-2-2-1",
            about="two, two and one of five hosts do not reach each other; clients reach all",
            carry_out=_split_2_2_1,
            hosts_min=5,
            ray_settings=RAYS_OWN_HEALTH_CHECKS,
        ),
        HostDrill(
            name="head-dies",
            about="the host of Ray's head loses its power, and boots again with its disk",
            carry_out=_head_dies,
            pauses=2,
        ),
        HostDrill(
            name="head-and-leader-die",
            about="the host of Ray's head and that of a leader lose their power at once",
            carry_out=_head_and_leader_die,
            expect=EXPECT_BOOT,
        ),
        HostDrill(
            name="host-returns-stale",
            about="the host of a leader boots with a copy of its directory from some time ago",
            carry_out=_host_returns_stale,
        ),
        HostDrill(
            name="add-host-under-load",
            about="a host joins while members heartbeat and commit, and is given coordinators",
            carry_out=_add_host_under_load,
            spares=1,
            configs={"offsets.topic.num.partitions": "8"},
        ),
        HostDrill(
            name="drain-host",
            about="the host of a leader is drained for maintenance, and leads again",
            carry_out=_drain_host,
        ),
        HostDrill(
            name="rolling-reboot",
            about="each host is drained and boots again, one after the other, Ray's head last",
            carry_out=_rolling_reboot,
            pauses=0,
        ),
        HostDrill(
            name="rolling-upgrade",
            about="each host gets a newer version, the older, the newer; the level is raised",
            carry_out=_rolling_upgrade,
            ray_settings=UNCOMPILED,
            has_two_versions=True,
            pauses=0,
        ),
        HostDrill(
            name="clock-skewed-host",
            about="the wall clock of a leader's host is ten days ahead, then ten days behind",
            carry_out=_clock_skewed_host,
            pauses=3,
        ),
    )
}
"""The drills by name, in the order in which they are listed."""
