"""Quiet hours begin when nobody is there any more."""

from failover.simulation.cluster import Cluster
from failover.simulation.kinds import is_modern
from failover.simulation.one_seed import small_logs
from failover.simulation.quiet import empty
from failover.simulation.settings import CALM, Groups, settings_for
from failover.simulation.world import World


def test_members_that_were_doubled_end_with_the_others() -> None:
    """Before the first of two ends by itself: it holds its instance id and goes on for ever."""
    world = World(1, settings_for(1, Groups.ALL))
    with small_logs():
        cluster = Cluster(world)
        cluster.form()
        world.run(20_000)
        doubled = [
            seat
            for seat in cluster.clients.seats
            if seat.config.instance_id is not None and is_modern(seat.config.group_id)
        ]
        assert doubled
        for seat in doubled:
            cluster.clients.start(seat)
        empty(cluster)


def test_nobody_comes_back_while_it_is_quiet() -> None:
    world = World(1, CALM)
    with small_logs():
        cluster = Cluster(world)
        cluster.form()
        world.run(20_000)
        seat = cluster.clients.seats[0]
        world.after(1_000, cluster.clients.start_if_free, seat)
        empty(cluster)
        assert seat.driver is None
        cluster.clients.begin_again()
        assert seat.driver is not None
