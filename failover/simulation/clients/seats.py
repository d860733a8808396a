"""Places of members, as the code that checks whether groups have converged sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from protocol.members.kinds import AnyConfig, Member


class AnyDriver(Protocol):
    """Runs the member on a seat (:class:`failover.simulation.clients.members.SimulatedMember`)."""

    is_gone: bool
    member: Member


class AnyMemberSpec(Protocol):
    """A place for a member (:class:`failover.simulation.clients.members.MemberSpec`)."""

    @property
    def config(self) -> AnyConfig:
        """The settings of the current member."""

    @property
    def driver(self) -> AnyDriver | None:
        """The driver of the current member, if there is one."""
