"""What can happen to the cluster during a scenario, as settings: a class for each ``do``.

Faults hit the coordinator of ``group`` (not given: of the first group), or ``node``. What is killed
is restarted, at once or after it was away ``for`` a while. How each is carried out is a row of
``bench.scenarios.simulated`` and of ``bench.rehearsals.stages``.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, field

from bench.scenarios.values import Duration

NODES: Final = 3
"""The nodes of the cluster of a scenario with faults, unless its ``nodes`` says how many."""
Node = Annotated[int, Meta(ge=0)]


class KillCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="kill"
):
    """End the coordinator's process, as ``kill -9`` does."""

    at: Duration
    lasts: Duration | None = field(name="for", default=None)
    group: str | None = None
    node: Node | None = None


class RestartCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="restart"
):
    """Restart the coordinator's process as an upgrade does: it hands over what it leads before."""

    at: Duration
    lasts: Duration | None = field(name="for", default=None)
    group: str | None = None
    node: Node | None = None


class FreezeCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="freeze"
):
    """Stop the coordinator's process ``for`` a while without ending it, as SIGSTOP does."""

    at: Duration
    lasts: Duration = field(name="for")
    group: str | None = None
    node: Node | None = None


class CutCoordinator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag="cut"
):
    """Cut the coordinator off from its peers ``for`` a while, but not from its clients."""

    at: Duration
    lasts: Duration = field(name="for")
    group: str | None = None
    node: Node | None = None


Fault: TypeAlias = KillCoordinator | RestartCoordinator | FreezeCoordinator | CutCoordinator


def word_of(told: Struct) -> str:
    """Return the ``do`` of a fault, or of a behaviour."""
    return str(type(told).__struct_config__.tag)
