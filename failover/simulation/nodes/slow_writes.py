"""A process's writes that take long: they hold the turn, as in production.

What follows a slow write in its turn happens later, and until then the process takes nothing in.
What was to leave after the write does not if the process dies before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.simulation.nodes.disks import Disk
    from failover.simulation.world import World


class Living(Protocol):
    """A process; ``life`` counts its starts and ends."""

    life: int

    def local_now(self) -> int:
        """Return the reading of its clock."""

    def pause(self, duration_ms: int) -> None:
        """Stand still."""


class SlowWrites:
    """What one process's slow writes delay; no time passes in other turns."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self._rng = world.random(f"writes {node_id}")
        self.begin()

    def begin(self) -> None:
        """Start with a process that has written nothing."""
        self._until = self._local_floor_ms = 0

    def at_least(self, local_ms: int) -> int:
        """Return the reading of the process's clock, which never goes back."""
        return max(self._local_floor_ms, local_ms)

    @property
    def is_busy(self) -> bool:
        """Whether the process is still in its last turn."""
        return self._world.now < self._until

    def write(self, disk: Disk) -> None:
        """Let a write take as long as the disk wants."""
        if write_ms := disk.write_takes(self._rng):
            self._world.go_ahead(write_ms)

    def end_turn(self, process: Living) -> None:
        """Let a process whose writes were slow take nothing in until its turn has really ended."""
        if self._world.ahead_ms:
            until_local_ms = process.local_now()
            took_ms = self._world.come_back()
            process.pause(took_ms)
            self._until, self._local_floor_ms = self._world.now + took_ms, until_local_ms

    def leave(
        self,
        process: Living,
        action: Callable[..., Any],
        *arguments: Any,
        otherwise: Callable[[], None] = lambda: None,
    ) -> None:
        """Do something outside the process, when its writes are done; if it is dead, otherwise."""
        if not self._world.ahead_ms:
            action(*arguments)
            return
        life = process.life

        def left() -> None:
            if process.life == life:
                action(*arguments)
            else:
                otherwise()

        self._world.after(0, left)
