"""Expected instances, hot spares and kept assignments: configs of groups that change all the time.

Only with ``Settings.fleet``: seeds without it stay as they are. In the end no group has any of
them, so that it must become whole again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster

EVERY_MS: Final = (5_000, 40_000)
ACTIVE: Final = "group.active.members"
OFF: Final = {
    ACTIVE: "0",
    "group.expected.instance.ids": "",
    "group.instance.assignment.retention.ms": "0",
}


class FleetInjector:
    """Changes a config of a group now and then."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.random("fleet")
        self._is_over = not cluster.world.settings.fleet

    def begin(self) -> None:
        """Give every group some, and begin to change them."""
        if self._is_over:
            return
        for group_id in self._cluster.clients.group_ids:
            for name in OFF:
                self._set(group_id, name, self._draw(group_id, name))
        self._world.after(self._rng.randrange(*EVERY_MS), self._change)

    def end(self) -> None:
        """Leave no group any of them."""
        if self._is_over:
            return
        self._is_over = True
        self._switch_off()

    def _switch_off(self) -> None:
        """Switch all off once no earlier change is retried, which could come last."""
        if self._cluster.administrator.busy:
            self._world.after(1_000, self._switch_off)
            return
        for group_id in self._cluster.clients.group_ids:
            for name, value in OFF.items():
                self._set(group_id, name, value)

    def _change(self) -> None:
        if self._is_over:
            return
        group_id = self._rng.choice(self._cluster.clients.group_ids)
        name = self._rng.choice((*OFF, ACTIVE))
        self._set(group_id, name, self._draw(group_id, name))
        self._world.after(self._rng.randrange(*EVERY_MS), self._change)

    def _draw(self, group_id: str, name: str) -> str:
        if name == ACTIVE:
            return self._rng.choice(("0", "1", "2", "3"))
        if name == "group.instance.assignment.retention.ms":
            return self._rng.choice(("0", "30000", "600000"))
        return ",".join(f"{group_id}/{place}" for place in range(self._rng.randrange(4)))

    def _set(self, group_id: str, name: str, value: str) -> None:
        self._cluster.administrator.configure_group(group_id, name, value)
